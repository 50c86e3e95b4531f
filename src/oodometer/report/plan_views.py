"""Views of a labeling plan: HTML in notebooks, HTML page and charts."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from oodometer.assessment import LabelingPlan
from oodometer.core.format import pluralize
from oodometer.report.charts import Figure, NamedValue, bar_chart
from oodometer.report.notebook import (
    FigureBuilders,
    NotebookContent,
    NotebookTable,
    draw,
    render_notebook,
)
from oodometer.report.page import render, versions_text, write_page

DEFAULT_TITLE = "Labeling plan"
NEXT_STEP = (
    "Write the rows with to_csv(path), fill in the column label, and pass the file to estimate as "
    "target_labels."
)
# Number of bars of the chart of confidences.
N_BARS = 10


def notebook_html(plan: LabelingPlan) -> str:
    """Return a labeling plan as a fragment of HTML for notebooks."""
    content = NotebookContent(
        headline=_headline(plan), sentences=[plan.summary, NEXT_STEP], tables=[_table(plan)]
    )
    return render_notebook(content)


def write_report(plan: LabelingPlan, path: str | Path, *, title: str | None) -> None:
    """Write an HTML page with the charts and the rows to label."""
    figures = [figure for build in _figures(plan).values() if (figure := build()) is not None]
    context = {
        "title": title or DEFAULT_TITLE,
        "headline": _headline(plan),
        "subject": "",
        "sentences": [plan.summary, NEXT_STEP],
        "figures": figures,
        "tables": [_table(plan)],
        "reproduce": {"Versions": versions_text()},
    }
    write_page(render("scores_page.html", context), path)


def draw_chart(plan: LabelingPlan, kind: str | None) -> Any:
    """Return a chart: number of labels, or confidence of the rows to label."""
    return draw(_figures(plan), kind)


def _headline(plan: LabelingPlan) -> str:
    return f"{pluralize(plan.n_labels, 'row')} to label"


def _table(plan: LabelingPlan) -> NotebookTable:
    (rows,) = plan.tables().values()
    heads = tuple(name for name in rows[0] if name != "label")
    cells = [
        [f"{row[name]:.4f}" if name == "confidence" else str(row[name]) for name in heads]
        for row in rows
    ]
    return NotebookTable("Rows to label, counted from 0", heads, cells)


def _figures(plan: LabelingPlan) -> FigureBuilders:
    return {"labels": partial(_labels, plan), "confidence": partial(_confidence, plan)}


def _labels(plan: LabelingPlan) -> Figure:
    bars = [
        NamedValue("these rows", plan.n_labels),
        NamedValue("simple random sampling", plan.n_labels_without_scores),
    ]
    return Figure(
        key="labels",
        title=f"Labels for ±{round(100 * plan.half_width, 1):g} points",
        caption="Number of labels that a confidence interval of this half-width needs.",
        alt=f"{plan.n_labels} labels, {plan.n_labels_without_scores} without scores.",
        spec=bar_chart(bars, "labels"),
        wide=True,
    )


def _confidence(plan: LabelingPlan) -> Figure | None:
    if plan.confidence is None:
        return None
    counts, edges = np.histogram(plan.confidence, bins=N_BARS)
    bars = [
        NamedValue(f"{low:.2f} to {high:.2f}", int(count))
        for low, high, count in zip(edges[:-1], edges[1:], counts, strict=True)
    ]
    return Figure(
        key="confidence",
        title="Confidence of the rows to label",
        caption="The rows are spread evenly over all rows in the order of their confidence.",
        alt=f"Numbers of rows in {N_BARS} ranges of confidence.",
        spec=bar_chart(bars, "rows"),
        wide=True,
    )
