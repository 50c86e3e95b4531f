"""Views of measures and metrics: HTML in notebooks, HTML report and charts."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from oodometer import measures, metrics
from oodometer.core.errors import UnknownName
from oodometer.core.format import pluralize
from oodometer.core.result_views import TableRows
from oodometer.measures import Measurements
from oodometer.metrics import Evaluation
from oodometer.report import charts
from oodometer.report.charts import Figure, IntervalPoint, NamedValue
from oodometer.report.histograms import unique_labels
from oodometer.report.notebook import (
    FigureBuilders,
    NotebookContent,
    NotebookTable,
    draw,
    render_notebook,
)
from oodometer.report.page import render, versions_text, write_page

Scores = Measurements | Evaluation
# A chart of classes has at most this many of them; the table has all.
MAX_DRAWN_CLASSES = 40


def notebook_html(result: Scores) -> str:
    """Return measures or metrics as a fragment of HTML for notebooks."""
    return render_notebook(
        NotebookContent(
            headline=_headline(result),
            subject=_subject(result),
            tables=[
                NotebookTable(table.title, table.heads, table.rows, is_open=not place)
                for place, table in enumerate(_tables(result))
            ],
        )
    )


def write_report(result: Scores, path: str | Path, *, title: str | None) -> None:
    """Write the HTML report of measures or metrics."""
    figures = [figure for build in _figures(result).values() if (figure := build()) is not None]
    context = {
        "title": title or f"{_headline(result)} {_subject(result)}",
        "headline": _headline(result),
        "subject": _subject(result),
        "sentences": [_explanation(result)],
        "figures": figures,
        "tables": [table for table in _tables(result) if table.rows],
        "reproduce": {"Versions": versions_text(), "Seed": str(result.seed)},
    }
    write_page(render("scores_page.html", context), path)


def draw_chart(result: Scores, kind: str | None) -> Any:
    """Return a chart: values and noise of measures, or metrics, classes and corruptions."""
    return draw(_figures(result), kind)


def _headline(result: Scores) -> str:
    noun = "measure" if isinstance(result, Measurements) else "metric"
    return f"{pluralize(len(result.scores), noun)} of {result.model or 'given outputs'}"


def _subject(result: Scores) -> str:
    if isinstance(result, Evaluation):
        return f"on {result.data}, {pluralize(result.n, 'labelled row')}"
    return (
        f"from {result.source} ({pluralize(result.n_source, 'row')}) to {result.target} "
        f"({pluralize(result.n_target, 'row')})"
    )


def _explanation(result: Scores) -> str:
    if isinstance(result, Evaluation):
        return "Metrics are computed from the labels; intervals reflect sampling error only."
    return (
        "Measures need no target labels. Each has its own unit, so values of different measures "
        "cannot be compared."
    )


def _tables(result: Scores) -> list[NotebookTable]:
    titles = {"skipped": "Not applicable"}
    tables = []
    for name, rows in result.tables().items():
        if name in ("classes", "corruptions"):
            rows = _pivot_metrics(rows)
        heads = tuple(rows[0]) if rows else ()
        cells = [[_format_cell(cell) for cell in row.values()] for row in rows]
        shown_heads = tuple(head.replace("_", " ") for head in heads)
        tables.append(NotebookTable(titles.get(name, name.capitalize()), shown_heads, cells))
    return tables


def _pivot_metrics(rows: TableRows) -> TableRows:
    """Return rows of single values with one column per metric instead of one row per metric."""
    metric_names = dict.fromkeys(row["metric"] for row in rows)
    wide: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in rows:
        keys = {name: cell for name, cell in row.items() if name not in ("metric", "value")}
        cells = wide.setdefault(tuple(keys.values()), {**keys, **dict.fromkeys(metric_names)})
        cells[row["metric"]] = row["value"]
    return list(wide.values())


def _format_cell(cell: Any) -> str:
    if cell is None:
        return ""
    return f"{cell:.4g}".replace("-", "−") if isinstance(cell, float) else str(cell)


def _label(family: Any, name: str) -> str:
    """Return the label of a measure or metric; its name if it is not a listed one."""
    try:
        return str(family.get(name).label)
    except UnknownName:
        return name


def _figures(result: Scores) -> FigureBuilders:
    if isinstance(result, Measurements):
        return {"values": partial(_values, result), "noise": partial(_noise, result)}
    return {
        "metrics": partial(_metrics, result),
        "classes": partial(_classes, result),
        "corruptions": partial(_corruptions, result),
    }


def _values(result: Measurements) -> Figure | None:
    bars = [
        NamedValue(_label(measures, name), score.value) for name, score in result.scores.items()
    ]
    if not bars:
        return None
    return Figure(
        key="values",
        title="Values of the measures",
        caption="The scale is linear near 0 and logarithmic farther away, because each measure has "
        "its own unit.",
        alt=f"Values of {pluralize(len(bars), 'measure')}.",
        spec=charts.bar_chart(bars, "value, in the unit of the measure", scale="symlog"),
        wide=True,
    )


def _noise(result: Measurements) -> Figure | None:
    bars = [
        NamedValue(_label(measures, name), noise.signal_to_noise)
        for name, noise in result.noise.items()
        if noise.signal_to_noise is not None
    ]
    if not bars:
        return None
    return Figure(
        key="noise",
        title="Signal to noise",
        caption="Absolute mean over random subsets of the rows, divided by the standard deviation. "
        "Differences of a measure with a small ratio mean little.",
        alt=f"Signal-to-noise ratios of {pluralize(len(bars), 'measure')}.",
        spec=charts.bar_chart(bars, "signal / noise", scale="symlog"),
        wide=True,
    )


def _metrics(result: Evaluation) -> Figure | None:
    points = [
        IntervalPoint(_label(metrics, name), score.value, score.low, score.high)
        for name, score in result.scores.items()
    ]
    if not points:
        return None
    ends = [end for p in points for end in (p.value, p.low, p.high) if end is not None]
    return Figure(
        key="metrics",
        title="Metrics",
        caption="Each point is the value of a metric; its line is the 95 % confidence interval.",
        alt=f"Values of {pluralize(len(points), 'metric')}.",
        spec=charts.interval_chart(points, "value", domain=charts.padded_range(ends)),
        wide=True,
    )


def _classes(result: Evaluation) -> Figure | None:
    by_metric = {name: score.by_class for name, score in result.scores.items() if score.by_class}
    labels = list(dict.fromkeys(label for values in by_metric.values() for label in values))
    drawn = labels[:MAX_DRAWN_CLASSES]
    if not drawn:
        return None
    names = dict(zip(drawn, unique_labels(drawn), strict=True))
    bars = [
        NamedValue(names[label], float(values[label]), _label(metrics, metric))
        for label in drawn
        for metric, values in by_metric.items()
        if label in values
    ]
    return Figure(
        key="classes",
        title="Values per class",
        caption="Value of each metric that has one per class."
        + ("" if drawn == labels else f" {len(drawn)} of {len(labels)} classes are drawn."),
        alt=f"Values of {len(by_metric)} metrics on {pluralize(len(drawn), 'class')}.",
        spec=charts.bar_chart(bars, "value"),
        wide=True,
    )


def _corruptions(result: Evaluation) -> Figure | None:
    metric = next(iter(result.mean_under_corruption), None)
    if metric is None:
        return None
    bars = [
        NamedValue(
            corrupted.corruption.name,
            corrupted.scores[metric].value,
            f"severity {corrupted.corruption.severity}",
        )
        for corrupted in result.by_corruption
    ]
    label = _label(metrics, metric)
    return Figure(
        key="corruptions",
        title=f"{label} under corruption",
        caption=f"{label} after each corruption of the images, by severity.",
        alt=f"{label} after {len({bar.name for bar in bars})} corruptions.",
        spec=charts.bar_chart(bars, label),
        wide=True,
    )
