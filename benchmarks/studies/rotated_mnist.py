"""Rotated MNIST: forty measures of domain generalization (Vedantam et al., NeurIPS 2021, DG).

120 networks trained by ERM and 120 by CORAL, each on five of six angles, and their measures on the
angle left out. Takes about two hours on one core. Everything is resumable: interrupt the script at
any time, and start it again. With the argument `page`, the page is written from the networks that
have been trained and evaluated so far.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.studies._claims import ClaimResult, get_claim, judge
from benchmarks.studies._comparison_page import study_of, study_rows
from benchmarks.studies._dg_analyses import (
    ErrorCorrelations,
    Interval,
    RegressionGain,
    change_difference,
    error_correlations,
    mean_difference,
    mean_interval,
    rank_agreement,
    regression_gain,
)
from benchmarks.studies._dg_charts import picture
from benchmarks.studies._dg_noise import MODELS, SUBSAMPLES, NoiseRatios, noise_ratios
from benchmarks.studies._pages import Page, Scale, Table, reliability_of, write
from benchmarks.studies._published_figures import (
    ATC,
    DG_JOINT,
    DG_JOINT_RHO,
    DG_NOISE,
    DG_TABLE_2,
)
from oodometer.cli._runtime import error_console
from oodometer.measures import get as get_measure
from oodometer.report.terminal import progress_bar
from oodometer.studies import Study
from oodometer.studies.analysis.clustering import Clustering, cluster_measures
from oodometer.studies.analysis.evaluation_table import EvaluationTable
from oodometer.studies.analysis.joint_regression import fit_joint_regressions
from oodometer.studies.analysis.model_bootstrap import bootstrap_statistics
from oodometer.studies.analysis.rank_correlation import apply_signs, measure_directions
from oodometer.studies.analysis.text_tables import MISSING_CELL
from oodometer.studies.plan import plan_study
from oodometer.studies.store import Store

MEASURE_ROWS = 300
ESTIMATORS = ("ac", "doc", "im", "atc-mc", "atc-ne")
NEIGHBORHOOD = ("ni-randaugment", "ni-translate", "ne-randaugment", "ne-translate")
# Measures whose signal-to-noise ratio is computed. The others take more than a second per subset.
NOISE_MEASURES = (*DG_NOISE, "h-divergence-ms", "mmd-gaussian", "mmd-mean-cov", "entropy-source",
                  "entropy-target", "source-error", "jacobian", "jacobian-diff", "mixup",
                  "mixup-diff")  # fmt: skip
# Measures that change between ERM and CORAL according to DG Figure 1.
EXCEPTIONS = ("mmd-gaussian", "mmd-mean-cov", "jacobian", "jacobian-diff", "jacobian-ratio",
              "jacobian-log-diff")  # fmt: skip
RECIPE_COLUMNS = ("recipe.lr", "recipe.batch", "recipe.coral")
KEY_COLUMNS = ("model", "architecture", "trained_on", "tested_on", "accuracy", "n", "seed", "group")
ALGORITHMS = {"erm": "ERM", "coral": "CORAL"}
DONE = (
    "The study of DG, scaled down to two hours on one core. The environments are MNIST rotated by 0°, "
    "15°, …, 75°, a sixth of the digits each. For each environment left out, 20 networks are trained "
    "by ERM and 20 by CORAL on the other five: DomainBed's CNN (four convolutions, group norm, mean "
    "pooling) as a whole, with learning rates and batch sizes drawn at random. Reduced are the width "
    "(16 channels instead of 64), the images (14 × 14 instead of 28 × 28, means of 2 × 2 pixels), the "
    "rows (1,000 per environment instead of 10,000) and the steps (500 instead of 5,000), so that the "
    "number of epochs is the same. The learning rates are four times the paper's, "
    "10^U(−3.9, −1.9), because the network is four times narrower; batch sizes are 2^U(3, 9), as in "
    "the paper. Measures use 300 held-out rows of each of the five source domains and 300 rows of the "
    "target; the true error uses all rows of the target domain, none of which was seen in training. "
    "Table 2 and its claims refer to the ERM networks."
)
DIFFERS = (
    "The paper's table does not name its datasets, presumably VLCS, PACS and Rotated MNIST together; "
    "ours is Rotated MNIST only. Our networks are smaller and trained for a tenth of the steps, so measures "
    "such as source error and the entropies may partly follow the progress of training. The paper compares "
    "the target with training data S; here S are held-out rows of the source domains. |cos| is used "
    "for Fisher-Align because the signs of eigenvectors are arbitrary. The Fisher measures use at "
    "most 1,000 source rows and 300 target rows. The signs of the paper's Figure 3 are not in its "
    "text, except that of L2-Path-Norm."
)


# Tables of evaluations ----------------------------------------------------------------------------


def wide_rows(rows: Any) -> Any:
    """Return one row per evaluation with one column per measure, in float32."""
    import pyarrow as pa

    frame = rows.to_pandas()
    if "recipe.coral" not in frame:
        frame["recipe.coral"] = np.nan
    keys = [name for name in (*KEY_COLUMNS, *RECIPE_COLUMNS) if name in frame]
    index = frame[["model", "tested_on"]].agg("\t".join, axis=1)
    facts = frame[keys].groupby(index).first()
    wide = frame.pivot_table(index=index, columns="measure", values="value", aggfunc="first")
    wide = facts.join(wide.astype(np.float32)).reset_index(drop=True)
    erm = wide["recipe.coral"].isna() | (wide["recipe.coral"] == 0)
    wide.insert(1, "algorithm", np.where(erm, "erm", "coral"))
    return pa.Table.from_pandas(wide, preserve_index=False)


def of_algorithm(table: EvaluationTable, algorithm: str) -> EvaluationTable:
    """Return the evaluations of the networks trained by ERM or by CORAL."""
    cells = table.columns["algorithm"]
    return table.select_rows(np.array([cell == algorithm for cell in cells], dtype=np.bool_))


def evaluated(table: EvaluationTable) -> EvaluationTable:
    """Return the evaluations of the networks whose measures have been computed."""
    known = ~np.isnan(table.measures["source-error"])
    return table.select_rows(np.isin(table.model, table.model[known]))


# Tables of the page -------------------------------------------------------------------------------


def label(name: str) -> str:
    """Return the label of a measure, or the name of an estimator or a neighborhood measure."""
    try:
        return str(get_measure(name).label)
    except Exception:
        return name


def correlation_table(
    names: Iterable[str], erm: ErrorCorrelations, coral: ErrorCorrelations | None
) -> Table:
    """Return DG Table 2: ρ with target error by measure, pooled and per environment."""
    domains = sorted({d for one in erm.environments.values() for d in one}, key=int)
    head = ("measure", "sign", "paper", "pooled (95 % interval)", "mean over environments",
            *(f"{domain}°" for domain in domains), "pooled, CORAL")  # fmt: skip
    rows = []
    for name in names:
        paper = _number(DG_TABLE_2.get(name), signed=False)
        if name not in erm.joint:
            rows.append((label(name), "", paper, "constant", *[MISSING_CELL] * (len(head) - 4)))
            continue
        joint = erm.joint[name]
        bold = "**" if joint.excludes_zero else ""
        by_domain = (_number(erm.environments[name].get(domain)) for domain in domains)
        other = None if coral is None or name not in coral.joint else coral.joint[name]
        rows.append((label(name), "+" if joint.value > 0 else "−", paper, f"{bold}{joint}{bold}",
                     f"{erm.mean[name]}", *by_domain,
                     MISSING_CELL if other is None else f"{other}"))  # fmt: skip
    return head, rows


def _number(value: float | None, *, signed: bool = True) -> str:
    if value is None or np.isnan(value):
        return MISSING_CELL
    return f"{value:+.2f}" if signed else f"{value:.3f}"


def regression_table(table: EvaluationTable, gain: RegressionGain) -> Table:
    """Return the joint regressions: the paper's six measures, and the best subsets."""
    head = ("regression on", "pooled ρ", "ρ on the environment left out", "R² on it")
    fitted = fit_joint_regressions(table, measures=_complete(table))
    rows = [
        ("best single measure", f"{gain.pooled_single:.3f}", f"{gain.held_out_single:.3f}",
         f"{gain.r2_single:.3f}"),
        (f"the paper's six ({', '.join(map(label, DG_JOINT))})",
         f"{gain.pooled:.3f} (paper: {DG_JOINT_RHO})", f"{gain.held_out:.3f}", f"{gain.r2:.3f}"),
        ("gain of the six", *(str(gain.gains[key]) for key in ("pooled", "held_out", "r2"))),
    ]  # fmt: skip
    for subset, words in (("two", "best two measures"), ("all", "all measures of Table 2")):
        one = fitted.regressions[subset]
        chosen = f" ({', '.join(map(label, one.pooled.weights))})" if subset == "two" else ""
        rows.append((f"{words}{chosen}", _number(one.pooled.spearman, signed=False),
                     _number(one.mean("spearman").mean, signed=False),
                     _number(one.mean("r2").mean, signed=False)))  # fmt: skip
    return head, rows


def _complete(table: EvaluationTable) -> list[str]:
    """Return the measures of Table 2 that are not constant."""
    outside = ~table.in_distribution
    return [name for name in DG_TABLE_2 if np.nanstd(table.measures[name][outside]) > 0]


def cluster_table(clusters: Clustering) -> Table:
    """Return the groups of measures whose mean ρ with each other is at least ½."""
    rows = [
        (str(number), ", ".join(map(label, group)))
        for number, group in enumerate(clusters.groups(), 1)
    ]
    return ("group", "measures"), rows


def noise_table(ratios: NoiseRatios) -> Table:
    """Return the mean signal-to-noise ratio by measure, largest first, with the paper's."""
    head = ("measure", "signal to noise (95 % interval)", "paper", "networks")
    found = {name: noise_values(ratios, name) for name in NOISE_MEASURES}
    rows = []
    for name, values in sorted(found.items(), key=lambda item: -np.mean(item[1] or [0.0])):
        if values:
            mean = mean_interval(values)
            paper = f"{DG_NOISE[name]:.2f}" if name in DG_NOISE else MISSING_CELL
            cell = f"{mean.value:.2f} ({mean.low:.2f} to {mean.high:.2f})"
            rows.append((label(name), cell, paper, str(len(values))))
    return head, rows


def noise_values(ratios: NoiseRatios, name: str) -> list[float]:
    """Return the ratios of a measure on all networks that have one."""
    return [one[name] for one in ratios.values() if name in one]


def estimate_table(table: EvaluationTable) -> Table:
    """Return the mean absolute error of each estimator out of distribution, in points."""
    drawn = bootstrap_statistics(table, ["estimation_error"], measures=ESTIMATORS)
    errors = drawn["estimation_error"]
    rows = []
    for name in sorted(ESTIMATORS, key=errors.value):
        low, high = errors.interval(name)
        paper = ATC["MNIST natural"].get(name)
        rows.append((name, f"{errors.value(name):.2f} ({low:.2f} to {high:.2f})",
                     MISSING_CELL if paper is None else f"{paper:.2f}"))  # fmt: skip
    return ("estimator", "error (95 % interval)", "ATC Table 1, MNIST natural"), rows


# Claims -------------------------------------------------------------------------------------------


def tested(name: str, interval: Interval, figures: str, table: EvaluationTable) -> ClaimResult:
    """Return the verdict on a claim from an interval that is positive on the paper's side."""
    models = len(np.unique(table.model))
    return ClaimResult.of(
        name,
        figures,
        interval=interval.bounds,
        models=models,
        configurations=models,
        evaluations=int((~table.in_distribution).sum()),
    )


def untested(name: str, reason: str) -> ClaimResult:
    return ClaimResult.of(name, f"Not tested: {reason}.", holds=None)


def noise_claims(ratios: NoiseRatios) -> list[ClaimResult]:
    """Test the claims on signal-to-noise ratios over the networks that have both ratios."""
    results = []
    for name in ("dg-t1-h-hdh-ss", "dg-t1-h-hdh-ms", "dg-t1-ms-ss"):
        claim = get_claim(name)
        both = [one for one in ratios.values() if claim.first in one and claim.second in one]
        if len(both) < 2:
            results.append(untested(name, "fewer than two networks have both ratios"))
            continue
        first, second = ([one[key] for one in both] for key in (claim.first, claim.second))
        figures = f"{np.mean(first):.2f} against {np.mean(second):.2f} (mean over networks)"
        interval = mean_difference(first, second).bounds
        results.append(
            ClaimResult.of(name, figures, interval=interval, models=len(both),
                           configurations=len(both), evaluations=len(both))
        )  # fmt: skip
    return results


def regression_claims(gain: RegressionGain, table: EvaluationTable) -> list[ClaimResult]:
    return [
        tested("dg-3-joint-regression", gain.gains["pooled"],
               f"{gain.pooled:.3f} against {gain.pooled_single:.3f} (pooled ρ)", table),
        tested("dg-3-joint-held-out", gain.gains["held_out"],
               f"{gain.held_out:.3f} against {gain.held_out_single:.3f} (mean ρ over environments)",
               table),
    ]  # fmt: skip


def coral_claims(
    erm: ErrorCorrelations, coral: ErrorCorrelations | None, table: EvaluationTable
) -> list[ClaimResult]:
    names = ("dg-f1-coral-rank", "dg-f1-coral-exceptions")
    if coral is None:
        return [untested(name, "the CORAL networks are not evaluated yet") for name in names]
    agreement = rank_agreement(erm, coral)
    change = change_difference(erm, coral, EXCEPTIONS)
    return [
        tested(names[0], agreement.minus(0.5), f"{agreement.value:.3f}", table),
        tested(names[1], change, f"{change.value:+.3f} (difference of the mean |change of ρ|)", table),
    ]  # fmt: skip


def path_norm_claim(erm: ErrorCorrelations, table: EvaluationTable) -> ClaimResult:
    rho = erm.joint["l2-path-norm"]
    flipped = Interval(-rho.value, -rho.high, -rho.low)
    return tested("dg-5-path-norm", flipped, f"ρ = {rho.value:+.3f} (pooled)", table)


# Page ---------------------------------------------------------------------------------------------


def clusters_of(table: EvaluationTable) -> Clustering:
    """Cluster the measures of Table 2 by 1 − ρ after giving each its canonical sign."""
    signs, _ = measure_directions(table)
    chosen = {name: signs[name] for name in DG_TABLE_2 if name in signs}
    return cluster_measures(apply_signs(table, chosen))


def correlations_by_algorithm(
    table: EvaluationTable, measures: Sequence[str]
) -> tuple[ErrorCorrelations, ErrorCorrelations | None]:
    """Return the correlations of ERM networks, and of CORAL networks if all angles have some."""
    erm, coral = (of_algorithm(table, algorithm) for algorithm in ALGORITHMS)
    found = error_correlations(erm, measures)
    if not len(coral) or len(np.unique(coral.trained_on)) < len(np.unique(erm.trained_on)):
        return found, None
    return found, error_correlations(coral, measures, seed=1)


def build_page(
    table: EvaluationTable, ratios: NoiseRatios, *, planned: int
) -> tuple[Page, ErrorCorrelations, ErrorCorrelations | None, Clustering]:
    """Analyse the evaluations; return the page and what its pictures show."""
    table = evaluated(table)
    erm_table = of_algorithm(table, "erm")
    further = [n for n in table.measures if n not in DG_TABLE_2 and _varies(erm_table, n)]
    erm, coral = correlations_by_algorithm(table, [*DG_TABLE_2, *further])
    shown = error_table_names(further)
    table_2 = replace_measures(erm, DG_TABLE_2), coral and replace_measures(coral, DG_TABLE_2)
    gain = regression_gain(erm_table, DG_JOINT, _complete(erm_table))
    reliability = reliability_of(erm_table)
    median = None if reliability is None else reliability.median
    results = [
        *noise_claims(ratios),
        *judge(erm_table, "rotated_mnist", reliability=median),
        *regression_claims(gain, erm_table),
        *coral_claims(*table_2, table),
        path_norm_claim(erm, erm_table),
    ]
    clusters = clusters_of(erm_table)
    tables = {
        "DG Table 2: Spearman's ρ of measures with target error, ERM": correlation_table(
            DG_TABLE_2, erm, coral
        ),
        "Measures and variants that Table 2 does not list": correlation_table(shown, erm, coral),
        "Joint regression of target error (DG Appendix 3), ERM": regression_table(erm_table, gain),
        "Groups of measures (DG Figure 2), ERM": cluster_table(clusters),
        f"DG Table 1: signal to noise over {SUBSAMPLES} subsets of 80 % of the rows": noise_table(
            ratios
        ),
        "Estimators: mean absolute error out of distribution, in points": estimate_table(erm_table),
    }
    page = Page(
        name="rotated_mnist",
        title="Rotated MNIST: forty measures of domain generalization",
        done=DONE,
        tables=tables,
        differs=DIFFERS,
        results=results,
        scale=scale_of(table),
        reliability=reliability,
        notes=notes_of(table, erm, gain, planned=planned),
    )
    return page, *table_2, clusters


def replace_measures(found: ErrorCorrelations, names: Iterable[str]) -> ErrorCorrelations:
    """Return the correlations of some of the measures."""
    chosen = [name for name in names if name in found.measures]
    rows = [found.measures.index(name) for name in chosen]
    return replace(found, measures=tuple(chosen), replicates=found.replicates[rows])


def error_table_names(further: Sequence[str]) -> list[str]:
    """Return the names of the second table: measures first, then neighborhoods and estimators."""
    last = [name for name in (*NEIGHBORHOOD, *ESTIMATORS) if name in further]
    skipped = ("pa-", "ei-", "ni-", "ne-")
    return [n for n in further if n not in last and not n.startswith(skipped)] + last


def _varies(table: EvaluationTable, name: str) -> bool:
    values = table.measures[name][~table.in_distribution]
    return bool(np.isfinite(values).sum() > 2 and np.nanstd(values) > 0)


def scale_of(table: EvaluationTable) -> Scale:
    return replace(Scale.of_table(table, kind="whole networks"), seeds=None, configurations=None)


def notes_of(
    table: EvaluationTable, erm: ErrorCorrelations, gain: RegressionGain, *, planned: int
) -> list[str]:
    """Return sentences about the counts, the spread of the error, signs and missing values."""
    counts = {
        words: len(np.unique(of_algorithm(table, name).model)) for name, words in ALGORITHMS.items()
    }
    erm_table = of_algorithm(table, "erm")
    outside = ~erm_table.in_distribution
    low, high = np.quantile(1 - erm_table.accuracy[outside], [0.05, 0.95])
    significant = [
        name for name in DG_TABLE_2 if name in erm.joint and erm.joint[name].excludes_zero
    ]
    missing = {name: int(np.isnan(erm_table.measures[name][outside]).sum()) for name in DG_TABLE_2}
    lacking = ", ".join(f"{label(name)} {count}" for name, count in missing.items() if count)
    turned = [name for name in erm.joint if name in DG_TABLE_2 and _sign_differs(erm, name)]
    return [
        f"Networks evaluated: {counts['ERM']} ERM and {counts['CORAL']} CORAL of {planned} planned. "
        f"Target error of the ERM networks (central 90 %): {100 * low:.0f} to {100 * high:.0f} %.",
        f"Bold: the 95 % interval of the pooled ρ excludes 0, for {len(significant)} of "
        f"{len([n for n in DG_TABLE_2 if n in erm.joint])} measures. "
        f"The sign of the pooled ρ differs from the sign of the mean over environments for "
        f"{', '.join(map(label, turned)) or 'no measure'}.",
        f"The regressions use the {gain.n} ERM networks that have all measures."
        + (f" Without a value: {lacking}." if lacking else ""),
        f"The signal-to-noise ratios are means over {MODELS} ERM networks drawn at random.",
    ]  # fmt: skip


def _sign_differs(found: ErrorCorrelations, name: str) -> bool:
    return bool(found.joint[name].value * found.mean[name].value < 0)


def stored_rows(study: Study) -> Any:
    """Return the rows of all evaluations that are in the store."""
    with Store.open(Path("studies") / study.name) as store:
        return store.to_table(plan_study(study).result_keys())


def main(arguments: Sequence[str]) -> int:
    study = study_of(__file__)
    if study is None:
        return 0
    with progress_bar(error_console()) as progress:
        rows = stored_rows(study) if "page" in arguments else study_rows(study, progress=progress)
    rows = wide_rows(rows)
    folder = Path("studies") / f"{study.name}_noise"
    ratios = noise_ratios(study, folder, NOISE_MEASURES, measure_rows=MEASURE_ROWS)
    planned = sum(len(pool.spec.recipes()) for pool in study.pools)
    page, erm, coral, clusters = build_page(EvaluationTable.read(rows), ratios, planned=planned)
    write(page, rows, picture(erm, coral, clusters, label))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
