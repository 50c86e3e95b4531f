"""Section of a study page on OOD against ID accuracy, with the pattern and gap of every pair."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from oodometer.core.errors import NotApplicable
from oodometer.core.format import format_number, pluralize
from oodometer.report.charts import Figure, padded_percent_range
from oodometer.report.charts import FigureTable as Numbers
from oodometer.report.histograms import truncate_name
from oodometer.studies.analysis.evaluation_table import EvaluationTable
from oodometer.studies.analysis.id_ood_scatter import (
    AccuracyGap,
    IdOodScatter,
    id_ood_scatters,
    task_difficulties,
)
from oodometer.studies.analysis.scatter_patterns import PatternName
from oodometer.studies.report import charts
from oodometer.studies.report.scatter import (
    MAX_PANELS,
    round_for_chart,
    select_largest_groups,
    thin_rows,
)

# Maximum number of rows in the table of pairs, because more rows would make the page too large.
MAX_PAIRS = 300
PATTERN_MEANINGS: dict[PatternName, str] = {
    "functional": "functional relationship: models with higher ID accuracy have higher OOD accuracy",
    "vertical": "vertical line: similar ID accuracy, different OOD accuracy (underspecified)",
    "horizontal": "horizontal line: higher ID accuracy does not help OOD (no generalization)",
    "cloud": "point cloud: ID accuracy hardly predicts OOD accuracy",
}
PAIR_TABLE_HEADS = (
    "pair",
    "models",
    "ID, %",
    "OOD, %",
    "normalized gap, %",
    "ρ",
    "ID spread",
    "OOD spread",
    "pattern",
)


@dataclass(frozen=True)
class PatternSection:
    """Scatter plots, a table of pairs, a table of tasks if there are several, and remarks."""

    figures: tuple[Figure, ...]
    pairs: Numbers
    tasks: Numbers | None
    counts: tuple[tuple[str, int], ...]
    remarks: tuple[str, ...]


def build_pattern_section(table: EvaluationTable) -> PatternSection:
    """Describe the scatter plot of every pair of a training set and an OOD domain."""
    all_scatters = id_ood_scatters(table)
    scatters = [scatter for scatter in all_scatters if scatter.models]
    if not scatters:
        raise NotApplicable(
            "no model has an accuracy both on a domain that it was trained on and on another"
        )
    sizes = np.array([len(scatter.models) for scatter in scatters])
    drawn = [scatters[j] for j in select_largest_groups(sizes, MAX_PANELS, 1)]
    listed = [scatters[j] for j in select_largest_groups(sizes, MAX_PAIRS, 1)]
    counts = Counter(
        PATTERN_MEANINGS[scatter.pattern.name] if scatter.pattern.name else "no pattern"
        for scatter in scatters
    )
    remarks = []
    if len(scatters) < len(all_scatters):
        n_empty = len(all_scatters) - len(scatters)
        remarks.append(
            f"{pluralize(n_empty, 'pair')} left out, because no model has both accuracies."
        )
    if len(drawn) < len(scatters):
        remarks.append(
            f"{len(drawn)} of {len(scatters):,} pairs are drawn, those with the most models."
        )
    if len(listed) < len(scatters):
        remarks.append(f"The table lists {len(listed)} of them.")
    return PatternSection(
        figures=_pair_figures(drawn),
        pairs=Numbers(PAIR_TABLE_HEADS, tuple(_pair_row(scatter) for scatter in listed)),
        tasks=_task_table(scatters),
        counts=tuple(counts.most_common()),
        remarks=tuple(remarks),
    )


def _pair_figures(scatters: Sequence[IdOodScatter]) -> tuple[Figure, ...]:
    """Chart each pair in a panel; all panels have the same axes, so spreads can be compared."""
    accuracies = 100 * np.concatenate(
        [values for scatter in scatters for values in (scatter.id_accuracy, scatter.ood_accuracy)]
    )
    low, high = padded_percent_range([float(accuracies.min()), float(accuracies.max())])
    axes = charts.PanelAxes("ID accuracy, %", "OOD accuracy, %", (low, high), (low, high))
    return tuple(_pair_figure(scatter, axes, f"pair-{j}") for j, scatter in enumerate(scatters))


def _pair_figure(scatter: IdOodScatter, axes: charts.PanelAxes, key: str) -> Figure:
    n_models = len(scatter.models)
    rows = thin_rows(np.arange(n_models), scatter.ood_accuracy)
    points = [
        {
            "name": truncate_name(scatter.models[j]),
            "x": round_for_chart(100 * scatter.id_accuracy[j]),
            "y": round_for_chart(100 * scatter.ood_accuracy[j]),
        }
        for j in rows
    ]
    pattern = (scatter.pattern.name or "no pattern").capitalize()
    description = f"{pattern}: {scatter.pattern.reason}".replace("-", "−")
    thinned = f"; {len(rows)} of {n_models:,} models drawn" if len(rows) < n_models else ""
    cells = tuple(
        (
            truncate_name(scatter.models[j]),
            f"{100 * scatter.id_accuracy[j]:.1f}",
            f"{100 * scatter.ood_accuracy[j]:.1f}",
        )
        for j in rows
    )
    title = truncate_name(_pair_name(scatter))
    return Figure(
        key=key,
        title=title,
        caption=f"{description}{thinned}.",
        alt=f"OOD against ID accuracy of {pluralize(n_models, 'model')}, {title}: {description}.",
        spec=charts.panel_chart(points, [{"x": end, "y": end} for end in axes.y_range], axes),
        table=Numbers(("model", "ID, %", "OOD, %"), cells),
    )


def _pair_name(scatter: IdOodScatter) -> str:
    return f"{scatter.training} → {scatter.target}"


def _pair_row(scatter: IdOodScatter) -> tuple[str, ...]:
    pattern = scatter.pattern
    return (
        truncate_name(_pair_name(scatter)),
        f"{len(scatter.models):,}",
        *_format_gap(scatter.gap),
        format_number(pattern.correlation, 2),
        _format_percent(pattern.id_spread),
        _format_percent(pattern.ood_spread),
        pattern.name or "none",
    )


def _format_percent(value: float | None) -> str:
    return format_number(None if value is None else 100 * value, 1)


def _format_gap(gap: AccuracyGap) -> tuple[str, str, str]:
    """Format mean ID accuracy, mean OOD accuracy and the normalized gap, with standard errors."""
    pairs = ((gap.id, gap.id_se), (gap.ood, gap.ood_se), (gap.value, gap.value_se))
    texts = [
        _format_percent(value) + ("" if error is None else f" ± {_format_percent(error)}")
        for value, error in pairs
    ]
    return texts[0], texts[1], texts[2]


def _task_table(scatters: Sequence[IdOodScatter]) -> Numbers | None:
    """Return the table of task difficulties; None if there is only one task."""
    tasks = task_difficulties(scatters)
    if len(tasks) < 2:
        return None
    rows = (
        (
            truncate_name(task.task),
            str(task.pairs),
            *_format_gap(task.gap),
            format_number(task.place, 2),
        )
        for task in tasks
    )
    return Numbers(
        ("task", "pairs", "ID, %", "OOD, %", "normalized gap, %", "difficulty, 0…1"), tuple(rows)
    )
