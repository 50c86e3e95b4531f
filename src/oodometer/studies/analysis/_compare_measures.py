"""All statistics of Ng et al. 2023 for all measures of a table: which measure tells the truth."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from oodometer.core.array_types import Bools
from oodometer.core.errors import InputError, UnknownName
from oodometer.studies.analysis.estimation_error import find_estimates
from oodometer.studies.analysis.evaluation_table import EvaluationTable
from oodometer.studies.analysis.grouped_scores import GroupedScores, ScoreSummary
from oodometer.studies.analysis.kendall_family import kendall_scores
from oodometer.studies.analysis.linear_fit import line_fit_scores

# What statistics are called on screen, in the order of the paper's tables.
STATISTIC_LABELS = {
    "r2": "R2",
    "r2_pearson": "r2_pearson",
    "mae": "MAE",
    "raw_r2": "R2, raw",
    "raw_mae": "MAE, raw",
    "macro_tau": "Macro τ",
    "micro_tau": "Micro τ",
    "id_tau": "ID τ",
    "arch_tau": "Arch τ",
    "cross_domain_tau": "Cross-domain τ",
}
# Statistics that repeat a finer one where its groups have nothing to pool.
FINER_STATISTICS = {
    "micro_tau": ("macro_tau", "one training set a test domain"),
    "arch_tau": ("micro_tau", "one architecture a test domain"),
}
# How the rule of such a one begins.
SAME_AS_PREFIX = "the same as"


@dataclass(frozen=True, eq=False)
class MeasureComparison:
    """What every statistic says of every measure: mean, deviation, groups and what was left out.

    `summaries` is by measure, statistic and architecture, None for all of them together; the mean
    is over groups, so an architecture with more of them counts more. MAEs are in points. `n_unknown_accuracies`
    has how many rows lack the accuracy, `n_missing_values` how many lack each measure.
    """

    table: EvaluationTable
    scores: tuple[GroupedScores, ...]
    summaries: Mapping[tuple[str, str, str | None], ScoreSummary]
    n_unknown_accuracies: int
    n_missing_values: Mapping[str, int]

    def summary(
        self, measure: str, statistic: str, architecture: str | None = None
    ) -> ScoreSummary:
        """One summary, by names; of Arch τ there is none by architecture."""
        # Of one architecture, what is said of all is said of it.
        kind = None if (architecture,) == self.table.architectures else architecture
        for place, what, name in ((0, "measure", measure), (1, "statistic", statistic),
                                  (2, "architecture of this statistic", kind)):  # fmt: skip
            known = {key[place] for key in self.summaries if place < 2 or key[1] == statistic}
            if name not in known:
                raise UnknownName(what, str(name), sorted(str(one) for one in known))
        return self.summaries[measure, statistic, kind]

    def rows(self) -> list[dict[str, Any]]:
        """A flat row for every summary; the architecture is None for all together."""
        return [
            {
                "measure": measure,
                "statistic": statistic,
                "architecture": architecture,
                **_summary_to_dict(one),
            }
            for (measure, statistic, architecture), one in self.summaries.items()
        ]

    def group_rows(self) -> Iterator[dict[str, Any]]:
        """A flat row for every measure, statistic and group: the papers' appendix tables."""
        for scores in self.scores:
            yield from scores.rows(self.table)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "evaluations": len(self.table),
            "models": len(np.unique(self.table.model)),
            "architectures": list(self.table.architectures),
            "domains": list(self.table.domains),
            "left_out": dict(self.table.left_out),
            "without_accuracy": self.n_unknown_accuracies,
            "without_answer": dict(self.n_missing_values),
            "statistics": self.rows(),
        }


def compare_measures(
    table: EvaluationTable, *, methods: Sequence[str] | None = None
) -> MeasureComparison:
    """Judge every measure of a table by R2, MAE and the τ family.

    `methods` names the measures that are estimates of accuracy themselves, of which raw R2 and
    MAE are given too; None for those that are called as estimators are.

    >>> table = EvaluationTable.read({"model": ["k", "l", "m", "n"], "trained_on": ["a"] * 4,
    ...                     "tested_on": ["b"] * 4, "accuracy": [0.6, 0.7, 0.8, 0.9],
    ...                     "doc": [0.5, 0.6, 0.7, 0.8]})
    >>> judged = compare_measures(table)
    >>> [round(judged.summary("doc", name).mean, 6) for name in ("macro_tau", "mae", "raw_mae")]
    [1.0, 0.0, 10.0]
    """
    if not table.measures:
        raise InputError("The table has no measure to judge. Read it with at least one.")
    direct = find_estimates(table) if methods is None else methods
    for name in direct:
        if name not in table.measures:
            raise UnknownName("measure", name, table.measures)
    scores = {
        one.statistic: one
        for one in (*line_fit_scores(table, methods=direct), *kendall_scores(table))
    }
    ordered = tuple(scores[name] for name in STATISTIC_LABELS if name in scores)
    return MeasureComparison(
        table,
        ordered,
        _summarize_groups(table, ordered),
        int(np.isnan(table.accuracy).sum()),
        {name: int(np.isnan(values).sum()) for name, values in table.measures.items()},
    )


def _summary_to_dict(summary: ScoreSummary) -> dict[str, Any]:
    return {**vars(summary), "left_out": dict(summary.left_out)}


def _summarize_groups(
    table: EvaluationTable, scores: Sequence[GroupedScores]
) -> dict[tuple[str, str, str | None], ScoreSummary]:
    by_name = {one.statistic: one for one in scores}
    found = {}
    for one in scores:
        for kind, where in _architecture_groups(table, one):
            repeated = _repetition_note(one, by_name, kind)
            name = None if kind is None else table.architectures[kind]
            for place, measure in enumerate(one.measures):
                summary = one.summary(place, where)
                rule = repeated or summary.rule
                found[measure, one.statistic, name] = replace(summary, rule=rule)
    order = {name: place for place, name in enumerate(table.measures)}
    return dict(sorted(found.items(), key=lambda each: order[each[0][0]]))


def _architecture_groups(
    table: EvaluationTable, scores: GroupedScores
) -> Iterator[tuple[int | None, Bools]]:
    """The groups of all architectures, then of each where there are several."""
    yield None, np.ones(len(scores.groups), dtype=np.bool_)
    codes = scores.groups.keys.get("architecture")
    if codes is not None and len(table.architectures) > 1:
        yield from ((kind, codes == kind) for kind in range(len(table.architectures)))


def _repetition_note(
    scores: GroupedScores, by_name: Mapping[str, GroupedScores], architecture: int | None
) -> str:
    """Whether a statistic says no more than a finer one, which then has as many groups."""
    finer, why = FINER_STATISTICS.get(scores.statistic, ("", ""))
    count = _count_groups(scores, architecture)
    if not finer or not count or count != _count_groups(by_name[finer], architecture):
        return ""
    return f"{SAME_AS_PREFIX} {STATISTIC_LABELS[finer]}: {why}"


def _count_groups(scores: GroupedScores, architecture: int | None) -> int:
    if architecture is None:
        return len(scores.groups)
    return int((scores.groups.keys["architecture"] == architecture).sum())
