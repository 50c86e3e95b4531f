"""Section of a study page on the correlation of ID metrics with OOD error by task difficulty."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from oodometer.core.errors import NotApplicable
from oodometer.core.format import format_number, pluralize
from oodometer.report.charts import Figure
from oodometer.report.charts import FigureTable as Numbers
from oodometer.report.histograms import truncate_name
from oodometer.studies.analysis import (
    DifficultyTrend,
    MeasureComparison,
    correlations_by_difficulty,
)
from oodometer.studies.analysis.factors import factor_metrics
from oodometer.studies.report import charts
from oodometer.studies.report.scatter import round_for_chart
from oodometer.studies.report.tables import most_informative_measures

# Maximum number of metrics besides the error; each has a panel on ID and on corrupted ID data.
MAX_METRICS = 6
AXES = charts.PanelAxes("task difficulty", "ρ with OOD error", (-0.05, 1.05), (-1.05, 1.05))


@dataclass(frozen=True)
class DifficultySection:
    """One panel per ID metric."""

    figures: tuple[Figure, ...]


def build_difficulty_section(comparison: MeasureComparison) -> DifficultySection:
    """Chart the correlation of every ID metric with OOD error against task difficulty."""
    metrics: Sequence[str] = factor_metrics(comparison.table)
    if len(metrics) > MAX_METRICS:
        metrics = most_informative_measures(comparison, MAX_METRICS)
    trends = correlations_by_difficulty(comparison.table, metrics=metrics)
    if not trends:
        raise NotApplicable("no ID metric has a correlation with OOD error")
    return DifficultySection(
        tuple(_trend_figure(trend, f"difficulty-{j}") for j, trend in enumerate(trends))
    )


def _trend_figure(trend: DifficultyTrend, key: str) -> Figure:
    points = [
        {
            "name": truncate_name(point.task),
            "x": round_for_chart(point.difficulty),
            "y": round_for_chart(point.correlation),
        }
        for point in trend.points
    ]
    line = trend.line
    ends = [] if line is None else [{"x": x, "y": round_for_chart(line(x))} for x in (0.0, 1.0)]
    fit = "No line: fewer than three tasks" if line is None else _format_line(line.slope, line(0))
    title = truncate_name(trend.metric)
    n_tasks = pluralize(len(points), "task")
    return Figure(
        key=key,
        title=title,
        caption=f"{fit}.",
        alt=f"Correlation of {title} with OOD error against difficulty, {n_tasks}. {fit}.",
        spec=charts.panel_chart(points, ends, AXES),
        table=Numbers(
            ("task", "difficulty", "ρ", "pairs"),
            tuple(
                (
                    truncate_name(point.task),
                    format_number(point.difficulty, 2),
                    format_number(point.correlation, 2),
                    f"{point.pairs:,}",
                )
                for point in trend.points
            ),
        ),
    )


def _format_line(slope: float, intercept: float) -> str:
    return f"Line: {format_number(intercept, 2)} at difficulty 0, slope {format_number(slope, 2)}"
