"""The page of the hypersphere toy: how far from home measures still rank models (NI §5.1)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Protocol

from oodometer.core.errors import InputError
from oodometer.core.optional_imports import require
from oodometer.report.assessment_figures import Figure, FigureTable
from oodometer.report.charts import SOURCE_COLOR, TARGET_COLOR, TEXT_COLOR, VEGA_CONFIG, ChartSpec
from oodometer.report.page import render

MEASURE_COLORS = {"NI-Sphere": TARGET_COLOR, "ATC-MC": SOURCE_COLOR}


class TauByDistance(Protocol):
    """Kendall's τ of both measures at one distance, None where it is not defined."""

    @property
    def distance(self) -> float:
        """Along the sphere, in radians."""

    @property
    def ni(self) -> float | None:
        """Of neighborhood invariance."""

    @property
    def atc(self) -> float | None:
        """Of average thresholded confidence."""


def sphere_page(rows: Sequence[TauByDistance], *, title: str) -> str:
    """What was found at every distance, as a whole HTML page."""
    if not rows:
        raise InputError(
            "There are no rows to show; one a distance was expected. Run the toy first."
        )
    sentences = [tau_summary(name, line) for name, line in _tau_lines(rows).items()]
    table = FigureTable(
        ("Distance, rad", *MEASURE_COLORS),
        tuple((f"{row.distance:.3f}", _format_tau(row.ni), _format_tau(row.atc)) for row in rows),
    )
    figure = Figure(
        key="tau",
        title="τ at every distance",
        caption=f"Distances from 0 to {rows[-1].distance:.2f} rad from where the models were trained.",
        alt=" ".join(sentences),
        spec=sphere_chart(rows),
        table=table,
        wide=True,
    )
    return render(
        "toy_page.html", {"title": title, "reading": " ".join(sentences), "figure": figure}
    )


def sphere_chart(rows: Sequence[TauByDistance]) -> ChartSpec:
    """τ of both measures against the distance, beside the line where it is 0."""
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
    """One sentence of where a measure ranks models, and where it no longer does.

    >>> tau_summary("NI", [(0.0, 0.8), (1.0, 0.4), (2.0, -0.4)])
    'NI ranks the models with τ 0.80 at 0.00 rad, with none at 1.50, and with −0.40 at 2.00.'
    """
    if not line:
        return f"{name} ranks the models nowhere: all are alike to it."
    (start, first), (end, last) = line[0], line[-1]
    crossing = first_zero_crossing(line)
    lost = "" if crossing is None else f" with none at {crossing:.2f},"
    return (
        f"{name} ranks the models with τ {_format_tau(first)} at {start:.2f} rad,{lost} and with "
        f"{_format_tau(last)} at {end:.2f}."
    )


def first_zero_crossing(line: Sequence[tuple[float, float]]) -> float | None:
    """Where a line first comes down to 0; None if it does not.

    >>> first_zero_crossing([(0.0, 0.5), (1.0, -0.5)])
    0.5
    """
    for (x, above), (next_x, below) in pairwise(line):
        if above > 0 >= below:
            return x + (next_x - x) * above / (above - below)
    return None


def _tau_lines(rows: Sequence[TauByDistance]) -> dict[str, list[tuple[float, float]]]:
    """Of each measure the distances and its τ, where it is defined."""
    ni = [(row.distance, row.ni) for row in rows if row.ni is not None]
    atc = [(row.distance, row.atc) for row in rows if row.atc is not None]
    return dict(zip(MEASURE_COLORS, (ni, atc), strict=True))


def _format_tau(tau: float | None) -> str:
    return "not defined" if tau is None else f"{tau:z.2f}".replace("-", "−")
