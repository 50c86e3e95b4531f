"""Vega-Lite charts of a study: rendering and embedded data."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
import vl_convert

from oodometer.report.charts import SOURCE_COLOR, ChartSpec
from oodometer.studies.report import charts

POINTS = [{"name": "m", "x": 0.25, "y": 61.0}, {"name": "n", "x": 0.5, "y": 72.0}]
AXES = charts.PanelAxes("ni", "accuracy, %", None, (50.0, 80.0))
VALUES = np.array([[1.0, -0.5], [np.nan, 0.25]])

SPECS = {
    "spans": charts.span_chart(
        [charts.ValueSpan("ni", 0.5, 0.25, 0.75)], title="τ", rules=[("0", 0.0)]
    ),
    "panel": charts.panel_chart(POINTS, [{"x": 0.25, "y": 60.0}, {"x": 0.5, "y": 70.0}], AXES),
    "heat": charts.heatmap_chart(
        VALUES, ["a", "b"], ["1", "2"], [{"x": "1", "x2": "2", "y": "a", "y2": "a"}]
    ),
    "scree": charts.scree_chart([2.5, 0.5], 1.0),
}


def svg(spec: ChartSpec) -> str:
    """Return the chart rendered with a width and height of 300."""
    text: str = vl_convert.vegalite_to_svg(
        json.loads(json.dumps(spec).replace('"container"', "300"))
    )
    return text


@pytest.mark.parametrize("kind", list(SPECS))
def test_every_chart_renders(kind: str) -> None:
    drawn = svg(SPECS[kind])
    assert drawn.startswith("<svg")
    assert "NaN" not in drawn
    assert "currentColor" in drawn


def test_heat_map_skips_missing_cells_and_colors_by_sign() -> None:
    assert [cell["text"] for cell in SPECS["heat"]["datasets"]["cells"]] == [
        "1.00",
        "−0.50",
        "0.25",
    ]
    drawn = svg(SPECS["heat"])
    assert "−0.50" in drawn
    assert drawn.count(SOURCE_COLOR) == 1
    wide = charts.heatmap_chart(np.zeros((1, 9)), ["a"], [str(j) for j in range(9)], [])
    assert '"text"' not in json.dumps(wide["layer"])


def test_panels_share_layers_but_not_data() -> None:
    other = charts.panel_chart(POINTS[:1], [], AXES)
    assert other["datasets"]["points"] == POINTS[:1]
    assert SPECS["panel"]["datasets"]["points"] == POINTS
    assert other["layer"] == SPECS["panel"]["layer"]
    assert "50" in json.dumps(other["layer"])


def test_axes_without_range_fit_the_points() -> None:
    drawn = svg(SPECS["panel"])
    assert "ni" in drawn
    assert "0.25" in drawn
    assert ">0.0<" not in drawn


def test_axis_labels_are_centered_under_their_ticks() -> None:
    points = [{"name": str(x), "x": x, "y": 50.0} for x in (0.4, 0.9)]
    drawn = svg(charts.panel_chart(points, [], AXES))
    (labels,) = re.findall(r'(?s)aria-label="X-axis.*?role-axis-label.*?</g>', drawn)
    anchors = re.findall(r'text-anchor="(\w+)"', labels)
    assert len(anchors) > 1
    assert set(anchors) == {"middle"}
