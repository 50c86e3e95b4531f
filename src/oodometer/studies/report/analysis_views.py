"""Views of an analysis of a study: HTML in notebooks, HTML report and charts."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from oodometer.report.charts import Figure, NamedValue, bar_chart
from oodometer.report.histograms import unique_labels
from oodometer.report.notebook import (
    FigureBuilders,
    NotebookContent,
    NotebookTable,
    draw,
    render_notebook,
)
from oodometer.report.page import render, versions_text, write_page
from oodometer.studies.analysis import AnalysisResult

# A chart has at most this many bars; the table has all rows.
MAX_BARS = 40


def notebook_html(result: AnalysisResult) -> str:
    """Return an analysis as a fragment of HTML for notebooks."""
    content = NotebookContent(
        headline=result.title, sentences=result.notes, tables=[_table(result)]
    )
    return render_notebook(content)


def write_report(result: AnalysisResult, path: str | Path, *, title: str | None) -> None:
    """Write an HTML page with the chart of every column and the table."""
    context = {
        "title": title or result.title,
        "headline": result.title,
        "subject": "",
        "sentences": result.notes,
        "figures": [build() for build in _figures(result).values()],
        "tables": [_table(result)],
        "reproduce": {"Versions": versions_text()},
    }
    write_page(render("scores_page.html", context), path)


def draw_chart(result: AnalysisResult, kind: str | None) -> Any:
    """Return a bar chart of one column; the kinds are the headings of columns with numbers."""
    return draw(_figures(result), kind)


def _table(result: AnalysisResult) -> NotebookTable:
    return NotebookTable("Values", result.table.header, result.table.rows)


def _figures(result: AnalysisResult) -> FigureBuilders:
    records = result.table.to_records()
    numeric = [
        name
        for name in result.table.header
        if any(isinstance(row[name], float) for row in records)
        and not any(isinstance(row[name], str) for row in records)
    ]
    texts = [name for name in result.table.header if name not in numeric]
    names = unique_labels([" ".join(str(row[name] or "") for name in texts) for row in records])
    return {
        column: partial(_figure, result, number, column, names)
        for number, column in enumerate(numeric)
    }


def _figure(result: AnalysisResult, number: int, column: str, names: list[str]) -> Figure:
    bars = [
        NamedValue(name, row[column])
        for name, row in zip(names, result.table.to_records(), strict=True)
        if row[column] is not None
    ][:MAX_BARS]
    return Figure(
        key=f"column-{number}",
        title=f"{result.title}: {column}",
        caption=" ".join(result.notes),
        alt=f"{column} of {len(bars)} rows of the table.",
        spec=bar_chart(bars, column),
        wide=True,
    )
