"""Which measure tells accuracy best: the order of measures, and the tables of all statistics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from oodometer import metrics
from oodometer.core.format import format_number
from oodometer.studies.analysis import SAME_AS_PREFIX, STATISTIC_LABELS, MeasureComparison
from oodometer.studies.analysis.grouped_scores import MeanStd
from oodometer.studies.analysis.text_tables import LOWER_IS_BETTER, STATISTICS_IN_POINTS

# What measures are sorted by, the first of these that has an answer; columns too are in this order.
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
# A measure that answers in fewer than this share of the groups is not called the best of them.
MIN_GROUP_SHARE = 0.5
# Beyond the first table so many measures are shown, and tables of so many architectures.
MAX_MEASURES, MAX_ARCHITECTURE_TABLES = 24, 6


@dataclass(frozen=True)
class StatisticCell:
    """One statistic of one measure as it is shown; how many groups, where others have more."""

    mean: str
    sd: str = ""
    groups: str = ""
    best: bool = False


@dataclass(frozen=True)
class StudyTable:
    """A row a measure, a column a statistic; under it how many groups each is of."""

    name: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, tuple[StatisticCell, ...]], ...]
    groups: tuple[int, ...]


def defined_summaries(
    comparison: MeasureComparison, statistic: str, architecture: str | None = None
) -> dict[str, MeanStd]:
    """The measures that have an answer."""
    found = {
        name: comparison.summaries.get((name, statistic, architecture))
        for name in comparison.table.measures
    }
    return {name: one for name, one in found.items() if one is not None and one.mean is not None}


def label_free_measures(names: Iterable[str]) -> list[str]:
    """Those that do without the labels of the target, which tell accuracy itself; all if none does.

    >>> label_free_measures(["ece", "doc", "nll"]), label_free_measures(["ece", "nll"])
    (['doc'], ['ece', 'nll'])
    """
    every, known = list(names), {one.name for one in metrics.available()}
    return [name for name in every if name not in known] or every


def eligible_summaries(
    comparison: MeasureComparison, statistic: str, architecture: str | None = None
) -> dict[str, MeanStd]:
    """Measures without labels of the target that answer in half as many groups as any does."""
    found = defined_summaries(comparison, statistic, architecture)
    fair = label_free_measures(comparison.table.measures)
    most = max((one.groups for one in found.values()), default=0)
    return {
        name: one
        for name, one in found.items()
        if name in fair and one.groups >= MIN_GROUP_SHARE * most
    }


def sort_statistic(comparison: MeasureComparison) -> str | None:
    """The statistic that measures are sorted by; None where none has an answer."""
    return next((name for name in SORT_STATISTICS if defined_summaries(comparison, name)), None)


def rank_measures(comparison: MeasureComparison) -> list[str]:
    """The measures, best first; those without an answer come last."""
    order = sort_statistic(comparison) or SORT_STATISTICS[0]
    found = defined_summaries(comparison, order)
    names = comparison.table.measures
    return sorted(names, key=lambda name: (name not in found, -_oriented_mean(found, name, order)))


def most_informative_measures(
    comparison: MeasureComparison, max_measures: int = MAX_MEASURES
) -> list[str]:
    """The measures farthest from telling nothing, either way, in the order of `rank_measures`."""
    order = sort_statistic(comparison) or SORT_STATISTICS[0]
    names, found = rank_measures(comparison), defined_summaries(comparison, order)
    if order in LOWER_IS_BETTER:
        return names[:max_measures]
    by_size = sorted(
        names, key=lambda name: (name not in found, -abs(_oriented_mean(found, name, order)))
    )
    kept = set(by_size[:max_measures])
    return [name for name in names if name in kept]


def best_measures(
    comparison: MeasureComparison, statistic: str, architecture: str | None = None
) -> list[str]:
    """The best measures, of those that answer in enough groups; none where all are alike."""
    found = eligible_summaries(comparison, statistic, architecture)
    worth = {name: _oriented_mean(found, name, statistic) for name in found}
    if len(set(worth.values())) < 2:
        return []
    return [name for name in found if worth[name] == max(worth.values())]


def study_tables(comparison: MeasureComparison) -> tuple[StudyTable, ...]:
    """The table of all architectures, then those of the architectures with the most evaluations."""
    kinds = comparison.table.architectures
    found = [study_table(comparison, rank_measures(comparison))]
    if len(kinds) > 1:
        sizes = np.bincount(comparison.table.architecture, minlength=len(kinds))
        several = [kinds[j] for j in np.argsort(-sizes, kind="stable")[:MAX_ARCHITECTURE_TABLES]]
        found += [
            study_table(comparison, most_informative_measures(comparison), kind) for kind in several
        ]
    return tuple(one for one in found if one.heads)


def study_table(
    comparison: MeasureComparison, names: Sequence[str], architecture: str | None = None
) -> StudyTable:
    """All statistics of some measures.

    Columns without an answer, and those that repeat another, are left out.
    """
    shown = [name for name in STATISTIC_COLUMNS if _is_shown(comparison, name, architecture)]
    columns = [_column_cells(comparison, statistic, names, architecture) for statistic in shown]
    most = [
        max(one.groups for one in defined_summaries(comparison, name, architecture).values())
        for name in shown
    ]
    return StudyTable(
        "All architectures" if architecture is None else architecture,
        tuple(STATISTIC_LABELS[name] for name in shown),
        tuple((name, tuple(column[row] for column in columns)) for row, name in enumerate(names)),
        tuple(most),
    )


def _is_shown(comparison: MeasureComparison, statistic: str, architecture: str | None) -> bool:
    found = defined_summaries(comparison, statistic, architecture).values()
    return bool(found) and not any(one.rule.startswith(SAME_AS_PREFIX) for one in found)


def _oriented_mean(summaries: Mapping[str, MeanStd], name: str, statistic: str) -> float:
    """The mean, turned where less is better; 0 without one."""
    mean = summaries[name].mean if name in summaries else None
    return 0.0 if mean is None else -mean if statistic in LOWER_IS_BETTER else mean


def _column_cells(
    comparison: MeasureComparison, statistic: str, names: Sequence[str], architecture: str | None
) -> list[StatisticCell]:
    found = defined_summaries(comparison, statistic, architecture)
    best = best_measures(comparison, statistic, architecture)
    most = max(one.groups for one in found.values())
    return [
        _format_cell(found[name], statistic, most, name in best)
        if name in found
        else StatisticCell("–")
        for name in names
    ]


def _format_cell(
    group_summary: MeanStd, statistic: str, max_groups: int, best: bool
) -> StatisticCell:
    digits = 2 if statistic in STATISTICS_IN_POINTS else 3
    sd = "" if group_summary.sd is None else f"± {format_number(group_summary.sd, digits)}"
    fewer = f"of {group_summary.groups:,}" if group_summary.groups < max_groups else ""
    return StatisticCell(format_number(group_summary.mean, digits), sd, fewer, best)
