"""Vega-Lite charts of a study: intervals, scatter panels, heat maps and the scree plot.

The colors are those of `oodometer.report.charts`. A page has dozens of scatter panels. To save
time, Altair builds one panel for all panels with the same axes, and the data are added afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import numpy as np

from oodometer.core.array_types import Floats
from oodometer.report.charts import (
    SOURCE_COLOR,
    TARGET_COLOR,
    TEXT_COLOR,
    ChartRow,
    ChartSpec,
    altair,
    to_spec,
)

# Heat maps with more columns than this have no room for numbers in their cells.
MAX_NUMBERED_COLUMNS = 8
DASH_PATTERN: list[float] = [5, 4]


@dataclass(frozen=True)
class ValueSpan:
    """Named value with the ends of its interval."""

    name: str
    value: float
    low: float
    high: float


@dataclass(frozen=True)
class PanelAxes:
    """Titles and ranges of a panel's axes; a range of None is fitted to the points."""

    x_title: str
    y_title: str
    x_range: tuple[float, float] | None
    y_range: tuple[float, float]


def span_chart(
    rows: Sequence[ValueSpan], *, title: str, rules: Sequence[tuple[str, float]] = ()
) -> ChartSpec:
    """Chart one value with its interval per name, and a dashed line at each of the `rules`."""
    alt = altair()
    names = alt.Y("name:N", sort=None, title=None, axis=alt.Axis(grid=True, ticks=False))
    base = alt.Chart(alt.NamedData("spans")).encode(y=names)
    scale = alt.Scale(zero=False)
    bars = base.mark_rule(color=TARGET_COLOR, strokeWidth=2.5, opacity=0.5).encode(
        x=alt.X("low:Q", title=title, scale=scale), x2="high:Q"
    )
    dots = base.mark_point(
        color=TARGET_COLOR, fill=TARGET_COLOR, opacity=1, size=55, shape="circle"
    ).encode(x="value:Q", tooltip=["name:N", "value:Q", "low:Q", "high:Q"])
    ruled = alt.Chart(alt.NamedData("rules")).encode(x="at:Q")
    lines = ruled.mark_rule(color=TEXT_COLOR, strokeDash=DASH_PATTERN, opacity=0.7).encode(
        tooltip=["text:N"]
    )
    data = {"spans": [vars(row) for row in rows], "rules": _rule_rows(rules)}
    return _to_spec(alt.layer(lines, bars, dots), 24 * len(rows) + 10, data)


def panel_chart(points: Sequence[ChartRow], line: Sequence[ChartRow], axes: PanelAxes) -> ChartSpec:
    """Chart a small scatter plot of points (name, x, y), and a straight line given by its ends."""
    return {**_panel_template(axes), "datasets": {"points": list(points), "line": list(line)}}


def heatmap_chart(
    values: Floats, rows: Sequence[str], columns: Sequence[str], boxes: Sequence[ChartRow]
) -> ChartSpec:
    """Chart values from −1 to 1 as colored cells; draw boxes (x, x2, y, y2) around some cells."""
    alt = altair()
    top = alt.Axis(labelAngle=0, ticks=False, orient="top", labelOverlap=True, labelSeparation=2)
    x = alt.X("x:N", sort=None, title=None, axis=top)
    y = alt.Y("y:N", sort=None, title=None, axis=alt.Axis(ticks=False))
    base = alt.Chart(alt.NamedData("cells")).encode(x=x, y=y)
    shade = base.mark_rect(stroke=TEXT_COLOR, strokeOpacity=0.15).encode(
        # The opacity shows the size of a value. Colors cannot be interpolated here, because they
        # are CSS variables that differ between the light and the dark theme.
        color=alt.condition("datum.value < 0", alt.value(SOURCE_COLOR), alt.value(TARGET_COLOR)),
        fillOpacity=alt.Opacity(
            "strength:Q", legend=None, scale=alt.Scale(domain=[0, 1], range=[0, 0.65])
        ),
        tooltip=["first:N", "second:N", "value:Q"],
    )
    parts = [shade]
    if len(columns) <= MAX_NUMBERED_COLUMNS:
        parts.append(base.mark_text(fontSize=11).encode(text="text:N"))
    outlines = alt.Chart(alt.NamedData("boxes")).mark_rect(
        filled=False, stroke=TEXT_COLOR, strokeWidth=2.5
    )
    parts.append(
        outlines.encode(
            x=alt.X("x:N", sort=None, bandPosition=0), x2=alt.X2("x2:N", bandPosition=1),
            y=alt.Y("y:N", sort=None, bandPosition=0), y2=alt.Y2("y2:N", bandPosition=1),
        )
    )  # fmt: skip
    height = max(18 * len(rows) + 30, 90)
    data = {"cells": _heatmap_cells(values, rows, columns), "boxes": list(boxes)}
    return _to_spec(alt.layer(*parts), height, data)


def scree_chart(eigenvalues: Sequence[float], min_eigenvalue: float) -> ChartSpec:
    """Chart the eigenvalues, with a line at `min_eigenvalue`, above which factors are retained."""
    alt = altair()
    base = alt.Chart(alt.NamedData("factors")).encode(
        x=alt.X("factor:O", title="factor", axis=alt.Axis(labelAngle=0, labelOverlap=True)),
        y=alt.Y("eigenvalue:Q"),
        tooltip=["factor:O", "eigenvalue:Q"],
    )
    line = base.mark_line(color=TARGET_COLOR, strokeWidth=2)
    dots = base.mark_point(
        color=TARGET_COLOR, fill=TARGET_COLOR, opacity=1, size=45, shape="circle"
    )
    rule = alt.Chart(alt.NamedData("rules")).encode(y=alt.Y("at:Q", title="eigenvalue"))
    data = {
        "factors": [
            {"factor": j, "eigenvalue": round(value, 3)} for j, value in enumerate(eigenvalues, 1)
        ],
        "rules": [{"at": min_eigenvalue}],
    }
    marks = (rule.mark_rule(color=TEXT_COLOR, strokeDash=DASH_PATTERN, opacity=0.7), line, dots)
    return _to_spec(alt.layer(*marks), 240, data)


@cache
def _panel_template(axes: PanelAxes) -> ChartSpec:
    alt = altair()
    # Titles must fit the width of a panel on a phone.
    axis = alt.Axis(tickCount=4, titleLimit=130)
    x_scale, y_scale = (
        alt.Scale(domain=list(ends), nice=False, zero=False) if ends else alt.Scale(zero=False)
        for ends in (axes.x_range, axes.y_range)
    )
    x = alt.X("x:Q", title=axes.x_title, axis=axis, scale=x_scale)
    y = alt.Y("y:Q", title=axes.y_title, axis=axis, scale=y_scale)
    dots = alt.Chart(alt.NamedData("points")).mark_point(
        color=TARGET_COLOR, fill=TARGET_COLOR, opacity=0.75, size=25, shape="circle"
    )
    line = alt.Chart(alt.NamedData("line")).mark_line(
        color=TEXT_COLOR, opacity=0.7, strokeDash=DASH_PATTERN, strokeWidth=1.5, clip=True
    )
    shown = [
        "name:N",
        alt.Tooltip("x:Q", title=axes.x_title),
        alt.Tooltip("y:Q", title=axes.y_title),
    ]
    return _to_spec(
        alt.layer(line.encode(x=x, y=y), dots.encode(x=x, y=y, tooltip=shown)), "container", {}
    )


def _heatmap_cells(values: Floats, rows: Sequence[str], columns: Sequence[str]) -> list[ChartRow]:
    """Return the cells that have a value, row by row."""
    return [
        {
            "y": row, "x": column, "first": row, "second": column,
            "value": round(float(values[i, j]), 2), "strength": round(abs(float(values[i, j])), 2),
            "text": f"{values[i, j]:z.2f}".replace("-", "−"),
        }
        for i, row in enumerate(rows)
        for j, column in enumerate(columns)
        if np.isfinite(values[i, j])
    ]  # fmt: skip


def _rule_rows(rules: Sequence[tuple[str, float]]) -> list[ChartRow]:
    return [{"text": text, "at": at} for text, at in rules]


def _to_spec(
    chart: Any, height: int | Literal["container"], data: dict[str, list[ChartRow]]
) -> ChartSpec:
    """Return the chart as a dictionary that includes its data and has the container's width."""
    return {**to_spec(chart, height), "datasets": data}
