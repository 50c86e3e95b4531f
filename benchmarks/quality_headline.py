"""Selection of the headline rule on one half of real suites, and its evaluation on the other half.

The rule with the lowest mean error over the suites on the selection half is the rule of the headline
(oodometer/assessment/headline.py), which this page checks. The evaluation half shows its error next
to every single method, the coverage of the intervals, and the value of the diagnostics.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from itertools import chain

import numpy as np

from benchmarks._results import RESULTS, data_folder, machine_facts, markdown_table, write_results
from benchmarks.suites.reference_halves import ReferenceCase, all_cases
from oodometer.assessment.conformal_interval import History
from oodometer.assessment.diagnostics import COMPARED_METHODS
from oodometer.assessment.headline import SIMILARITY_DIAGNOSTICS
from oodometer.cli._runtime import error_console
from oodometer.core.array_types import Floats
from oodometer.core.results import STATUSES_WORST_FIRST
from oodometer.report.terminal import progress_bar

SUITES = ("fmow", "pacs", "sentiment")
NAME = "quality_headline"
RULE = "doc if source and target look alike, else cot, else atc-mc"
Rule = Callable[[ReferenceCase], float]


def _of(*names: str, by: Callable[[Floats], float] = np.mean) -> Rule:
    """Return a rule that aggregates several methods, or uses atc-mc if one is missing."""

    def rule(case: ReferenceCase) -> float:
        values = np.array([case.values[name] for name in names if name in case.values])
        return float(by(values)) if len(values) == len(names) else case.values["atc-mc"]

    return rule


def _near(method: str, far: Rule) -> Rule:
    """Return a rule that uses one method if source and target look alike, otherwise another rule."""

    def rule(one: ReferenceCase) -> float:
        alike = all(one.statuses.get(name) == "ok" for name in SIMILARITY_DIAGNOSTICS)
        return one.values[method] if alike else far(one)

    return rule


COT = _of("cot")
RULES: dict[str, Rule] = {
    "atc-mc": _of("atc-mc"),
    "doc": _of("doc"),
    "cot, else atc-mc": COT,
    RULE: _near("doc", COT),
    "im if source and target look alike, else cot, else atc-mc": _near("im", COT),
    "atc-mc if source and target look alike, else cot, else atc-mc": _near("atc-mc", COT),
    "cott, else atc-mc": _of("cott"),
    "mean of cot and cott, else atc-mc": _of("cot", "cott"),
    "lower of cot and cott, else atc-mc": _of("cot", "cott", by=np.min),
    "mean of cot and atc-mc": _of("cot", "atc-mc"),
    "lower of cot and atc-mc": _of("cot", "atc-mc", by=np.min),
    "median of cot, cott and atc-mc": _of("cot", "cott", "atc-mc", by=np.median),
    "median of all": lambda one: float(np.median(list(one.values.values()))),
}


def error(
    cases: Sequence[ReferenceCase], said: Callable[[ReferenceCase], float | None]
) -> float | None:
    """Return the mean absolute error in points over the cases with a value."""
    pairs = [(said(one), one.truth) for one in cases]
    known = [abs(value - truth) for value, truth in pairs if value is not None]
    return 100 * float(np.mean(known)) if known else None


def some(
    cases: Sequence[ReferenceCase], half: str, suite: str | None = None
) -> list[ReferenceCase]:
    """Select the cases of a half (`home` selects both in-distribution halves) and of a suite."""
    return [
        one
        for one in cases
        if half in (one.half, one.half.partition(",")[0]) and suite in (None, one.suite)
    ]


def chosen(cases: Sequence[ReferenceCase]) -> list[tuple[str, ...]]:
    """Return each rule's error by suite on the selection half, best rule first."""
    rows = []
    for name, rule in RULES.items():
        found = [
            error(some(cases, half, suite), rule)
            for half in ("choose", "home, choose")
            for suite in SUITES
        ]
        rows.append((float(np.mean([one for one in found if one is not None])), name, found))
    return [(name, *map(_cell, found), f"{mean:.2f}") for mean, name, found in sorted(rows)]


def judged(cases: Sequence[ReferenceCase]) -> list[tuple[str, ...]]:
    """Return the errors of the headline, the source accuracy and every method on the evaluation half."""
    methods = dict.fromkeys(chain.from_iterable(one.values for one in cases))
    said: dict[str, Callable[[ReferenceCase], float | None]] = {
        "headline": lambda one: one.values[one.headline],
        "source accuracy": lambda one: one.source,
    }
    for method in methods:
        said[method] = lambda one, method=method: one.values.get(method)  # type: ignore[misc]
    rows = []
    for name, say in said.items():
        here = [error(some(cases, "judge", suite), say) for suite in SUITES]
        home = [error(some(cases, "home, judge", suite), say) for suite in SUITES]
        whole = f"{np.mean(here):.2f}" if None not in here else ""  # type: ignore[arg-type]
        rows.append((name, *map(_cell, here), whole, *map(_cell, home)))
    return rows


def _cell(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def covered(cases: Sequence[ReferenceCase]) -> list[tuple[str, ...]]:
    """Return the coverage of the headline's intervals by suite."""
    rows: list[tuple[str, ...]] = []
    for suite in SUITES:
        past, new = some(cases, "choose", suite), some(cases, "judge", suite)
        home = some(cases, "home", suite)
        for kind in ("confidence interval", "typical range", "typical range, not scaled by spread"):
            at_home, here = ([_interval(one, past, kind) for one in part] for part in (home, new))
            halves = [(high - low) / 2 for low, high in here]
            rows.append(
                (
                    suite,
                    kind,
                    _share(home, at_home),
                    _share(new, here),
                    f"{100 * np.mean(halves):.1f}",
                )
            )
    return rows


def _interval(one: ReferenceCase, past: Sequence[ReferenceCase], kind: str) -> tuple[float, float]:
    if kind == "confidence interval":
        return one.intervals[one.headline]
    history = History(
        np.array([each.values[each.headline] for each in past]),
        np.array([each.truth for each in past]),
        np.array([spread(each) for each in past]),
    )
    by = None if kind.endswith("spread") else spread(one)
    found = history.interval(one.values[one.headline], by)
    return found.low, found.high


def spread(one: ReferenceCase) -> float:
    return one.diagnostics["estimator_spread"]


def _share(cases: Sequence[ReferenceCase], intervals: Sequence[tuple[float, float]]) -> str:
    held = [low <= one.truth <= high for one, (low, high) in zip(cases, intervals, strict=True)]
    return f"{np.mean(held):.0%}"


def by_status(cases: Sequence[ReferenceCase]) -> list[tuple[str, ...]]:
    """Return, per diagnostic, how often it is not ok in-distribution, and the headline's error by status."""
    rows = []
    for name in dict.fromkeys(chain.from_iterable(one.statuses for one in cases)):
        home = [one for one in some(cases, "home") if name in one.statuses]
        away = [one for one in some(cases, "judge") if name in one.statuses]
        quiet = np.mean([one.statuses[name] == "ok" for one in home])
        errors = []
        for status in STATUSES_WORST_FIRST[::-1]:
            part = [one for one in away if one.statuses[name] == status]
            found = error(part, lambda one: one.values[one.headline])
            errors.append("–" if found is None else f"{found:.1f} ({len(part)})")
        rows.append((name, f"{1 - quiet:.0%}", *errors))
    return rows


def page(cases: Sequence[ReferenceCase]) -> tuple[str, bool]:
    """Return the text, and whether the rule in use is the selected one."""
    rules, methods = chosen(cases), judged(cases)
    right = rules[0][0] == RULE
    counts = ", ".join(
        f"{suite} {len(some(cases, 'choose', suite))} / {len(some(cases, 'judge', suite))} / "
        f"{len(some(cases, 'home', suite))}"
        for suite in SUITES
    )
    homes = [f"{suite}, ID" for suite in SUITES]
    parts = [
        "A case is one model on one target. FMoW-WILDS: five published models; the folds of `val` select "
        "the rule and the folds of `test` evaluate it (these outputs are not full probability vectors, so "
        "`cot` does not apply). PACS: a hundred small networks; reviews: 128 text CNNs; every second pair "
        "of domains selects, the others evaluate. In-distribution (ID) cases test a model on its training "
        "domain; half of them take part in the selection, because a headline must also be right without "
        f"shift. Cases (selection / evaluation / ID): {counts}. All errors are mean absolute errors in "
        "points of accuracy.",
        "## Selection of the rule",
        markdown_table(("rule", *SUITES, *homes, "mean"), rules),
        "Source and target look alike if the diagnostics score_distance and domain_auc are ok. "
        f"The rule with the lowest mean: {rules[0][0]}. The rule in use: {RULE} "
        f"({'the same' if right else 'NOT the same'}).",
        "## Evaluation of the headline and of every method",
        markdown_table(("method", *SUITES, "mean", *homes), methods),
        f"On the evaluation half the headline is off by {methods[0][4]} points on average over suites, "
        f"the source accuracy by {methods[1][4]}. On PACS no method is reliable: models trained on one "
        "style at 32 pixels are hardly better than chance on another, and every method overestimates.",
        "## Intervals",
        markdown_table(
            ("suite", "95% interval", "coverage, ID", "coverage under shift", "half-width, points"),
            covered(cases),
        ),
        "The confidence interval is the bootstrap interval. The typical range is conformal, with the "
        "cases of the selection half of the same suite as the history.",
        "## Diagnostics",
        markdown_table(("diagnostic", "not ok, ID", *(f"error when {one}" for one in STATUSES_WORST_FIRST[::-1])),
                       by_status(cases)),
        "Number of cases in brackets, evaluation half, all suites together. The spread is that of "
        f"{', '.join(COMPARED_METHODS)}.",
        machine_facts(),
    ]  # fmt: skip
    return "\n\n".join(parts), right


def main() -> int:
    import pyarrow as pa
    import pyarrow.parquet as pq

    data = data_folder()
    if data is None:
        print("The research data are not on this machine; nothing was measured.")
        return 0
    with progress_bar(error_console()) as progress:
        cases = all_cases(data, progress)
    rows = [one.row() for one in cases]
    names = dict.fromkeys(chain.from_iterable(rows))  # suites have not all the same
    table = pa.table({name: [row.get(name) for row in rows] for name in names})
    pq.write_table(table, RESULTS / f"{NAME}.parquet")
    text, right = page(cases)
    write_results(NAME, text)
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
