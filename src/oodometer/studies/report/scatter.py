"""Measure against accuracy: a small scatter a group of models, with its least-squares line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from oodometer.core.errors import NoAnswer
from oodometer.core.format import counted, number
from oodometer.core.softmax_kernels import Floats, Ints
from oodometer.core.stats import least_squares_line
from oodometer.report.assessment_figures import Figure
from oodometer.report.assessment_figures import Table as Numbers
from oodometer.report.charts import Row, around
from oodometer.report.histograms import shortened
from oodometer.studies.analysis import LABELS, Judgement
from oodometer.studies.analysis.grouped_scores import Scores
from oodometer.studies.report import charts
from oodometer.studies.report.tables import ranked

# So many measures are drawn, in so many groups each, with so many points in one: every chart
# takes a browser some 50 ms, and a page should open in 3 s.
MEASURES, PANELS, POINTS = 2, 8, 60
# Groups of fewer models have nothing to see.
FEWEST = 3
# Groups of models, from fine to coarse: the first is taken of which some can be drawn.
GROUPS = ("macro_tau", "micro_tau", "arch_tau")


@dataclass(frozen=True)
class Panels:
    """The panels of one measure."""

    measure: str
    figures: tuple[Figure, ...]


@dataclass(frozen=True, eq=False)
class Drawn:
    """The panels of the best measures, the numbers by group, and what is not shown."""

    measures: tuple[Panels, ...]
    groups: tuple[tuple[str, Numbers], ...]
    statistic: str
    remark: str


@dataclass(frozen=True, eq=False)
class _Group:
    """The drawn rows of a group, in the order of their accuracy, and all of them."""

    judged: Judgement
    scores: Scores
    place: int

    @cached_property
    def rows(self) -> Ints:
        scored = self.scores.groups
        rows = scored.rows[scored.group == self.place]
        return np.asarray(rows[~np.isnan(self.judged.table.accuracy[rows])])

    @cached_property
    def shown(self) -> Ints:
        return thinned(self.rows, self.judged.table.accuracy[self.rows])

    @cached_property
    def name(self) -> str:
        table, keys = self.judged.table, self.scores.groups.keys
        pair = str(table.domains[keys["tested_on"][self.place]])
        if "trained_on" in keys and len(table.trainings) > 1:
            pair = f"{table.training(keys['trained_on'][self.place])} → {pair}"
        if "architecture" not in keys or len(table.architectures) == 1:
            return pair
        return f"{table.architectures[keys['architecture'][self.place]]}: {pair}"


def panels(judged: Judgement) -> Drawn:
    """The best measures in the groups that have the most models."""
    scores = _scores(judged)
    sizes = scores.n.max(axis=0)
    groups = [_Group(judged, scores, int(g)) for g in spread_out(sizes, PANELS, FEWEST)]
    measures = [
        name for name in ranked(judged) if (scores.n[scores.measures.index(name)] >= FEWEST).any()
    ][:MEASURES]
    drawable = int((sizes >= FEWEST).sum())
    rest = (
        f" Of {drawable:,} such groups {len(groups)} are shown, those with the most models."
        if len(groups) < drawable
        else ""
    )
    return Drawn(
        tuple(Panels(name, _figures(groups, name, j)) for j, name in enumerate(measures)),
        tuple((group.name, _numbers(group, measures)) for group in groups),
        LABELS[scores.statistic],
        rest,
    )


def spread_out(sizes: Ints, most: int, fewest: int) -> Ints:
    """The places of the largest groups; of equally large ones some from first to last.

    >>> spread_out(np.array([5, 9, 5, 5, 1]), 3, 2).tolist()
    [0, 1, 3]
    """
    there = np.flatnonzero(sizes >= fewest)
    order = there[np.argsort(-sizes[there], kind="stable")]
    if len(order) <= most:
        return np.sort(order)
    least = sizes[order[most - 1]]
    larger, equal = order[sizes[order] > least], order[sizes[order] == least]
    some = np.linspace(0, len(equal) - 1, most - len(larger)).round().astype(np.int64)
    return np.sort(np.concatenate([larger, equal[some]]))


def thinned(rows: Ints, values: Floats, most: int = POINTS) -> Ints:
    """Rows in the order of their values; of many, some at equal steps, with both ends.

    >>> thinned(np.array([7, 8, 9]), np.array([0.3, 0.1, 0.2]), 2).tolist()
    [8, 7]
    """
    ordered = rows[np.argsort(values, kind="stable")]
    if len(ordered) <= most:
        return ordered
    return ordered[np.linspace(0, len(ordered) - 1, most).round().astype(np.int64)]


def fitted(x: Floats, y: Floats) -> list[Row]:
    """Both ends of the least-squares line; nothing where there is none."""
    if len(np.unique(x)) < 2:
        return []
    line = least_squares_line(x, y)
    return [{"x": plain(at), "y": plain(line.slope * at + line.intercept)}
            for at in (x.min(), x.max())]  # fmt: skip


def plain(value: float) -> float:
    """A number with as many digits as a chart shows.

    >>> plain(0.123456789)
    0.12346
    """
    return float(f"{value:.5g}")


def _scores(judged: Judgement) -> Scores:
    found = {one.statistic: one for one in judged.scores}
    for name in GROUPS:
        if name in found and (found[name].n >= FEWEST).any():
            return found[name]
    raise NoAnswer(
        f"no measure has answers for {FEWEST} models on one domain that they were not trained on"
    )


def _figures(groups: Sequence[_Group], measure: str, number_of: int) -> tuple[Figure, ...]:
    accuracies = np.concatenate([g.judged.table.accuracy[g.shown] for g in groups])
    low, high = around([100 * float(accuracies.min()), 100 * float(accuracies.max())])
    axes = charts.Axes(shortened(measure), "accuracy, %", None, (low, high))
    found = (_figure(group, measure, axes, f"m{number_of}-{j}") for j, group in enumerate(groups))
    return tuple(one for one in found if one is not None)


def _figure(group: _Group, measure: str, axes: charts.Axes, key: str) -> Figure | None:
    """One panel; None where the measure has too few answers."""
    table = group.judged.table
    values = table.measures[measure]
    known = group.rows[~np.isnan(values[group.rows])]
    if len(known) < FEWEST:
        return None
    shown = group.shown[~np.isnan(values[group.shown])]
    points = [
        {"name": shortened(table.models[table.model[row]]), "x": plain(values[row]),
         "y": plain(100 * table.accuracy[row])}
        for row in shown
    ]  # fmt: skip
    tau = _tau(group, measure)
    part = f", {len(shown)} of them drawn" if len(shown) < len(known) else ""
    told = f"τ {tau}; {counted(len(known), 'model')}{part}."
    return Figure(
        key=key,
        title=shortened(group.name),
        caption=told,
        alt=f"Accuracy against {shortened(measure)}, {shortened(group.name)}: {told}",
        spec=charts.panel(points, fitted(values[known], 100 * table.accuracy[known]), axes),
    )


def _tau(group: _Group, measure: str) -> str:
    value = group.scores.values[group.scores.measures.index(measure), group.place]
    return "not defined" if np.isnan(value) else number(float(value), 2)


def _numbers(group: _Group, measures: Sequence[str]) -> Numbers:
    table = group.judged.table
    rows = (
        (
            shortened(table.models[table.model[row]]),
            f"{100 * table.accuracy[row]:.1f}",
            *(_written(table.measures[name][row]) for name in measures),
        )
        for row in group.shown
    )
    return Numbers(("model", "accuracy, %", *map(shortened, measures)), tuple(rows))


def _written(value: float) -> str:
    return "no answer" if np.isnan(value) else f"{value:.4g}".replace("-", "−")
