"""HTML fragments and charts of results for notebooks.

A fragment has its own style and no script: a table, a small drawing of intervals and sections that
the browser can open. All texts are escaped by the template.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from oodometer.core.errors import NotApplicable, UnknownName
from oodometer.core.optional_imports import require
from oodometer.core.results import Status
from oodometer.report.charts import Figure, padded_range, to_altair
from oodometer.report.page import jinja_environment

# A notebook shows at most this many rows of a table, and at most this many intervals.
MAX_TABLE_ROWS = 30
MAX_DRAWN_INTERVALS = 20

FigureBuilders = Mapping[str, Callable[[], Figure | None]]


@dataclass(frozen=True)
class NotebookTable:
    """Table of a fragment; all cells are text, and columns without any text are not shown.

    A table that is not open shows its title only, until it is opened.
    """

    title: str
    heads: tuple[str, ...]
    rows: Sequence[Sequence[str]]
    is_open: bool = True

    @property
    def shown_columns(self) -> list[int]:
        """Return the numbers of the columns that have text in some row."""
        return [j for j in range(len(self.heads)) if any(row[j] for row in self.rows)]

    @property
    def shown_rows(self) -> Sequence[Sequence[str]]:
        return self.rows[:MAX_TABLE_ROWS]


@dataclass(frozen=True)
class IntervalBar:
    """Named interval of the drawing, with a dot at its value if there is one."""

    name: str
    low: float
    high: float
    value: float | None = None


@dataclass(frozen=True, kw_only=True)
class NotebookContent:
    """Content of a fragment: headline, status, sentences, intervals and tables."""

    headline: str
    subject: str = ""
    status: Status | None = None
    sentences: Sequence[str] = ()
    bars: Sequence[IntervalBar] = ()
    tables: Sequence[NotebookTable] = ()
    percent: bool = False


def render_notebook(content: NotebookContent) -> str:
    """Return the content as a fragment of HTML without scripts."""
    bars = content.bars[:MAX_DRAWN_INTERVALS]
    axis = padded_range([end for bar in bars for end in (bar.low, bar.high)]) if bars else [0, 1]
    if content.percent:
        axis = [max(axis[0], 0.0), min(axis[1], 1.0)]

    def position(value: float) -> str:
        """Return the place of a value on the axis, in percent of the width of the drawing."""
        return f"{40 + 57 * (value - axis[0]) / (axis[1] - axis[0]):.2f}%"

    def number(value: float) -> str:
        return f"{100 * value:.1f} %" if content.percent else f"{value:.3f}"

    template = jinja_environment().get_template("notebook.html")
    return template.render(content=content, bars=bars, axis=axis, position=position, number=number)


def draw(figures: FigureBuilders, kind: str | None) -> Any:
    """Return one of the figures as an Altair chart; without a kind, the first one."""
    require("altair", extra="report", purpose="A chart")
    name = next(iter(figures)) if kind is None else kind
    if name not in figures:
        raise UnknownName("chart", name, figures)
    figure = figures[name]()
    if figure is None:
        raise NotApplicable(f"the result has no values for the chart {name!r}")
    return to_altair(figure)
