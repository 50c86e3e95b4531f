"""Section of a study page with scatter plots of accuracy against a measure.

There is one panel per group of models, with a fitted line.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from oodometer.core.array_types import Floats, Ints
from oodometer.core.errors import NotApplicable
from oodometer.core.format import format_number, pluralize
from oodometer.core.stats import least_squares_line
from oodometer.report.charts import ChartRow, Figure, padded_percent_range
from oodometer.report.charts import FigureTable as Numbers
from oodometer.report.histograms import truncate_name
from oodometer.studies.analysis import STATISTIC_LABELS, MeasureComparison
from oodometer.studies.analysis.grouped_scores import GroupedScores
from oodometer.studies.report import charts
from oodometer.studies.report.tables import rank_measures

# A browser needs about 50 ms to draw a chart, and a page should open within 3 s. The number of
# measures, of panels per measure and of points per panel is therefore limited.
MAX_MEASURES = 2
MAX_PANELS = 8
MAX_POINTS = 60
# Groups with fewer models are not drawn.
MIN_GROUP_MODELS = 3
# Statistics whose groups of models may be drawn, from small to large groups. The first statistic
# that has a group with enough models is used.
GROUP_STATISTICS = ("macro_tau", "micro_tau", "arch_tau")


@dataclass(frozen=True)
class MeasurePanels:
    """Panels of one measure."""

    measure: str
    figures: tuple[Figure, ...]


@dataclass(frozen=True, eq=False)
class ScatterSection:
    """Panels of the best measures, tables with the numbers of each group, and a remark."""

    measures: tuple[MeasurePanels, ...]
    groups: tuple[tuple[str, Numbers], ...]
    statistic: str
    remark: str


@dataclass(frozen=True, eq=False)
class _ScatterGroup:
    """Group of models: all rows with a known accuracy, and the rows to draw."""

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
    """Chart accuracy against the best measures, in the groups with the most models."""
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
    remark = (
        f" {len(groups)} of {drawable:,} groups are shown, those with the most models."
        if len(groups) < drawable
        else ""
    )
    return ScatterSection(
        measures=tuple(
            MeasurePanels(name, _measure_figures(groups, name, j))
            for j, name in enumerate(measures)
        ),
        groups=tuple((group.name, _group_table(group, measures)) for group in groups),
        statistic=STATISTIC_LABELS[scores.statistic],
        remark=remark,
    )


def select_largest_groups(sizes: Ints, max_groups: int, min_size: int) -> Ints:
    """Return the indices of the `max_groups` largest groups with at least `min_size` models.

    If too many groups of the same size remain for the last places, groups at equal steps are chosen.

    >>> select_largest_groups(np.array([5, 9, 5, 5, 1]), 3, 2).tolist()
    [0, 1, 3]
    """
    eligible = np.flatnonzero(sizes >= min_size)
    order = eligible[np.argsort(-sizes[eligible], kind="stable")]
    if len(order) <= max_groups:
        return np.sort(order)
    smallest = sizes[order[max_groups - 1]]
    larger = order[sizes[order] > smallest]
    tied = order[sizes[order] == smallest]
    sampled = np.linspace(0, len(tied) - 1, max_groups - len(larger)).round().astype(np.int64)
    return np.sort(np.concatenate([larger, tied[sampled]]))


def thin_rows(rows: Ints, values: Floats, max_rows: int = MAX_POINTS) -> Ints:
    """Return rows sorted by value; if there are too many, `max_rows` of them at equal steps.

    The rows with the lowest and the highest value are always included.

    >>> thin_rows(np.array([7, 8, 9]), np.array([0.3, 0.1, 0.2]), 2).tolist()
    [8, 7]
    """
    ordered = rows[np.argsort(values, kind="stable")]
    if len(ordered) <= max_rows:
        return ordered
    return ordered[np.linspace(0, len(ordered) - 1, max_rows).round().astype(np.int64)]


def fit_line_ends(x: Floats, y: Floats) -> list[ChartRow]:
    """Return both ends of the least-squares line; an empty list if x is constant."""
    if len(np.unique(x)) < 2:
        return []
    line = least_squares_line(x, y)
    return [
        {"x": round_for_chart(end), "y": round_for_chart(line.slope * end + line.intercept)}
        for end in (x.min(), x.max())
    ]


def round_for_chart(value: float) -> float:
    """Round a number to the five significant digits that a chart needs.

    >>> round_for_chart(0.123456789)
    0.12346
    """
    return float(f"{value:.5g}")


def _select_scores(comparison: MeasureComparison) -> GroupedScores:
    by_name = {scores.statistic: scores for scores in comparison.scores}
    for name in GROUP_STATISTICS:
        if name in by_name and (by_name[name].n >= MIN_GROUP_MODELS).any():
            return by_name[name]
    raise NotApplicable(
        f"no measure has values for {MIN_GROUP_MODELS} models on one domain that they were not "
        "trained on"
    )


def _measure_figures(
    groups: Sequence[_ScatterGroup], measure: str, measure_index: int
) -> tuple[Figure, ...]:
    accuracies = np.concatenate([g.comparison.table.accuracy[g.drawn_rows] for g in groups])
    low, high = padded_percent_range([100 * float(accuracies.min()), 100 * float(accuracies.max())])
    axes = charts.PanelAxes(truncate_name(measure), "accuracy, %", None, (low, high))
    figures = (
        _panel_figure(group, measure, axes, f"m{measure_index}-{j}")
        for j, group in enumerate(groups)
    )
    return tuple(figure for figure in figures if figure is not None)


def _panel_figure(
    group: _ScatterGroup, measure: str, axes: charts.PanelAxes, key: str
) -> Figure | None:
    """Chart one panel; return None if the measure has too few values in the group."""
    table = group.comparison.table
    values = table.measures[measure]
    known = group.rows[~np.isnan(values[group.rows])]
    if len(known) < MIN_GROUP_MODELS:
        return None
    shown = group.drawn_rows[~np.isnan(values[group.drawn_rows])]
    points = [
        {
            "name": truncate_name(table.models[table.model[row]]),
            "x": round_for_chart(values[row]),
            "y": round_for_chart(100 * table.accuracy[row]),
        }
        for row in shown
    ]
    thinned = f", {len(shown)} of them drawn" if len(shown) < len(known) else ""
    caption = f"τ {_format_tau(group, measure)}; {pluralize(len(known), 'model')}{thinned}."
    return Figure(
        key=key,
        title=truncate_name(group.name),
        caption=caption,
        alt=f"Accuracy against {truncate_name(measure)}, {truncate_name(group.name)}: {caption}",
        spec=charts.panel_chart(
            points, fit_line_ends(values[known], 100 * table.accuracy[known]), axes
        ),
    )


def _format_tau(group: _ScatterGroup, measure: str) -> str:
    value = group.scores.values[group.scores.measures.index(measure), group.group_index]
    return "undefined" if np.isnan(value) else format_number(float(value), 2)


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
    return "missing" if np.isnan(value) else f"{value:.4g}".replace("-", "−")
