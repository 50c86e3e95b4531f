"""HTML pages of toy problems, and the page of the hypersphere toy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Protocol

from oodometer.core.errors import InputError
from oodometer.core.optional_imports import require
from oodometer.report.charts import (
    SOURCE_COLOR,
    TARGET_COLOR,
    TEXT_COLOR,
    VEGA_CONFIG,
    ChartSpec,
    Figure,
    FigureTable,
    altair,
    to_spec,
)
from oodometer.report.page import render

MEASURE_COLORS = {"NI-Sphere": TARGET_COLOR, "ATC-MC": SOURCE_COLOR}
GREEN_COLOR = "var(--green, #00795a)"
AMBER_COLOR = "var(--amber, #946200)"
# Shape of a series that is drawn as a line without points.
LINE_SHAPE = "stroke"


@dataclass(frozen=True)
class ToySection:
    """Section of the page of a toy: a heading, an explanation and charts."""

    key: str
    title: str
    text: str
    figures: tuple[Figure, ...]


def render_toy_page(title: str, reading: str, sections: Sequence[ToySection]) -> str:
    """Return the HTML page of a toy; `reading` summarizes its result."""
    return render(
        "toy_page.html",
        {"title": title, "reading": reading, "sections": sections},
        folder=Path(__file__).parent / "templates",
    )


@dataclass(frozen=True)
class ChartSeries:
    """Named points (x, y) that are drawn as a line, as points of a shape, or as both."""

    name: str
    color: str
    points: Sequence[tuple[float, float]]
    shape: str = LINE_SHAPE
    has_line: bool = True


def series_chart(
    series: Sequence[ChartSeries],
    *,
    x_title: str,
    y_title: str,
    log_x: bool = False,
    log_y: bool = False,
) -> ChartSpec:
    """Chart several series on common axes, which may be logarithmic."""
    alt = altair()
    names = [part.name for part in series]
    color = alt.Scale(domain=names, range=[part.color for part in series])
    shape = alt.Scale(domain=names, range=[part.shape for part in series])
    # Two columns of short names, or one of long names, fit the width of a phone.
    legend = alt.Legend(labelLimit=320, columns=2 if len(series) > 2 else 1)

    def axis(is_log: bool) -> dict[str, object]:
        if not is_log:
            return {"scale": alt.Scale(zero=False)}
        return {"scale": alt.Scale(type="log"), "axis": alt.Axis(format="~g", tickCount=6)}

    def layer(parts: Sequence[ChartSeries]) -> object:
        rows = [
            {"series": part.name, "x": float(f"{x:.5g}"), "y": float(f"{y:.5g}")}
            for part in parts
            for x, y in part.points
        ]
        return alt.Chart(alt.InlineData(values=rows)).encode(
            x=alt.X("x:Q", title=x_title, **axis(log_x)),
            y=alt.Y("y:Q", title=y_title, **axis(log_y)),
            color=alt.Color("series:N", scale=color, title=None, legend=legend),
            tooltip=[alt.Tooltip("series:N"), alt.Tooltip("x:Q", title=x_title),
                     alt.Tooltip("y:Q", title=y_title)],
        )  # fmt: skip

    lines = layer([part for part in series if part.has_line]).mark_line(strokeWidth=2)  # type: ignore[attr-defined]
    dots = layer([part for part in series if part.shape != LINE_SHAPE])
    dots = dots.mark_point(filled=True, size=60, opacity=1).encode(  # type: ignore[attr-defined]
        shape=alt.Shape("series:N", scale=shape, title=None, legend=legend)
    )
    return to_spec(alt.layer(lines, dots), 320)


class TauByDistance(Protocol):
    """Kendall's τ of invariance and of ATC with accuracy at one distance; None if undefined."""

    @property
    def distance(self) -> float:
        """Distance from the training domain along the sphere, in radians."""

    @property
    def ni(self) -> float | None:
        """Kendall's τ of neighborhood invariance with accuracy."""

    @property
    def atc(self) -> float | None:
        """Kendall's τ of average thresholded confidence with accuracy."""


def sphere_page(rows: Sequence[TauByDistance], *, title: str) -> str:
    """Return the HTML page of the hypersphere toy.

    Parameters
    ----------
    rows : sequence of TauByDistance
        Kendall's τ of neighborhood invariance and of ATC, one row per distance.
    title : str
        Title of the page.

    Returns
    -------
    str
        Complete HTML document that loads nothing from the network.

    Raises
    ------
    InputError
        If there are no rows.
    """
    if not rows:
        raise InputError("There are no rows to show; expected one per distance. Run the toy first.")
    sentences = [tau_summary(name, line) for name, line in _tau_lines(rows).items()]
    table = FigureTable(
        ("Distance, rad", *MEASURE_COLORS),
        tuple((f"{row.distance:.3f}", _format_tau(row.ni), _format_tau(row.atc)) for row in rows),
    )
    figure = Figure(
        key="tau",
        title="τ at every distance",
        caption=f"Distances from 0 to {rows[-1].distance:.2f} rad from the training domain.",
        alt=" ".join(sentences),
        spec=sphere_chart(rows),
        table=table,
        wide=True,
    )
    section = ToySection(
        "distance",
        "Rank correlation and distance",
        "Each point is the mean of Kendall's τ between a measure and the true accuracy of all "
        "models, over the datasets at one distance. A τ of 1 means the same order, 0 unrelated "
        "orders, and −1 the opposite order.",
        (figure,),
    )
    return render_toy_page(title, " ".join(sentences), [section])


def sphere_chart(rows: Sequence[TauByDistance]) -> ChartSpec:
    """Chart Kendall's τ of each measure against the distance, with a line at τ = 0."""
    alt = require("altair", extra="report", purpose="The HTML report")
    points = [
        {"distance": round(at, 4), "tau": round(tau, 4), "measure": name}
        for name, line in _tau_lines(rows).items()
        for at, tau in line
    ]
    scale = alt.Scale(domain=list(MEASURE_COLORS), range=list(MEASURE_COLORS.values()))
    lines = (
        alt.Chart(alt.InlineData(values=points))
        .mark_line(point=True, strokeWidth=2)
        .encode(
            x=alt.X("distance:Q", title="distance from the training domain, rad"),
            y=alt.Y("tau:Q", title="Kendall's τ with accuracy", scale=alt.Scale(domain=[-1, 1])),
            color=alt.Color("measure:N", scale=scale, title=None),
            tooltip=["measure:N", "distance:Q", "tau:Q"],
        )
    )
    zero = alt.Chart(alt.InlineData(values=[{"tau": 0.0}])).mark_rule(
        color=TEXT_COLOR, opacity=0.5, strokeDash=[5, 4]
    )
    spec: ChartSpec = alt.layer(zero.encode(y="tau:Q"), lines).to_dict()
    fit = {"type": "fit-x", "contains": "padding"}
    return {**spec, "width": "container", "height": 320, "autosize": fit, "config": VEGA_CONFIG}


def tau_summary(name: str, line: Sequence[tuple[float, float]]) -> str:
    """Return a sentence with τ at the first and last distance, and the distance where τ is 0.

    >>> tau_summary("NI", [(0.0, 0.8), (1.0, 0.4), (2.0, -0.4)])
    'NI: τ is 0.80 at 0.00 rad, 0 at 1.50 rad, and −0.40 at 2.00 rad.'
    """
    if not line:
        return f"{name}: τ is undefined at every distance, because all models have the same value."
    (start, first), (end, last) = line[0], line[-1]
    crossing = first_zero_crossing(line)
    zero = "" if crossing is None else f" 0 at {crossing:.2f} rad,"
    return (
        f"{name}: τ is {_format_tau(first)} at {start:.2f} rad,{zero} and {_format_tau(last)} at "
        f"{end:.2f} rad."
    )


def first_zero_crossing(line: Sequence[tuple[float, float]]) -> float | None:
    """Return the x at which a line through points first decreases to 0; None if it never does.

    >>> first_zero_crossing([(0.0, 0.5), (1.0, -0.5)])
    0.5
    """
    for (x, above), (next_x, below) in pairwise(line):
        if above > 0 >= below:
            return x + (next_x - x) * above / (above - below)
    return None


def _tau_lines(rows: Sequence[TauByDistance]) -> dict[str, list[tuple[float, float]]]:
    """Return the points (distance, τ) of each measure where τ is defined."""
    ni = [(row.distance, row.ni) for row in rows if row.ni is not None]
    atc = [(row.distance, row.atc) for row in rows if row.atc is not None]
    return dict(zip(MEASURE_COLORS, (ni, atc), strict=True))


def _format_tau(tau: float | None) -> str:
    return "undefined" if tau is None else f"{tau:z.2f}".replace("-", "−")
