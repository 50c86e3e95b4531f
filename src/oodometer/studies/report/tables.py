"""Tables of a study page: the ranking of the measures, with one column per statistic."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from oodometer import metrics
from oodometer.core.format import format_number
from oodometer.studies.analysis import SAME_AS_PREFIX, STATISTIC_LABELS, MeasureComparison
from oodometer.studies.analysis.grouped_scores import MeanStd
from oodometer.studies.analysis.text_tables import LOWER_IS_BETTER, STATISTICS_IN_POINTS

# Statistics in the order of the columns. Measures are sorted by the first one that has a value.
SORT_STATISTICS = (
    "macro_tau",
    "micro_tau",
    "arch_tau",
    "cross_domain_tau",
    "id_tau",
    "r2_pearson",
    "mae",
)
STATISTIC_COLUMNS = (
    *SORT_STATISTICS,
    *(name for name in STATISTIC_LABELS if name not in SORT_STATISTICS),
)
# A measure that has values in fewer than this share of the groups cannot be the best.
MIN_GROUP_SHARE = 0.5
# Maximum number of measures in charts, and in all tables except the first.
MAX_MEASURES = 24
MAX_ARCHITECTURE_TABLES = 6


@dataclass(frozen=True)
class StatisticCell:
    """Formatted statistic of one measure.

    `groups` is the number of groups with a value; empty unless another measure has more groups.
    """

    mean: str
    sd: str = ""
    groups: str = ""
    best: bool = False


@dataclass(frozen=True)
class StudyTable:
    """Table with one row per measure and one column per statistic.

    `groups` has the largest number of groups with a value, per column.
    """

    name: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, tuple[StatisticCell, ...]], ...]
    groups: tuple[int, ...]


def defined_summaries(
    comparison: MeasureComparison, statistic: str, architecture: str | None = None
) -> dict[str, MeanStd]:
    """Return the summaries of a statistic, by measure, for all measures that have a value."""
    summaries = {
        name: comparison.summaries.get((name, statistic, architecture))
        for name in comparison.table.measures
    }
    return {
        name: summary
        for name, summary in summaries.items()
        if summary is not None and summary.mean is not None
    }


def label_free_measures(names: Iterable[str]) -> list[str]:
    """Return the measures that need no target labels; all measures if every one needs labels.

    >>> label_free_measures(["ece", "doc", "nll"]), label_free_measures(["ece", "nll"])
    (['doc'], ['ece', 'nll'])
    """
    all_names = list(names)
    labelled = {metric.name for metric in metrics.available()}
    return [name for name in all_names if name not in labelled] or all_names


def eligible_summaries(
    comparison: MeasureComparison, statistic: str, architecture: str | None = None
) -> dict[str, MeanStd]:
    """Return summaries of measures that need no target labels and have values in enough groups."""
    summaries = defined_summaries(comparison, statistic, architecture)
    label_free = label_free_measures(comparison.table.measures)
    most = max((summary.groups for summary in summaries.values()), default=0)
    return {
        name: summary
        for name, summary in summaries.items()
        if name in label_free and summary.groups >= MIN_GROUP_SHARE * most
    }


def sort_statistic(comparison: MeasureComparison) -> str | None:
    """Return the statistic used to sort the measures; None if no statistic has a value."""
    return next((name for name in SORT_STATISTICS if defined_summaries(comparison, name)), None)


def rank_measures(comparison: MeasureComparison) -> list[str]:
    """Return the measures, best first; measures without a value are last."""
    order = sort_statistic(comparison) or SORT_STATISTICS[0]
    summaries = defined_summaries(comparison, order)
    return sorted(
        comparison.table.measures,
        key=lambda name: (name not in summaries, -_oriented_mean(summaries, name, order)),
    )


def most_informative_measures(
    comparison: MeasureComparison, max_measures: int = MAX_MEASURES
) -> list[str]:
    """Return the measures with the largest absolute statistic, in the order of `rank_measures`."""
    order = sort_statistic(comparison) or SORT_STATISTICS[0]
    names = rank_measures(comparison)
    summaries = defined_summaries(comparison, order)
    if order in LOWER_IS_BETTER:
        return names[:max_measures]
    by_size = sorted(
        names,
        key=lambda name: (name not in summaries, -abs(_oriented_mean(summaries, name, order))),
    )
    kept = set(by_size[:max_measures])
    return [name for name in names if name in kept]


def best_measures(
    comparison: MeasureComparison, statistic: str, architecture: str | None = None
) -> list[str]:
    """Return the best eligible measure, or several if they tie; an empty list if all are equal."""
    summaries = eligible_summaries(comparison, statistic, architecture)
    means = {name: _oriented_mean(summaries, name, statistic) for name in summaries}
    if len(set(means.values())) < 2:
        return []
    return [name for name, mean in means.items() if mean == max(means.values())]


def study_tables(comparison: MeasureComparison) -> tuple[StudyTable, ...]:
    """Return a table for all architectures, then one for each of the most frequent ones."""
    architectures = comparison.table.architectures
    tables = [study_table(comparison, rank_measures(comparison))]
    if len(architectures) > 1:
        sizes = np.bincount(comparison.table.architecture, minlength=len(architectures))
        names = most_informative_measures(comparison)
        tables += [
            study_table(comparison, names, architectures[j])
            for j in np.argsort(-sizes, kind="stable")[:MAX_ARCHITECTURE_TABLES]
        ]
    return tuple(table for table in tables if table.heads)


def study_table(
    comparison: MeasureComparison, names: Sequence[str], architecture: str | None = None
) -> StudyTable:
    """Return the table of all statistics of some measures.

    Columns without any value, and columns that are equal to another column, are left out.
    """
    shown = [name for name in STATISTIC_COLUMNS if _is_shown(comparison, name, architecture)]
    columns = [_column_cells(comparison, statistic, names, architecture) for statistic in shown]
    n_groups = tuple(
        max(
            summary.groups for summary in defined_summaries(comparison, name, architecture).values()
        )
        for name in shown
    )
    return StudyTable(
        name="All architectures" if architecture is None else architecture,
        heads=tuple(STATISTIC_LABELS[name] for name in shown),
        rows=tuple(
            (name, tuple(column[row] for column in columns)) for row, name in enumerate(names)
        ),
        groups=n_groups,
    )


def _is_shown(comparison: MeasureComparison, statistic: str, architecture: str | None) -> bool:
    summaries = defined_summaries(comparison, statistic, architecture).values()
    repeats = any(summary.rule.startswith(SAME_AS_PREFIX) for summary in summaries)
    return bool(summaries) and not repeats


def _oriented_mean(summaries: Mapping[str, MeanStd], name: str, statistic: str) -> float:
    """Return the mean of a measure, negated if lower is better; 0 if there is no mean."""
    mean = summaries[name].mean if name in summaries else None
    return 0.0 if mean is None else -mean if statistic in LOWER_IS_BETTER else mean


def _column_cells(
    comparison: MeasureComparison, statistic: str, names: Sequence[str], architecture: str | None
) -> list[StatisticCell]:
    summaries = defined_summaries(comparison, statistic, architecture)
    best = best_measures(comparison, statistic, architecture)
    most = max(summary.groups for summary in summaries.values())
    return [
        _format_cell(summaries[name], statistic, most, name in best)
        if name in summaries
        else StatisticCell("–")
        for name in names
    ]


def _format_cell(summary: MeanStd, statistic: str, max_groups: int, best: bool) -> StatisticCell:
    digits = 2 if statistic in STATISTICS_IN_POINTS else 3
    return StatisticCell(
        mean=format_number(summary.mean, digits),
        sd="" if summary.sd is None else f"± {format_number(summary.sd, digits)}",
        groups=f"of {summary.groups:,}" if summary.groups < max_groups else "",
        best=best,
    )
