"""Views of a comparison of measures: HTML in notebooks, HTML report of the study and charts."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from oodometer.core.format import pluralize
from oodometer.report.charts import Figure
from oodometer.report.notebook import (
    IntervalBar,
    NotebookContent,
    NotebookTable,
    draw,
    render_notebook,
)
from oodometer.report.page import versions_text, write_page
from oodometer.studies.analysis import STATISTIC_LABELS, MeasureComparison
from oodometer.studies.report._study_page import overview_figure, study_page
from oodometer.studies.report.correlations import build_correlation_section
from oodometer.studies.report.regret import build_regret_section
from oodometer.studies.report.scatter import build_scatter_section
from oodometer.studies.report.summary import computation_remarks, study_description, verdict
from oodometer.studies.report.tables import (
    StatisticCell,
    StudyTable,
    defined_summaries,
    most_informative_measures,
    sort_statistic,
    study_tables,
)

DEFAULT_TITLE = "Which measures predict accuracy?"


def notebook_html(comparison: MeasureComparison) -> str:
    """Return a comparison of measures as a fragment of HTML for notebooks."""
    order = sort_statistic(comparison)
    first, *others = study_tables(comparison) or (None,)
    tables = [] if first is None else [_notebook_table(first, is_open=True)]
    return render_notebook(
        NotebookContent(
            headline=DEFAULT_TITLE,
            subject="" if order is None else f"{STATISTIC_LABELS[order]}, mean ± sd over groups",
            sentences=[
                verdict(comparison),
                study_description(comparison),
                *computation_remarks(comparison),
            ],
            bars=list(_bars(comparison, order)),
            tables=[*tables, *(_notebook_table(table, is_open=False) for table in others if table)],
        )
    )


def write_report(comparison: MeasureComparison, path: str | Path, *, title: str | None) -> None:
    """Write the HTML report of the evaluations that were compared."""
    page = study_page(
        comparison.table,
        title=title or DEFAULT_TITLE,
        reproduce={"Versions": versions_text()},
    )
    write_page(page, path)


def draw_chart(comparison: MeasureComparison, kind: str | None) -> Any:
    """Return a chart: overview, scatter, correlations or regret."""
    return draw(
        {
            "overview": partial(overview_figure, comparison),
            "scatter": partial(_scatter_figure, comparison),
            "correlations": lambda: build_correlation_section(comparison).figure,
            "regret": lambda: build_regret_section(comparison).figure,
        },
        kind,
    )


def _scatter_figure(comparison: MeasureComparison) -> Figure | None:
    """Return accuracy against the best measure, in the group with the most models."""
    panels = build_scatter_section(comparison).measures
    return panels[0].figures[0] if panels and panels[0].figures else None


def _bars(comparison: MeasureComparison, order: str | None) -> Iterator[IntervalBar]:
    if order is None:
        return
    summaries = defined_summaries(comparison, order)
    for name in most_informative_measures(comparison):
        if name in summaries and summaries[name].mean is not None:
            mean, sd = summaries[name].mean or 0.0, summaries[name].sd or 0.0
            yield IntervalBar(name, mean - sd, mean + sd, mean)


def _notebook_table(table: StudyTable, *, is_open: bool) -> NotebookTable:
    rows = [(name, *map(_cell_text, cells)) for name, cells in table.rows]
    title = f"{table.name}: {pluralize(len(rows), 'measure')}"
    return NotebookTable(title, ("measure", *table.heads), rows, is_open)


def _cell_text(cell: StatisticCell) -> str:
    return f"{cell.mean} {cell.sd}".strip()
