"""Which estimate to show first, and how far to trust it: chosen on one half of real suites, judged
on the other.

Rules are tried on the half that chooses; the one with the lowest mean error over the suites is the
headline's (oodometer/assessment/headline.py), which this page checks. The other half tells its
error beside every single method, how often intervals hold the truth, and what the diagnostics are
worth.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from itertools import chain

import numpy as np

from benchmarks._results import RESULTS, data_folder, machine_facts, markdown_table, write_results
from benchmarks._suites import Case, all_cases
from oodometer.assessment.conformal_interval import History
from oodometer.assessment.diagnostics import COMPARED_METHODS, STATUSES_WORST_FIRST
from oodometer.assessment.headline import SIMILARITY_DIAGNOSTICS
from oodometer.cli._runtime import error_console
from oodometer.core.array_types import Floats
from oodometer.report.terminal import progress_bar

SUITES = ("fmow", "pacs", "sentiment")
NAME = "quality_headline"
RULE = "doc where both look alike, else cot, else atc-mc"
Rule = Callable[[Case], float]


def _of(*names: str, by: Callable[[Floats], float] = np.mean) -> Rule:
    """Some methods' values put together; where one is missing, what atc-mc says."""

    def rule(one: Case) -> float:
        some = np.array([one.values[name] for name in names if name in one.values])
        return float(by(some)) if len(some) == len(names) else one.values["atc-mc"]

    return rule


def _near(method: str, far: Rule) -> Rule:
    """One method where source and target look alike, another rule elsewhere."""

    def rule(one: Case) -> float:
        alike = all(one.statuses.get(name) == "ok" for name in SIMILARITY_DIAGNOSTICS)
        return one.values[method] if alike else far(one)

    return rule


COT = _of("cot")
RULES: dict[str, Rule] = {
    "atc-mc": _of("atc-mc"),
    "doc": _of("doc"),
    "cot, else atc-mc": COT,
    RULE: _near("doc", COT),
    "im where both look alike, else cot, else atc-mc": _near("im", COT),
    "atc-mc where both look alike, else cot, else atc-mc": _near("atc-mc", COT),
    "cott, else atc-mc": _of("cott"),
    "mean of cot and cott, else atc-mc": _of("cot", "cott"),
    "lower of cot and cott, else atc-mc": _of("cot", "cott", by=np.min),
    "mean of cot and atc-mc": _of("cot", "atc-mc"),
    "lower of cot and atc-mc": _of("cot", "atc-mc", by=np.min),
    "median of cot, cott and atc-mc": _of("cot", "cott", "atc-mc", by=np.median),
    "median of all": lambda one: float(np.median(list(one.values.values()))),
}


def error(cases: Sequence[Case], said: Callable[[Case], float | None]) -> float | None:
    """Mean absolute error in points, over cases that have an answer."""
    pairs = [(said(one), one.truth) for one in cases]
    known = [abs(value - truth) for value, truth in pairs if value is not None]
    return 100 * float(np.mean(known)) if known else None


def some(cases: Sequence[Case], half: str, suite: str | None = None) -> list[Case]:
    """Of a half (`home` being both of its), and of a suite."""
    return [
        one
        for one in cases
        if half in (one.half, one.half.partition(",")[0]) and suite in (None, one.suite)
    ]


def chosen(cases: Sequence[Case]) -> list[tuple[str, ...]]:
    """Every rule's error by suite on the half that chooses, away and at home; the best first."""
    rows = []
    for name, rule in RULES.items():
        found = [
            error(some(cases, half, suite), rule)
            for half in ("choose", "home, choose")
            for suite in SUITES
        ]
        rows.append((float(np.mean([one for one in found if one is not None])), name, found))
    return [(name, *map(_cell, found), f"{mean:.2f}") for mean, name, found in sorted(rows)]


def judged(cases: Sequence[Case]) -> list[tuple[str, ...]]:
    """The headline, the source's accuracy and every single method on the half that judges."""
    methods = dict.fromkeys(chain.from_iterable(one.values for one in cases))
    said: dict[str, Callable[[Case], float | None]] = {
        "the headline": lambda one: one.values[one.headline],
        "accuracy on the source": lambda one: one.source,
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


def covered(cases: Sequence[Case]) -> list[tuple[str, ...]]:
    """How often intervals of the headline hold the truth, by suite: sampling alone, and with shift."""
    rows: list[tuple[str, ...]] = []
    for suite in SUITES:
        past, new = some(cases, "choose", suite), some(cases, "judge", suite)
        home = some(cases, "home", suite)
        for kind in ("sampling alone", "with shift", "with shift, not scaled by spread"):
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


def _interval(one: Case, past: Sequence[Case], kind: str) -> tuple[float, float]:
    if kind == "sampling alone":
        return one.intervals[one.headline]
    history = History(
        np.array([each.values[each.headline] for each in past]),
        np.array([each.truth for each in past]),
        np.array([spread(each) for each in past]),
    )
    by = None if kind.endswith("spread") else spread(one)
    found = history.interval(one.values[one.headline], by)
    return found.low, found.high


def spread(one: Case) -> float:
    return one.diagnostics["estimator_spread"]


def _share(cases: Sequence[Case], intervals: Sequence[tuple[float, float]]) -> str:
    held = [low <= one.truth <= high for one, (low, high) in zip(cases, intervals, strict=True)]
    return f"{np.mean(held):.0%}"


def by_status(cases: Sequence[Case]) -> list[tuple[str, ...]]:
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


def page(cases: Sequence[Case]) -> tuple[str, bool]:
    """The text, and whether the rule in use is the one that was chosen."""
    rules, methods = chosen(cases), judged(cases)
    right = rules[0][0] == RULE
    counts = ", ".join(
        f"{suite} {len(some(cases, 'choose', suite))} / {len(some(cases, 'judge', suite))} / "
        f"{len(some(cases, 'home', suite))}"
        for suite in SUITES
    )
    homes = [f"{suite}, home" for suite in SUITES]
    parts = [
        "A case is a model on a target. FMoW-WILDS: five published models, folds of `val` choose and "
        "folds of `test` judge (outputs without whole rows of probabilities, so no `cot`). PACS: a "
        "hundred small networks, and reviews: 128 text CNNs; of the pairs of domains every second one "
        "chooses, the others judge. At home are cases where the model is tested on what it learned; "
        "half of these chooses too, for a headline has to be right where nothing has shifted. "
        f"Cases (choose / judge / home): {counts}. All errors are mean absolute ones in points of "
        "accuracy.",
        "## The rule, chosen",
        markdown_table(("rule", *SUITES, *homes, "mean"), rules),
        "Both look alike where the diagnostics score_distance and domain_auc are ok. "
        f"The lowest mean has: {rules[0][0]}. The headline's rule is: {RULE} "
        f"({'the same' if right else 'NOT the same'}).",
        "## The headline and every method, judged",
        markdown_table(("method", *SUITES, "mean", *homes), methods),
        f"On the half that judges the headline is off by {methods[0][4]} points in the mean over "
        f"suites, the source's accuracy by {methods[1][4]}. On PACS nothing is to be believed: models "
        "that learned one style at 32 pixels are hardly better than chance on another, and every "
        "method says too much.",
        "## Intervals",
        markdown_table(
            ("suite", "95 % interval", "holds the truth at home", "and elsewhere", "half-width, points"),
            covered(cases),
        ),
        "Sampling alone is the bootstrap interval. With shift: conformal, the history being the cases "
        "of the half that chose, of the same suite.",
        "## Diagnostics",
        markdown_table(("diagnostic", "not ok at home", *(f"error when {one}" for one in STATUSES_WORST_FIRST[::-1])),
                       by_status(cases)),
        "Cases in brackets, of the half that judges, all suites together. The spread is that of "
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
