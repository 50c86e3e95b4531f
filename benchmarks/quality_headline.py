"""Error of the headline and coverage of the typical range on suites of real shifts.

Everything is judged leave-one-suite-out: constants of the method and reference errors come from
suites with other data and other models. Build the suites first: python -m benchmarks.suites.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._results import machine_facts, markdown_table, write_results
from benchmarks.suites.leave_one_out import read_all, related_suites
from benchmarks.suites.reference_errors import reference_of, with_covariates
from benchmarks.suites.suite import REGIMES
from oodometer.assessment.conformal_interval import History
from oodometer.assessment.typical_range import Covariates, typical_range
from oodometer.core.array_types import Bools, Floats
from oodometer.estimators import regime_weighting
from oodometer.estimators.regime_weighting import auc_standard_error

NAME = "quality_headline"
HEADLINE = "regime"
# Methods that the headline is compared with; those that need features or several models are not.
METHODS = ("ac", "doc", "atc-mc", "atc-ne", "im", "cot", "cott", "bbse", "mlls", "iw", "pape")
# Constants of the method among which the suites choose: limit of the AUROC, remaining share.
LIMITS = (0.55, 0.58, 0.6, 0.62, 0.65)
SHARES = (0.0, 0.5, 0.6, 0.65, 0.7, 0.8)
# Rows per side above which the error without shift is judged.
MANY_ROWS = 1000
HISTORY_CASES = 20
HISTORY_DRAWS = 10


def mean_by_suite(table: Any, values: Any) -> Any:
    """Return the mean of the values by suite, every regime with the same weight."""
    by_regime = values.groupby([table["suite"], table["regime"]]).mean()
    return by_regime.groupby(level=0).mean()


def error(table: Any, values: Any) -> Any:
    """Return the absolute error in points."""
    return 100 * (values - table["truth"]).abs()


def reweighted(table: Any, limit: float, share: float) -> Any:
    """Return the estimates of the headline method with other constants."""
    auc, after = table["regime_auc"], table["regime_auc_reweighted"]
    limits = np.maximum(limit, 0.5 + share * (auc - 0.5))
    other = _logistic((after - limits) / regime_weighting.LABEL_SHIFT_WIDTH)
    errors = [
        auc_standard_error(*sizes) for sizes in table[["n_source", "n_target"]].to_numpy().tolist()
    ]
    deviations = (auc - 0.5) / np.array(errors)
    label = _logistic(
        (deviations - regime_weighting.ALIKE_DEVIATIONS) / regime_weighting.ALIKE_WIDTH
    )
    rows = np.minimum(table["smallest_class"], table["n_target"] / table["k"])
    label = label * (1 - other) * np.minimum(1.0, rows / regime_weighting.MIN_CLASS_ROWS)
    return (
        (1 - label - other) * table["confidence"]
        + label * table["confidence_after_label_shift"]
        + other * table["transport"]
    )


def _logistic(x: Any) -> Any:
    return 0.5 * (1 + np.tanh(0.5 * x))


def choose_constants(table: Any, groups: Sequence[Sequence[str]]) -> tuple[Any, list[str]]:
    """Return the estimates with constants chosen on unrelated suites, and the chosen constants."""
    candidates = {
        (limit, share): reweighted(table, limit, share) for limit, share in product(LIMITS, SHARES)
    }
    means = {key: mean_by_suite(table, error(table, v)) for key, v in candidates.items()}
    result = table["estimate"] * np.nan
    chosen = []
    for group in groups:
        inside = table["suite"].isin(group)
        if not inside.any():
            continue
        best = min(means, key=lambda key: means[key][~means[key].index.isin(group)].mean())
        result = result.where(~inside, candidates[best])
        chosen.append(f"{', '.join(group)}: {best[0]:g}, {best[1]:g}")
    return result, chosen


def ranges(
    table: Any, groups: Sequence[Sequence[str]], history: Callable[[Any, int], Any] | None = None
) -> tuple[Floats, Floats]:
    """Return the bounds of the typical range of every case, from unrelated suites.

    `history` returns the rows of the past domains of a case, given the table and the row number.
    """
    low, high = np.full(len(table), np.nan), np.full(len(table), np.nan)
    for group in groups:
        inside = table["suite"].isin(group).to_numpy()
        if not inside.any():
            continue
        reference = reference_of(table[~inside])
        for row in np.flatnonzero(inside).tolist():
            case = table.iloc[row]
            past = None if history is None else history(table, row)
            if history is not None and past is None:
                continue
            found = typical_range(
                case["estimate"],
                Covariates(case["standard_error"], case["domain_auc"], case["confidence_distance"]),
                history=None if past is None else _history(past),
                spread=None if past is None else case["diag_estimator_spread"],
                reference=reference,
            )
            low[row], high[row] = found.low, found.high
    return low, high


def _history(past: Any) -> History:
    return History(
        past["estimate"].to_numpy(),
        past["truth"].to_numpy(),
        past["diag_estimator_spread"].to_numpy(),
    )


def same_suite(table: Any, row: int) -> Any:
    """Return 20 random cases of the same suite and regime; None if there are fewer."""
    case = table.iloc[row]
    others = (table["suite"] == case["suite"]) & (table["regime"] == case["regime"])
    others &= table["target"] != case["target"] if case["regime"] == "shift" else True
    places = np.flatnonzero(others.to_numpy())
    places = places[places != row]
    if len(places) < HISTORY_CASES:
        return None
    rng = np.random.default_rng(row)
    return table.iloc[rng.choice(places, HISTORY_CASES, replace=False)]


def coverage_rows(table: Any, low: Floats, high: Floats) -> tuple[list[tuple[str, ...]], Any, Any]:
    """Return coverage and half-width by regime, and both by suite."""
    known = ~np.isnan(low)
    part = table[known]
    held = (part["truth"] >= low[known]) & (part["truth"] <= high[known])
    half = 100 * (high - low)[known] / 2
    widths = part["truth"] * 0 + half
    rows = []
    for regime in REGIMES:
        here = part["regime"] == regime
        covered = held[here].groupby(part["suite"]).mean().mean()
        rows.append((regime, str(int(here.sum())), f"{covered:.0%}",
                     f"{widths[here].groupby(part['suite']).mean().mean():.1f}"))  # fmt: skip
    return rows, mean_by_suite(part, held), widths


def by_suite(table: Any, columns: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """Return the mean error of each column by suite, and the mean over suites."""
    means = {name: mean_by_suite(table, error(table, values)) for name, values in columns.items()}
    suites = list(dict.fromkeys(table["suite"]))
    rows = [(suite, *(_cell(mean.get(suite)) for mean in means.values())) for suite in suites]
    return [*rows, ("mean over suites", *(_cell(mean.mean()) for mean in means.values()))]


def by_regime(table: Any, columns: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """Return the mean error of each column by regime, suites weighted equally."""
    rows = []
    for name, values in columns.items():
        cells = error(table, values).groupby([table["suite"], table["regime"]]).mean()
        means = [cells.xs(regime, level=1).mean() for regime in REGIMES]
        rows.append((name, *map(_cell, means), _cell(cells.groupby(level=0).mean().mean())))
    return sorted(rows, key=lambda row: float(row[-1]))


def _cell(value: float | None) -> str:
    return "–" if value is None or np.isnan(value) else f"{value:.2f}"


def status_facts(table: Any) -> dict[str, float]:
    """Return how often the status is not ok, among the largest errors and without shift."""
    errors = error(table, table["estimate"])
    alarmed = table["headline_status"] != "ok"
    worst = errors >= errors.quantile(0.9)
    quiet = table["regime"] == "none"
    enough: Bools = quiet & (table["n_source"] >= MANY_ROWS) & (table["n_target"] >= MANY_ROWS)
    return {
        "worst": float(alarmed[worst].mean()),
        "none": float(mean_by_suite(table[quiet], alarmed[quiet].astype(float)).mean()),
        "none, many rows": float(
            mean_by_suite(table[enough], alarmed[enough].astype(float)).mean()
        ),
    }


def page(table: Any, full: Any) -> tuple[str, bool]:
    """Return the text of the page, and whether all requirements are met."""
    groups = related_suites()
    columns = {"headline": table["estimate"]}
    columns["headline, constants from other suites"], chosen = choose_constants(table, groups)
    columns |= {method: table[f"est_{method}"].fillna(table["est_ac"]) for method in METHODS}
    columns["source accuracy"] = table["source_accuracy"]
    means = {name: mean_by_suite(table, error(table, v)).mean() for name, v in columns.items()}
    judged = means["headline, constants from other suites"]
    best = min(METHODS, key=lambda name: means[name])
    before = table["previous_headline"]
    loss = mean_by_suite(table, error(table, table["estimate"])) - mean_by_suite(
        table, error(table, before)
    )
    regime_means = (
        error(table, columns["headline, constants from other suites"])
        .groupby([table["suite"], table["regime"]])
        .mean()
    )
    many = (table["n_source"] >= MANY_ROWS) & (table["n_target"] >= MANY_ROWS)
    many &= table["regime"] == "none"
    quiet_error = error(table, table["estimate"])[many].groupby(table["suite"]).mean().mean()
    label_error = regime_means.xs("label", level=1).mean()
    demo = table[(table["suite"] == "demo") & (table["regime"].isin(["none", "label", "shift"]))]
    low, high = ranges(table, groups)
    rows, suites, widths = coverage_rows(table, low, high)
    past_low, past_high = ranges(table, groups, same_suite)
    past_rows, past_suites, past_widths = coverage_rows(table, past_low, past_high)
    ratio = (past_widths / widths[past_widths.index]).groupby(table["suite"]).mean().mean()
    past_cover, cover = past_suites.mean(), suites[suites.index.isin(past_suites.index)].mean()
    quiet_width = float(rows[0][3])
    statuses = status_facts(table)
    requirements = [
        ("error at most 0.6 of that of atc-ne", f"{judged / means['atc-ne']:.2f}",
         judged <= 0.6 * means["atc-ne"]),
        (f"error at most 0.85 of that of the best single method ({best})",
         f"{judged / means[best]:.2f}", judged <= 0.85 * means[best]),
        ("worse than the previous headline by at most 0.5 points on every suite",
         f"{loss.max():+.2f} ({loss.idxmax()})", loss.max() <= 0.5),
        ("without shift, 1,000 rows or more per side, at most 1.5 points", f"{quiet_error:.2f}",
         quiet_error <= 1.5),
        ("under label shift at most 4 points", f"{label_error:.2f}", label_error <= 4),
        ("typical range: coverage at least 88 % over suites", f"{suites.mean():.1%}",
         suites.mean() >= 0.88),
        ("typical range: no suite under 60 %", f"{suites.min():.0%} ({suites.idxmin()})",
         suites.min() >= 0.6),
        ("typical range: half-width without shift at most 9 points", f"{quiet_width:.1f}",
         quiet_width <= 9),
        ("with 20 cases of the same suite, the width shrinks by a third",
         f"to {ratio:.2f} of the width, coverage {past_cover:.1%} instead of {cover:.1%}",
         ratio <= 2 / 3 and past_cover >= min(cover, 0.88) - 0.005),
        ("status not ok on at least 80 % of the worst tenth of errors", f"{statuses['worst']:.0%}",
         statuses["worst"] >= 0.8),
        ("status not ok on at most 10 % of the cases without shift", f"{statuses['none']:.0%}",
         statuses["none"] <= 0.1),
    ]  # fmt: skip
    fmow = full[full["family"] == "fmow"]
    parts = [
        f"{len(table):,} cases of {table['suite'].nunique()} suites ({table['family'].nunique()} "
        "families of data): one model on one target each, without shift, with label shift drawn "
        "from a Dirichlet distribution, with a real shift, and with both. Suites and regimes have "
        "the same weight. Errors are mean absolute errors in points of accuracy. A suite is judged "
        "with what suites of other data and other pretrained bodies tell.",
        "## Requirements",
        markdown_table(
            ("requirement", "measured", "met"),
            [(name, value, "yes" if met else "**no**") for name, value, met in requirements],
        ),
        _discussion(table),
        "## Error by regime",
        markdown_table(("method", *REGIMES, "mean"), by_regime(table, columns)),
        "`ac` replaces methods that do not apply to given decisions. The constants of `regime` "
        "(limit of the AUROC, remaining share) that the other suites choose, by left-out suites: "
        f"{'; '.join(chosen)}.",
        "## Error by suite",
        markdown_table(
            ("suite", "headline", "previous headline", "ac", "atc-ne", "cot"),
            by_suite(table, {"headline": table["estimate"], "before": before,
                             **{m: columns[m] for m in ("ac", "atc-ne", "cot")}}),
        ),
        "The previous headline was `ac` if source and target look alike, with two classes or with "
        "given decisions, and `cot` otherwise.",
        "## Typical range",
        markdown_table(("regime", "cases", "coverage of the 90 % range", "half-width, points"), rows),
        f"With a history of {HISTORY_CASES} random cases of the same suite and regime:",
        markdown_table(("regime", "cases", "coverage of the 90 % range", "half-width, points"),
                       past_rows),
        "## Status",
        f"The status is not ok in {statuses['worst']:.0%} of the worst tenth of the errors, in "
        f"{statuses['none']:.0%} of the cases without shift, and in "
        f"{statuses['none, many rows']:.0%} of those with {MANY_ROWS:,} rows or more per side. In the "
        f"suite demo, {len(demo)} cases without a second shift, the error is "
        f"{error(demo, demo['estimate']).mean():.1f} on average.",
        "## Confidences only",
        _confidences_only(fmow),
        machine_facts(),
    ]  # fmt: skip
    return "\n\n".join(parts), all(met for _, _, met in requirements)


def _discussion(table: Any) -> str:
    both = table[table["regime"] == "both"]
    errors = both["estimate"] - both["truth"]
    return (
        "Where a requirement is not met, no rule that was tried met it: products of corrections "
        "(COT · ATC / AC, with COTT), a mixture of experts with weights learned on other suites, and "
        "gradient boosting on all estimates and statistics had a higher mean error. What remains is "
        "the error under shift together with label shift, which outputs alone do not identify: the "
        "same change of predicted classes can be a change of class frequencies or a confusion of "
        f"classes (10 % of the errors are below {100 * errors.quantile(0.1):.0f}, 10 % above "
        f"{100 * errors.quantile(0.9):+.0f} points)."
    )


def _confidences_only(fmow: Any) -> str:
    """Return the errors of atc-mc on FMoW with its drop multiplied by a factor."""
    if not len(fmow):
        return "The suite fmow was not built."
    rows = []
    for factor in (1.0, 1.25, 1.5, 2.0):
        cells = []
        for part in ("val", "test", "none"):
            here = fmow[fmow["regime"] == "none"] if part == "none" else fmow[
                (fmow["regime"] == "shift") & fmow["target"].str.startswith(part)]  # fmt: skip
            value = here["source_accuracy"] - factor * (
                here["source_accuracy"] - here["est_atc-mc"]
            )
            cells.append(_cell(error(here, value).mean()))
        rows.append((f"{factor:g}", *cells))
    return (
        markdown_table(("factor of the drop", "folds of val", "folds of test", "no shift"), rows)
        + "\n\nWithout probabilities of all classes, the headline is `atc-mc` or `doc`. A factor for "
        "the drop of ATC would be chosen on the folds of `val`; the factor 1 is kept, because others "
        "gain little on one dataset and lose without shift."
    )


def previous_headline(table: Any) -> Any:
    """Return the headline of the previous rule."""
    alike = (table["status_score_distance"] == "ok") & (table["status_domain_auc"] == "ok")
    use_ac = alike | (table["k"] == 2) | table["est_cot"].isna()
    return table["est_ac"].where(use_ac, table["est_cot"])


def main() -> int:
    options = argparse.ArgumentParser(
        prog="python -m benchmarks.quality_headline", description=__doc__
    )
    options.add_argument("--folder", type=Path, default=Path("studies") / "suites")
    full = read_all(options.parse_args().folder)
    table = with_covariates(full)
    table["previous_headline"] = previous_headline(table)
    text, met = page(table, full)
    write_results(NAME, text)
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
