"""compare_measures(): R², MAE and Kendall's τ of every measure with accuracy (Ng et al., 2023).

The statistics are R2, MAE and five variants of Kendall's τ.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from oodometer.core.array_types import Bools
from oodometer.core.errors import InputError, UnknownName
from oodometer.core.result_views import ResultViews, TableRows
from oodometer.studies.analysis.estimation_error import find_estimates
from oodometer.studies.analysis.evaluation_table import EvaluationTable
from oodometer.studies.analysis.grouped_scores import GroupedScores, MeanStd
from oodometer.studies.analysis.kendall_family import kendall_scores
from oodometer.studies.analysis.linear_fit import line_fit_scores

# Labels of the statistics in tables, in the order of the paper's tables.
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
# Maps a statistic to another statistic with smaller groups, and to the reason why the two are equal
# if both have the same number of groups.
FINER_STATISTICS = {
    "micro_tau": ("macro_tau", "one training set per test domain"),
    "arch_tau": ("micro_tau", "one architecture per test domain"),
}
# The `rule` of a summary begins with this text if its statistic equals the finer one.
SAME_AS_PREFIX = "the same as"


@dataclass(frozen=True, eq=False, repr=False)
class MeasureComparison(ResultViews):
    """Statistics of every measure: values per group, and mean and standard deviation over groups.

    Parameters
    ----------
    table : EvaluationTable
        The evaluations.
    scores : tuple of GroupedScores
        One element per statistic, with its values per measure and group. MAEs are in percentage
        points.
    summaries : mapping of (str, str, str or None) to MeanStd
        Mean and standard deviation over groups. The key is measure, statistic and architecture. If
        the architecture is None, the mean is over the groups of all architectures, so an
        architecture with more groups has more weight.
    n_unknown_accuracies : int
        Number of rows without an accuracy.
    n_missing_values : mapping of str to int
        Number of rows without a value, by measure.
    """

    renderer: ClassVar[str] = "oodometer.studies.report.comparison_views"

    table: EvaluationTable
    scores: tuple[GroupedScores, ...]
    summaries: Mapping[tuple[str, str, str | None], MeanStd]
    n_unknown_accuracies: int
    n_missing_values: Mapping[str, int]

    def key_values(self) -> dict[str, Any]:
        return {
            "measures": len(self.table.measures),
            "evaluations": len(self.table),
            "models": len(np.unique(self.table.model)),
            "domains": len(self.table.domains),
            "statistics": len(self.scores),
        }

    def tables(self) -> dict[str, TableRows]:
        """Return the tables `statistics` and `groups`; statistics are means over groups."""
        statistics = [
            {name: value for name, value in row.items() if name != "left_out"}
            for row in self.rows()
        ]
        return {"statistics": statistics, "groups": list(self.group_rows())}

    def summary(self, measure: str, statistic: str, architecture: str | None = None) -> MeanStd:
        """Return one summary by names; Arch τ has no summary per architecture."""
        # If there is only one architecture, its summary is stored as that of all architectures.
        kind = None if (architecture,) == self.table.architectures else architecture
        for position, what, name in (
            (0, "measure", measure),
            (1, "statistic", statistic),
            (2, "architecture of this statistic", kind),
        ):
            known = {key[position] for key in self.summaries if position < 2 or key[1] == statistic}
            if name not in known:
                raise UnknownName(what, str(name), sorted(str(option) for option in known))
        return self.summaries[measure, statistic, kind]

    def rows(self) -> list[dict[str, Any]]:
        """Return one flat row per summary; architecture None stands for all architectures."""
        return [
            {
                "measure": measure,
                "statistic": statistic,
                "architecture": architecture,
                **summary.to_dict(),
                "rule": summary.rule,
            }
            for (measure, statistic, architecture), summary in self.summaries.items()
        ]

    def group_rows(self) -> Iterator[dict[str, Any]]:
        """Yield one flat row per measure, statistic and group, as in appendix tables of papers."""
        for scores in self.scores:
            yield from scores.rows(self.table)

    def to_dict(self) -> dict[str, Any]:
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


def compare_measures(table: Any, *, methods: Sequence[str] | None = None) -> MeasureComparison:
    """Compute how well every measure of a table predicts accuracy, by R2, MAE and Kendall's τ.

    Parameters
    ----------
    table : EvaluationTable, path, data frame or mapping of columns
        Evaluations of models on domains: a Parquet, CSV or Arrow file, a pandas, polars or pyarrow
        table, or columns, with one row per model and test domain. The columns are model,
        trained_on, tested_on, accuracy, and one column per measure (or measure and value).
    methods : sequence of str, optional
        Measures that estimate accuracy itself. For these measures, R2 and MAE are also computed
        without a fitted line (`raw_r2`, `raw_mae`). Default: the measures that have the name of an
        estimator of this package.

    Returns
    -------
    MeasureComparison
        All statistics per measure, group and architecture.

    Raises
    ------
    InputError
        If the table cannot be read, lacks a column, or has no measure.
    UnknownName
        If `methods` names a measure that the table does not have.

    Examples
    --------
    >>> table = {"model": ["k", "l", "m", "n"], "trained_on": ["a"] * 4, "tested_on": ["b"] * 4,
    ...     "accuracy": [0.6, 0.7, 0.8, 0.9], "doc": [0.5, 0.6, 0.7, 0.8]}
    >>> result = compare_measures(table)
    >>> [round(result.summary("doc", name).mean, 6) for name in ("macro_tau", "mae", "raw_mae")]
    [1.0, 0.0, 10.0]
    """
    table = EvaluationTable.open(table)
    if not table.measures:
        raise InputError("The table has no measure to compare. Read it with at least one.")
    estimates = find_estimates(table) if methods is None else methods
    for name in estimates:
        if name not in table.measures:
            raise UnknownName("measure", name, table.measures)
    by_name = {
        scores.statistic: scores
        for scores in (*line_fit_scores(table, methods=estimates), *kendall_scores(table))
    }
    ordered = tuple(by_name[name] for name in STATISTIC_LABELS if name in by_name)
    return MeasureComparison(
        table=table,
        scores=ordered,
        summaries=_summarize_groups(table, ordered),
        n_unknown_accuracies=int(np.isnan(table.accuracy).sum()),
        n_missing_values={
            name: int(np.isnan(values).sum()) for name, values in table.measures.items()
        },
    )


def _summarize_groups(
    table: EvaluationTable, all_scores: Sequence[GroupedScores]
) -> dict[tuple[str, str, str | None], MeanStd]:
    by_name = {scores.statistic: scores for scores in all_scores}
    summaries = {}
    for scores in all_scores:
        for code, mask in _architecture_groups(table, scores):
            repeated = _repetition_note(scores, by_name, code)
            architecture = None if code is None else table.architectures[code]
            for j, measure in enumerate(scores.measures):
                summary = scores.summary(j, mask)
                rule = repeated or summary.rule
                summaries[measure, scores.statistic, architecture] = replace(summary, rule=rule)
    order = {name: j for j, name in enumerate(table.measures)}
    return dict(sorted(summaries.items(), key=lambda item: order[item[0][0]]))


def _architecture_groups(
    table: EvaluationTable, scores: GroupedScores
) -> Iterator[tuple[int | None, Bools]]:
    """Yield a mask of all groups, then a mask per architecture if there are several."""
    yield None, np.ones(len(scores.groups), dtype=np.bool_)
    codes = scores.groups.keys.get("architecture")
    if codes is not None and len(table.architectures) > 1:
        yield from ((code, codes == code) for code in range(len(table.architectures)))


def _repetition_note(
    scores: GroupedScores, by_name: Mapping[str, GroupedScores], architecture: int | None
) -> str:
    """Return a note if a statistic equals a finer one; their numbers of groups are then equal."""
    finer, reason = FINER_STATISTICS.get(scores.statistic, ("", ""))
    count = _count_groups(scores, architecture)
    if not finer or not count or count != _count_groups(by_name[finer], architecture):
        return ""
    return f"{SAME_AS_PREFIX} {STATISTIC_LABELS[finer]}: {reason}"


def _count_groups(scores: GroupedScores, architecture: int | None) -> int:
    if architecture is None:
        return len(scores.groups)
    return int((scores.groups.keys["architecture"] == architecture).sum())
