"""Charts of a study as Vega-Lite dictionaries: spans, small panels, heat maps, the scree.

Drawn in the colours of `charts`. A panel is made once by Altair and given its rows afterwards, as
a page has dozens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from oodometer.core.optional_imports import require
from oodometer.core.softmax_kernels import Floats
from oodometer.report.charts import CONFIG, INK, SOURCE, TARGET, Row, Spec

# So many columns of a heat map still have room for their numbers.
ROOM = 8
DASHED: list[float] = [5, 4]


@dataclass(frozen=True)
class Span:
    """A number under a name, with the ends of its span."""

    name: str
    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Axes:
    """What a panel's axes are called, and where they begin and end; None for wherever points do."""

    x: str
    y: str
    x_ends: tuple[float, float] | None
    y_ends: tuple[float, float]


def spans(rows: Sequence[Span], *, title: str, rules: Sequence[tuple[str, float]] = ()) -> Spec:
    """Names down the side, each with a point and its span; dashed rules at named numbers."""
    alt = _altair()
    names = alt.Y("name:N", sort=None, title=None, axis=alt.Axis(grid=True, ticks=False))
    base = alt.Chart(alt.NamedData("spans")).encode(y=names)
    scale = alt.Scale(zero=False)
    bars = base.mark_rule(color=TARGET, strokeWidth=2.5, opacity=0.5).encode(
        x=alt.X("low:Q", title=title, scale=scale), x2="high:Q"
    )
    dots = base.mark_point(color=TARGET, fill=TARGET, opacity=1, size=55, shape="circle").encode(
        x="value:Q", tooltip=["name:N", "value:Q", "low:Q", "high:Q"]
    )
    ruled = alt.Chart(alt.NamedData("rules")).encode(x="at:Q")
    lines = ruled.mark_rule(color=INK, strokeDash=DASHED, opacity=0.7).encode(tooltip=["text:N"])
    data = {"spans": [vars(row) for row in rows], "rules": _rules(rules)}
    return _spec(alt.layer(lines, bars, dots), 24 * len(rows) + 10, data)


def panel(points: Sequence[Row], line: Sequence[Row], axes: Axes) -> Spec:
    """A small scatter of points (name, x, y), and a line through the ends given."""
    return {**_panel(axes), "datasets": {"points": list(points), "line": list(line)}}


def heat(values: Floats, rows: Sequence[str], columns: Sequence[str], box: Sequence[Row]) -> Spec:
    """Numbers from −1 to 1 as tinted cells; boxes (x, x2, y, y2) are drawn around some of them."""
    alt = _altair()
    top = alt.Axis(labelAngle=0, ticks=False, orient="top", labelOverlap=True, labelSeparation=2)
    x = alt.X("x:N", sort=None, title=None, axis=top)
    y = alt.Y("y:N", sort=None, title=None, axis=alt.Axis(ticks=False))
    base = alt.Chart(alt.NamedData("cells")).encode(x=x, y=y)
    shade = base.mark_rect(stroke=INK, strokeOpacity=0.15).encode(
        # By opacity: the page's own colours, which differ by day and by night, can't be mixed here.
        color=alt.condition("datum.value < 0", alt.value(SOURCE), alt.value(TARGET)),
        fillOpacity=alt.Opacity(
            "strength:Q", legend=None, scale=alt.Scale(domain=[0, 1], range=[0, 0.65])
        ),
        tooltip=["first:N", "second:N", "value:Q"],
    )
    parts = [shade]
    if len(columns) <= ROOM:
        parts.append(base.mark_text(fontSize=11).encode(text="text:N"))
    outlines = alt.Chart(alt.NamedData("boxes")).mark_rect(
        filled=False, stroke=INK, strokeWidth=2.5
    )
    parts.append(
        outlines.encode(
            x=alt.X("x:N", sort=None, bandPosition=0), x2=alt.X2("x2:N", bandPosition=1),
            y=alt.Y("y:N", sort=None, bandPosition=0), y2=alt.Y2("y2:N", bandPosition=1),
        )
    )  # fmt: skip
    height = max(18 * len(rows) + 30, 90)
    data = {"cells": _cells(values, rows, columns), "boxes": list(box)}
    return _spec(alt.layer(*parts), height, data)


def scree(eigenvalues: Sequence[float], kept: float) -> Spec:
    """Falling eigenvalues, and the rule above which factors are kept."""
    alt = _altair()
    base = alt.Chart(alt.NamedData("factors")).encode(
        x=alt.X("factor:O", title="factor", axis=alt.Axis(labelAngle=0, labelOverlap=True)),
        y=alt.Y("eigenvalue:Q"),
        tooltip=["factor:O", "eigenvalue:Q"],
    )
    line = base.mark_line(color=TARGET, strokeWidth=2)
    dots = base.mark_point(color=TARGET, fill=TARGET, opacity=1, size=45, shape="circle")
    rule = alt.Chart(alt.NamedData("rules")).encode(y=alt.Y("at:Q", title="eigenvalue"))
    data = {
        "factors": [
            {"factor": j, "eigenvalue": round(value, 3)} for j, value in enumerate(eigenvalues, 1)
        ],
        "rules": [{"at": kept}],
    }
    marks = (rule.mark_rule(color=INK, strokeDash=DASHED, opacity=0.7), line, dots)
    return _spec(alt.layer(*marks), 240, data)


@cache
def _panel(axes: Axes) -> Spec:
    alt = _altair()
    # A panel on a phone is not wider.
    few = alt.Axis(tickCount=4, titleLimit=130)
    free = alt.Scale(zero=False)
    x_scale, y_scale = (
        alt.Scale(domain=list(ends), nice=False, zero=False) if ends else free
        for ends in (axes.x_ends, axes.y_ends)
    )
    x = alt.X("x:Q", title=axes.x, axis=few, scale=x_scale)
    y = alt.Y("y:Q", title=axes.y, axis=few, scale=y_scale)
    dots = alt.Chart(alt.NamedData("points")).mark_point(
        color=TARGET, fill=TARGET, opacity=0.75, size=25, shape="circle"
    )
    line = alt.Chart(alt.NamedData("line")).mark_line(
        color=INK, opacity=0.7, strokeDash=DASHED, strokeWidth=1.5, clip=True
    )
    shown = ["name:N", alt.Tooltip("x:Q", title=axes.x), alt.Tooltip("y:Q", title=axes.y)]
    return _spec(
        alt.layer(line.encode(x=x, y=y), dots.encode(x=x, y=y, tooltip=shown)), "container", {}
    )


def _cells(values: Floats, rows: Sequence[str], columns: Sequence[str]) -> list[Row]:
    """All known cells, row by row."""
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


def _rules(rules: Sequence[tuple[str, float]]) -> list[Row]:
    return [{"text": text, "at": at} for text, at in rules]


def _altair() -> Any:
    """The chart library, which is an extra."""
    return require("altair", extra="report", purpose="The HTML report")


def _spec(chart: Any, height: int | str, data: dict[str, list[Row]]) -> Spec:
    """The chart as a dictionary, as wide as its box, with its rows."""
    fit = {"type": "fit" if height == "container" else "fit-x", "contains": "padding"}
    return {**chart.to_dict(), "datasets": data, "width": "container", "height": height,
            "autosize": fit, "config": CONFIG}  # fmt: skip
