"""Measure against accuracy: a small scatter a group of models, with its least-squares line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from oodometer.core.array_types import Floats, Ints
from oodometer.core.errors import NotApplicable
from oodometer.core.format import format_number, pluralize
from oodometer.core.stats import least_squares_line
from oodometer.report.assessment_figures import Figure
from oodometer.report.assessment_figures import FigureTable as Numbers
from oodometer.report.charts import ChartRow, padded_percent_range
from oodometer.report.histograms import truncate_name
from oodometer.studies.analysis import STATISTIC_LABELS, MeasureComparison
from oodometer.studies.analysis.grouped_scores import GroupedScores
from oodometer.studies.report import charts
from oodometer.studies.report.tables import rank_measures

# So many measures are drawn, in so many groups each, with so many points in one: every chart
# takes a browser some 50 ms, and a page should open in 3 s.
MAX_MEASURES, MAX_PANELS, MAX_POINTS = 2, 8, 60
# Groups of fewer models have nothing to see.
MIN_GROUP_MODELS = 3
# Groups of models, from fine to coarse: the first is taken of which some can be drawn.
GROUP_STATISTICS = ("macro_tau", "micro_tau", "arch_tau")


@dataclass(frozen=True)
class MeasurePanels:
    """The panels of one measure."""

    measure: str
    figures: tuple[Figure, ...]


@dataclass(frozen=True, eq=False)
class ScatterSection:
    """The panels of the best measures, the numbers by group, and what is not shown."""

    measures: tuple[MeasurePanels, ...]
    groups: tuple[tuple[str, Numbers], ...]
    statistic: str
    remark: str


@dataclass(frozen=True, eq=False)
class _ScatterGroup:
    """The drawn rows of a group, in the order of their accuracy, and all of them."""

    comparison: MeasureComparison
    scores: GroupedScores
    group_index: int

    @cached_property
    def rows(self) -> Ints:
        scored = self.scores.groups
        rows = scored.rows[scored.group == self.group_index]
        return np.asarray(rows[~np.isnan(self.comparison.table.accuracy[rows])])

    @cached_property
    def drawn_rows(self) -> Ints:
        return thin_rows(self.rows, self.comparison.table.accuracy[self.rows])

    @cached_property
    def name(self) -> str:
        table, keys = self.comparison.table, self.scores.groups.keys
        pair = str(table.domains[keys["tested_on"][self.group_index]])
        if "trained_on" in keys and len(table.trainings) > 1:
            pair = f"{table.training(keys['trained_on'][self.group_index])} → {pair}"
        if "architecture" not in keys or len(table.architectures) == 1:
            return pair
        return f"{table.architectures[keys['architecture'][self.group_index]]}: {pair}"


def build_scatter_section(comparison: MeasureComparison) -> ScatterSection:
    """The best measures in the groups that have the most models."""
    scores = _select_scores(comparison)
    sizes = scores.n.max(axis=0)
    groups = [
        _ScatterGroup(comparison, scores, int(g))
        for g in select_largest_groups(sizes, MAX_PANELS, MIN_GROUP_MODELS)
    ]
    measures = [
        name
        for name in rank_measures(comparison)
        if (scores.n[scores.measures.index(name)] >= MIN_GROUP_MODELS).any()
    ][:MAX_MEASURES]
    drawable = int((sizes >= MIN_GROUP_MODELS).sum())
    rest = (
        f" Of {drawable:,} such groups {len(groups)} are shown, those with the most models."
        if len(groups) < drawable
        else ""
    )
    return ScatterSection(
        tuple(
            MeasurePanels(name, _measure_figures(groups, name, j))
            for j, name in enumerate(measures)
        ),
        tuple((group.name, _group_table(group, measures)) for group in groups),
        STATISTIC_LABELS[scores.statistic],
        rest,
    )


def select_largest_groups(sizes: Ints, max_groups: int, min_size: int) -> Ints:
    """The places of the largest groups; of equally large ones some from first to last.

    >>> select_largest_groups(np.array([5, 9, 5, 5, 1]), 3, 2).tolist()
    [0, 1, 3]
    """
    there = np.flatnonzero(sizes >= min_size)
    order = there[np.argsort(-sizes[there], kind="stable")]
    if len(order) <= max_groups:
        return np.sort(order)
    least = sizes[order[max_groups - 1]]
    larger, equal = order[sizes[order] > least], order[sizes[order] == least]
    some = np.linspace(0, len(equal) - 1, max_groups - len(larger)).round().astype(np.int64)
    return np.sort(np.concatenate([larger, equal[some]]))


def thin_rows(rows: Ints, values: Floats, max_rows: int = MAX_POINTS) -> Ints:
    """Rows in the order of their values; of many, some at equal steps, with both ends.

    >>> thin_rows(np.array([7, 8, 9]), np.array([0.3, 0.1, 0.2]), 2).tolist()
    [8, 7]
    """
    ordered = rows[np.argsort(values, kind="stable")]
    if len(ordered) <= max_rows:
        return ordered
    return ordered[np.linspace(0, len(ordered) - 1, max_rows).round().astype(np.int64)]


def fit_line_ends(x: Floats, y: Floats) -> list[ChartRow]:
    """Both ends of the least-squares line; nothing where there is none."""
    if len(np.unique(x)) < 2:
        return []
    line = least_squares_line(x, y)
    return [{"x": round_for_chart(at), "y": round_for_chart(line.slope * at + line.intercept)}
            for at in (x.min(), x.max())]  # fmt: skip


def round_for_chart(value: float) -> float:
    """A number with as many digits as a chart shows.

    >>> round_for_chart(0.123456789)
    0.12346
    """
    return float(f"{value:.5g}")


def _select_scores(comparison: MeasureComparison) -> GroupedScores:
    found = {one.statistic: one for one in comparison.scores}
    for name in GROUP_STATISTICS:
        if name in found and (found[name].n >= MIN_GROUP_MODELS).any():
            return found[name]
    raise NotApplicable(
        f"no measure has answers for {MIN_GROUP_MODELS} models on one domain that they were not trained on"
    )


def _measure_figures(
    groups: Sequence[_ScatterGroup], measure: str, measure_index: int
) -> tuple[Figure, ...]:
    accuracies = np.concatenate([g.comparison.table.accuracy[g.drawn_rows] for g in groups])
    low, high = padded_percent_range([100 * float(accuracies.min()), 100 * float(accuracies.max())])
    axes = charts.PanelAxes(truncate_name(measure), "accuracy, %", None, (low, high))
    found = (
        _panel_figure(group, measure, axes, f"m{measure_index}-{j}")
        for j, group in enumerate(groups)
    )
    return tuple(one for one in found if one is not None)


def _panel_figure(
    group: _ScatterGroup, measure: str, axes: charts.PanelAxes, key: str
) -> Figure | None:
    """One panel; None where the measure has too few answers."""
    table = group.comparison.table
    values = table.measures[measure]
    known = group.rows[~np.isnan(values[group.rows])]
    if len(known) < MIN_GROUP_MODELS:
        return None
    shown = group.drawn_rows[~np.isnan(values[group.drawn_rows])]
    points = [
        {"name": truncate_name(table.models[table.model[row]]), "x": round_for_chart(values[row]),
         "y": round_for_chart(100 * table.accuracy[row])}
        for row in shown
    ]  # fmt: skip
    tau = _format_tau(group, measure)
    part = f", {len(shown)} of them drawn" if len(shown) < len(known) else ""
    told = f"τ {tau}; {pluralize(len(known), 'model')}{part}."
    return Figure(
        key=key,
        title=truncate_name(group.name),
        caption=told,
        alt=f"Accuracy against {truncate_name(measure)}, {truncate_name(group.name)}: {told}",
        spec=charts.panel_chart(
            points, fit_line_ends(values[known], 100 * table.accuracy[known]), axes
        ),
    )


def _format_tau(group: _ScatterGroup, measure: str) -> str:
    value = group.scores.values[group.scores.measures.index(measure), group.group_index]
    return "not defined" if np.isnan(value) else format_number(float(value), 2)


def _group_table(group: _ScatterGroup, measures: Sequence[str]) -> Numbers:
    table = group.comparison.table
    rows = (
        (
            truncate_name(table.models[table.model[row]]),
            f"{100 * table.accuracy[row]:.1f}",
            *(_format_value(table.measures[name][row]) for name in measures),
        )
        for row in group.drawn_rows
    )
    return Numbers(("model", "accuracy, %", *map(truncate_name, measures)), tuple(rows))


def _format_value(value: float) -> str:
    return "no answer" if np.isnan(value) else f"{value:.4g}".replace("-", "−")
