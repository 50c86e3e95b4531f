"""Which measure tells accuracy best: the order of measures, and the tables of all statistics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from oodometer import metrics
from oodometer.core.format import number
from oodometer.studies.analysis import LABELS, REPEATED, Judgement
from oodometer.studies.analysis.grouped_scores import Summary
from oodometer.studies.analysis.text_tables import LESS, POINTS

# What measures are sorted by, the first of these that has an answer; columns too are in this order.
ORDERS = ("macro_tau", "micro_tau", "arch_tau", "cross_domain_tau", "id_tau", "r2_pearson", "mae")
COLUMNS = (*ORDERS, *(name for name in LABELS if name not in ORDERS))
# A measure that answers in fewer than this share of the groups is not called the best of them.
ENOUGH = 0.5
# Beyond the first table so many measures are shown, and tables of so many architectures.
MOST, MOST_KINDS = 24, 6


@dataclass(frozen=True)
class Cell:
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
    rows: tuple[tuple[str, tuple[Cell, ...]], ...]
    groups: tuple[int, ...]


def answers(
    judged: Judgement, statistic: str, architecture: str | None = None
) -> dict[str, Summary]:
    """The measures that have an answer."""
    found = {
        name: judged.summaries.get((name, statistic, architecture))
        for name in judged.table.measures
    }
    return {name: one for name, one in found.items() if one is not None and one.mean is not None}


def unlabelled(names: Iterable[str]) -> list[str]:
    """Those that do without the labels of the target, which tell accuracy itself; all if none does.

    >>> unlabelled(["ece", "doc", "nll"]), unlabelled(["ece", "nll"])
    (['doc'], ['ece', 'nll'])
    """
    every, known = list(names), {one.name for one in metrics.every()}
    return [name for name in every if name not in known] or every


def contenders(
    judged: Judgement, statistic: str, architecture: str | None = None
) -> dict[str, Summary]:
    """Measures without labels of the target that answer in half as many groups as any does."""
    found = answers(judged, statistic, architecture)
    fair = unlabelled(judged.table.measures)
    most = max((one.groups for one in found.values()), default=0)
    return {
        name: one for name, one in found.items() if name in fair and one.groups >= ENOUGH * most
    }


def order_of(judged: Judgement) -> str | None:
    """The statistic that measures are sorted by; None where none has an answer."""
    return next((name for name in ORDERS if answers(judged, name)), None)


def ranked(judged: Judgement) -> list[str]:
    """The measures, best first; those without an answer come last."""
    order = order_of(judged) or ORDERS[0]
    found = answers(judged, order)
    names = judged.table.measures
    return sorted(names, key=lambda name: (name not in found, -_worth(found, name, order)))


def most_telling(judged: Judgement, most: int = MOST) -> list[str]:
    """The measures farthest from telling nothing, either way, in the order of `ranked`."""
    order = order_of(judged) or ORDERS[0]
    names, found = ranked(judged), answers(judged, order)
    if order in LESS:
        return names[:most]
    by_size = sorted(names, key=lambda name: (name not in found, -abs(_worth(found, name, order))))
    kept = set(by_size[:most])
    return [name for name in names if name in kept]


def best_of(judged: Judgement, statistic: str, architecture: str | None = None) -> list[str]:
    """The best measures, of those that answer in enough groups; none where all are alike."""
    found = contenders(judged, statistic, architecture)
    worth = {name: _worth(found, name, statistic) for name in found}
    if len(set(worth.values())) < 2:
        return []
    return [name for name in found if worth[name] == max(worth.values())]


def study_tables(judged: Judgement) -> tuple[StudyTable, ...]:
    """The table of all architectures, then those of the architectures with the most evaluations."""
    kinds = judged.table.architectures
    found = [study_table(judged, ranked(judged))]
    if len(kinds) > 1:
        sizes = np.bincount(judged.table.architecture, minlength=len(kinds))
        several = [kinds[j] for j in np.argsort(-sizes, kind="stable")[:MOST_KINDS]]
        found += [study_table(judged, most_telling(judged), kind) for kind in several]
    return tuple(one for one in found if one.heads)


def study_table(
    judged: Judgement, names: Sequence[str], architecture: str | None = None
) -> StudyTable:
    """All statistics of some measures.

    Columns without an answer, and those that repeat another, are left out.
    """
    shown = [name for name in COLUMNS if _is_shown(judged, name, architecture)]
    columns = [_column(judged, statistic, names, architecture) for statistic in shown]
    most = [
        max(one.groups for one in answers(judged, name, architecture).values()) for name in shown
    ]
    return StudyTable(
        "All architectures" if architecture is None else architecture,
        tuple(LABELS[name] for name in shown),
        tuple((name, tuple(column[row] for column in columns)) for row, name in enumerate(names)),
        tuple(most),
    )


def _is_shown(judged: Judgement, statistic: str, architecture: str | None) -> bool:
    found = answers(judged, statistic, architecture).values()
    return bool(found) and not any(one.rule.startswith(REPEATED) for one in found)


def _worth(found: Mapping[str, Summary], name: str, statistic: str) -> float:
    """The mean, turned where less is better; 0 without one."""
    mean = found[name].mean if name in found else None
    return 0.0 if mean is None else -mean if statistic in LESS else mean


def _column(
    judged: Judgement, statistic: str, names: Sequence[str], architecture: str | None
) -> list[Cell]:
    found = answers(judged, statistic, architecture)
    best = best_of(judged, statistic, architecture)
    most = max(one.groups for one in found.values())
    return [
        _cell(found[name], statistic, most, name in best) if name in found else Cell("–")
        for name in names
    ]


def _cell(one: Summary, statistic: str, most: int, best: bool) -> Cell:
    digits = 2 if statistic in POINTS else 3
    sd = "" if one.sd is None else f"± {number(one.sd, digits)}"
    fewer = f"of {one.groups:,}" if one.groups < most else ""
    return Cell(number(one.mean, digits), sd, fewer, best)
