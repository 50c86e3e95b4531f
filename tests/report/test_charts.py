"""Charts hold the numbers they are given and nothing that a browser would fetch."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import vl_convert

from oodometer.report import charts
from oodometer.report.histograms import ConfidenceHistogram

MARKS = [
    charts.AccuracyMark("ac", 80.0, 75.0, 85.0),
    charts.AccuracyMark("atc-mc", 70.0, 60.0, 78.0, main=True),
]
PAIRS = [
    charts.TruthEstimatePair("blurred", 60.0, 70.0, 65.0, 75.0),
    charts.TruthEstimatePair("noisy", 80.0, 78.0, 75.0, 81.0),
]


def datasets(spec: Any) -> list[dict[str, Any]]:
    return [row for rows in spec.get("datasets", {}).values() for row in rows]


def test_intervals_hold_every_mark_and_the_reference() -> None:
    spec = charts.interval_chart(MARKS, 90.0)
    names = {row["name"] for row in datasets(spec) if "name" in row} or json.dumps(spec)
    assert all(mark.name in names for mark in MARKS)
    assert "90" in json.dumps(spec)


def test_a_timeline_is_in_order_with_its_gaps_and_the_reference() -> None:
    dates = [charts.AccuracyMark(day, 80.0, 75.0, 85.0) for day in ("2026-03-03", "2026-03-01")]
    spec = charts.timeline_chart(dates, 90.0, gaps=["2026-03-02"])
    rows = [row for row in datasets(spec) if "name" in row]
    assert [row["name"] for row in rows] == ["2026-03-01", "2026-03-02", "2026-03-03"]
    assert [row["value"] for row in rows] == [80.0, None, 80.0]
    assert {"accuracy": 90.0, "text": "source"} in datasets(spec)
    assert '"%Y-%m-%d"' in json.dumps(spec)


def test_every_bin_of_confidence_tells_both_sides() -> None:
    edges = np.linspace(0.5, 1.0, 3)
    found = ConfidenceHistogram(edges, source=np.array([0.25, 0.75]), target=np.array([0.5, 0.5]))
    bins = [row for row in datasets(charts.confidence_chart(found, None)) if "bin" in row]
    assert [row["bin"] for row in bins] == ["0.500–0.750", "0.750–1.000"]
    assert [(row["source"], row["target"]) for row in bins] == [(25.0, 50.0), (75.0, 50.0)]
    assert "threshold" not in json.dumps(charts.confidence_chart(found, None))
    assert "threshold" in json.dumps(charts.confidence_chart(found, 0.9))


def test_a_scatter_holds_every_pair() -> None:
    text = json.dumps(charts.estimate_scatter_chart(PAIRS, [50.0, 90.0]))
    for pair in PAIRS:
        assert pair.name in text
        assert str(pair.estimate) in text


def test_a_stretch_has_air_and_stays_inside_0_to_100() -> None:
    assert charts.padded_percent_range([0.2, 99.9]) == [0.0, 100.0]
    low, high = charts.padded_percent_range([50.0, 50.0])
    assert low < 50.0 < high


def test_charts_draw_without_data_from_elsewhere() -> None:
    dated = charts.timeline_chart([charts.AccuracyMark("2026-03", 80.0, 75.0, 85.0)], 90.0)
    for spec in (
        charts.interval_chart(MARKS, 90.0),
        charts.estimate_scatter_chart(PAIRS, [50.0, 90.0]),
        dated,
    ):
        assert '"url"' not in json.dumps(spec)
        plain = json.loads(json.dumps(spec).replace('"container"', "200"))
        assert vl_convert.vegalite_to_svg(plain).startswith("<svg")
