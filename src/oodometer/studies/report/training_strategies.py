"""Section of a study page on training strategies: whole model or head, and augmentations."""

from __future__ import annotations

from dataclasses import dataclass

from oodometer.core.errors import NotApplicable
from oodometer.core.format import pluralize
from oodometer.report.charts import Figure
from oodometer.report.charts import FigureTable as Numbers
from oodometer.report.histograms import truncate_name, unique_labels
from oodometer.studies.analysis import (
    AugmentationAccuracy,
    StrategyGap,
    augmentation_effects,
    run_analysis,
    training_strategy_gaps,
)
from oodometer.studies.analysis.evaluation_table import EvaluationTable
from oodometer.studies.report import charts

# Maximum number of tasks with a chart; the tables have all tasks.
MAX_CHARTS = 10


@dataclass(frozen=True)
class StrategySection:
    """Charts by task and table of one comparison of training strategies, with notes."""

    figures: tuple[Figure, ...]
    table: Numbers
    notes: tuple[str, ...]


def build_strategy_section(table: EvaluationTable) -> StrategySection:
    """Compare models trained as a whole with models of which only the head is trained."""
    gaps = [gap for gap in training_strategy_gaps(table) if gap.gap is not None]
    if not gaps:
        raise NotApplicable("all models that are trained as a whole have accuracy 0")
    tasks = list(dict.fromkeys(gap.task for gap in gaps))[:MAX_CHARTS]
    figures = (
        _gap_figure(f"strategies-{j}", [gap for gap in gaps if gap.task == task])
        for j, task in enumerate(tasks)
    )
    return _build_section(table, "strategies", tuple(figures))


def build_augmentation_section(table: EvaluationTable) -> StrategySection:
    """Compare models that are trained with different augmentations."""
    means = augmentation_effects(table)
    tasks = list(dict.fromkeys(mean.task for mean in means))[:MAX_CHARTS]
    figures = (
        _augmentation_figure(f"augmentation-{j}", [mean for mean in means if mean.task == task])
        for j, task in enumerate(tasks)
    )
    return _build_section(table, "augmentation", tuple(figures))


def _build_section(
    table: EvaluationTable, analysis: str, figures: tuple[Figure, ...]
) -> StrategySection:
    result = run_analysis(table, analysis)
    rows = tuple(tuple(map(truncate_name, row)) for row in result.table.rows)
    n_tasks = len({row[0] for row in rows})
    more = (f"{len(figures)} of {n_tasks} tasks are drawn.",) if len(figures) < n_tasks else ()
    return StrategySection(figures, Numbers(result.table.header, rows), (*result.notes, *more))


def _gap_figure(key: str, gaps: list[StrategyGap]) -> Figure:
    """Chart the gaps of one task."""
    names = unique_labels([f"{gap.role}, {gap.size}" for gap in gaps])
    spans = [_span(name, gap.gap or 0.0, gap.gap_se) for name, gap in zip(names, gaps, strict=True)]
    rules = [("0: no difference", 0.0)]
    return Figure(
        key=key,
        title=truncate_name(gaps[0].task),
        caption="Above 0, training the whole model is better. ± one standard error.",
        alt=f"Normalized gaps, {_describe(spans)}.",
        spec=charts.span_chart(spans, title="normalized gap, %", rules=rules),
    )


def _augmentation_figure(key: str, means: list[AugmentationAccuracy]) -> Figure:
    """Chart the accuracies of one task."""
    names = unique_labels(
        [f"{mean.role}, {mean.size.split(' ')[0]}: {mean.augmentation}" for mean in means]
    )
    spans = [_span(name, mean.accuracy, mean.se) for name, mean in zip(names, means, strict=True)]
    return Figure(
        key=key,
        title=truncate_name(means[0].task),
        caption="Mean accuracy ± one standard error; numbers are training rows per class.",
        alt=f"Mean accuracies, {_describe(spans)}.",
        spec=charts.span_chart(spans, title="accuracy, %"),
    )


def _describe(spans: list[charts.ValueSpan]) -> str:
    values = [span.value for span in spans]
    return f"{pluralize(len(spans), 'value')} from {min(values)} to {max(values)} percent"


def _span(name: str, value: float, se: float | None) -> charts.ValueSpan:
    center, half = 100 * value, 100 * (se or 0.0)
    return charts.ValueSpan(
        name, round(center, 2), round(center - half, 2), round(center + half, 2)
    )
