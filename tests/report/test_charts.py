"""Charts contain the given numbers, and nothing that a browser would fetch."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import vl_convert
from hypothesis import given
from hypothesis import strategies as st

from oodometer.neighborhood.results import ModelInvariance
from oodometer.report import charts
from oodometer.report.charts import IntervalPoint
from oodometer.report.histograms import ConfidenceHistogram, histogram_bars
from oodometer.report.invariance_figures import entropy_figure, order_figure
from oodometer.report.leaderboard import LeaderboardRow
from tests.support.invariance_runs import Hashed, run_invariance

POINTS = [
    IntervalPoint("ac", 80.0, 75.0, 85.0),
    IntervalPoint("atc-mc", 70.0, 60.0, 78.0, series=charts.HEADLINE_SERIES),
]
PAIRS = [
    charts.TruthEstimatePair("blurred", 60.0, 70.0, 65.0, 75.0),
    charts.TruthEstimatePair("noisy", 80.0, 78.0, 75.0, 81.0),
]


RULES = [charts.Rule(90.0, "source", charts.SOURCE_COLOR), charts.Rule(70.0, "required")]


def data_rows(spec: Any) -> list[dict[str, Any]]:
    return [row for rows in spec["datasets"].values() for row in rows]


def methods_chart() -> charts.ChartSpec:
    return charts.interval_chart(POINTS, "accuracy, %", domain=[50.0, 95.0], rules=RULES, digits=1)


def series_styles(spec: Any, channel: str) -> dict[str, Any]:
    scale = spec["layer"][-1]["encoding"][channel]["scale"]
    return dict(zip(scale["domain"], scale["range"], strict=True))


def test_interval_chart_contains_points_and_rules() -> None:
    spec = methods_chart()
    rows = data_rows(spec)
    assert [row["name"] for row in rows if "name" in row] == ["ac", "atc-mc"]
    assert {"name": "ac", "value": 80.0, "low": 75.0, "high": 85.0, "series": ""} in rows
    assert {"at": 90.0, "text": "source"} in rows
    assert {"at": 70.0, "text": "required"} in rows
    # The labels are in different rows, so that they cannot overlap.
    offsets = [layer["mark"]["dy"] for layer in spec["layer"] if layer["mark"]["type"] == "text"]
    assert len(set(offsets)) == 2


def test_headline_is_a_larger_diamond_without_a_legend() -> None:
    spec = methods_chart()
    assert series_styles(spec, "shape") == {"": "circle", charts.HEADLINE_SERIES: "diamond"}
    size = spec["layer"][-1]["encoding"]["size"]
    assert size["condition"]["value"] > size["value"]
    assert spec["layer"][-1]["encoding"]["shape"]["legend"] is None


def test_timeline_contains_sorted_dates_gaps_and_source() -> None:
    dates = [IntervalPoint(day, 80.0, 75.0, 85.0) for day in ("2026-03-03", "2026-03-01")]
    spec = charts.timeline_chart(dates, RULES, gaps=["2026-03-02"])
    rows = [row for row in data_rows(spec) if "name" in row]
    assert [row["name"] for row in rows] == ["2026-03-01", "2026-03-02", "2026-03-03"]
    assert [row["value"] for row in rows] == [80.0, None, 80.0]
    assert {"accuracy": 90.0, "text": "source"} in data_rows(spec)
    assert {"accuracy": 70.0, "text": "required"} in data_rows(spec)
    assert '"%Y-%m-%d"' in json.dumps(spec)


def test_timeline_reads_hours_as_utc() -> None:
    hours = [IntervalPoint(f"2026-03-01T0{hour}", 80.0, 75.0, 85.0) for hour in (1, 2)]
    spec = charts.timeline_chart(hours, RULES)
    times = [row["at"] for row in data_rows(spec) if "name" in row]
    assert times == ["2026-03-01T01:00Z", "2026-03-01T02:00Z"]
    assert "%H:00" in json.dumps(spec)


def test_confidence_tooltips_show_both_sides() -> None:
    edges = np.linspace(0.5, 1.0, 3)
    histogram = ConfidenceHistogram(
        edges, source=np.array([0.25, 0.75]), target=np.array([0.5, 0.5])
    )
    bins = [row for row in data_rows(charts.confidence_chart(histogram, None)) if "bin" in row]
    assert [row["bin"] for row in bins] == ["0.500–0.750", "0.750–1.000"]
    assert [(row["source"], row["target"]) for row in bins] == [(25.0, 50.0), (75.0, 50.0)]
    assert "threshold" not in json.dumps(charts.confidence_chart(histogram, None))
    assert "threshold" in json.dumps(charts.confidence_chart(histogram, 0.9))


def test_scatter_contains_every_pair() -> None:
    text = json.dumps(charts.estimate_scatter_chart(PAIRS, [50.0, 90.0]))
    for pair in PAIRS:
        assert pair.name in text
        assert str(pair.estimate) in text


def test_padded_percent_range_stays_within_0_to_100() -> None:
    assert charts.padded_percent_range([0.2, 99.9]) == [0.0, 100.0]
    low, high = charts.padded_percent_range([50.0, 50.0])
    assert low < 50.0 < high


@given(st.lists(st.floats(-3, 1).map(lambda value: round(value, 3)), min_size=1))
def test_padded_range_contains_all_values(values: list[float]) -> None:
    low, high = charts.padded_range(values)
    assert low < min(values)
    assert high > max(values)


def test_charts_render_without_external_data() -> None:
    timeline = charts.timeline_chart([IntervalPoint("2026-03", 80.0, 75.0, 85.0)], RULES)
    for spec in (methods_chart(), charts.estimate_scatter_chart(PAIRS, [50.0, 90.0]), timeline):
        assert '"url"' not in json.dumps(spec)
        fixed_size = json.loads(json.dumps(spec).replace('"container"', "200"))
        assert vl_convert.vegalite_to_svg(fixed_size).startswith("<svg")


def test_bars_of_two_models_are_side_by_side() -> None:
    bars = histogram_bars([np.array([0.5, 1.0]), np.array([1.0, 1.0])])
    spec = charts.distribution_chart(dict(zip("ab", bars, strict=True)), "NI")
    at_one = [row for row in data_rows(spec) if row["value"] == "1.000"]
    assert [(row["name"], row["share"]) for row in at_one] == [("a", 50.0), ("b", 100.0)]
    assert at_one[0]["right"] == pytest.approx(at_one[1]["left"])


def test_entropy_chart_contains_limit_and_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    run = run_invariance(np.eye(4), Hashed("a", sure=0.7))
    monkeypatch.setattr(ModelInvariance, "entropy_difference", 0.3)
    figure = entropy_figure(run.found, ["a"])
    assert figure is not None
    rows = data_rows(figure.spec)
    assert {"at": 0.1, "text": "limit 0.1"} in rows
    low, high = figure.spec["layer"][-1]["encoding"]["x"]["scale"]["domain"]
    assert low < 0.0
    assert high > 0.3
    assert not [row for row in rows if "low" in row]


def test_domain_contains_the_intervals() -> None:
    rows = [LeaderboardRow("a", 0.5, 0.25, 0.75), LeaderboardRow("b", 0.1, 0.05, 0.2)]
    spec = order_figure(rows, "NI").spec
    expected = {"name": "a", "value": 0.5, "low": 0.25, "high": 0.75, "series": ""}
    assert data_rows(spec)[0] == expected
    low, high = spec["layer"][0]["encoding"]["x"]["scale"]["domain"]
    assert low < 0.05
    assert high > 0.75


def test_known_values_are_always_squares() -> None:
    known = IntervalPoint("a", 50.0, series=charts.KNOWN_SERIES)
    predicted = IntervalPoint("a", 40.0, series="predicted by the line")
    alone, both = (
        charts.interval_chart(points, "accuracy", domain=[30.0, 60.0])
        for points in ([known], [predicted, known])
    )
    for spec in (alone, both):
        assert series_styles(spec, "shape")[charts.KNOWN_SERIES] == "square"
    assert alone["height"] == both["height"]
