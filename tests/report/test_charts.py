"""Charts hold the numbers they are given and nothing that a browser would fetch."""

from __future__ import annotations

import json
from typing import Any

import vl_convert

from oodometer.report import charts

MARKS = [charts.Mark("ac", 80.0, 75.0, 85.0), charts.Mark("atc-mc", 70.0, 60.0, 78.0, main=True)]
PAIRS = [
    charts.Pair("blurred", 60.0, 70.0, 65.0, 75.0),
    charts.Pair("noisy", 80.0, 78.0, 75.0, 81.0),
]


def datasets(spec: Any) -> list[dict[str, Any]]:
    return [row for rows in spec.get("datasets", {}).values() for row in rows]


def test_intervals_hold_every_mark_and_the_reference() -> None:
    spec = charts.intervals(MARKS, 90.0)
    names = {row["name"] for row in datasets(spec) if "name" in row} or json.dumps(spec)
    assert all(mark.name in names for mark in MARKS)
    assert "90" in json.dumps(spec)


def test_a_scatter_holds_every_pair() -> None:
    text = json.dumps(charts.scatter(PAIRS, [50.0, 90.0]))
    for pair in PAIRS:
        assert pair.name in text
        assert str(pair.estimate) in text


def test_a_stretch_has_air_and_stays_inside_0_to_100() -> None:
    assert charts.around([0.2, 99.9]) == [0.0, 100.0]
    low, high = charts.around([50.0, 50.0])
    assert low < 50.0 < high


def test_charts_draw_without_data_from_elsewhere() -> None:
    for spec in (charts.intervals(MARKS, 90.0), charts.scatter(PAIRS, [50.0, 90.0])):
        assert '"url"' not in json.dumps(spec)
        plain = json.loads(json.dumps(spec).replace('"container"', "200"))
        assert vl_convert.vegalite_to_svg(plain).startswith("<svg")
