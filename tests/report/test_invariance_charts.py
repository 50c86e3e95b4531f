"""Charts of invariance: what is drawn is what was found."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oodometer.report.charts import (
    KNOWN_SERIES,
    MAX_BARS,
    IntervalPoint,
    distribution_chart,
    dot_chart,
    histogram_bars,
    padded_range,
)

finite = st.floats(-3, 1).map(lambda value: round(value, 3))


def rows(spec: Any) -> list[dict[str, Any]]:
    """All data of a chart."""
    return [row for some in spec["datasets"].values() for row in some]


@given(st.lists(finite, min_size=1, max_size=80), st.lists(finite, min_size=1, max_size=80))
def test_shares_are_whole_and_no_example_is_lost(first: list[float], second: list[float]) -> None:
    both = histogram_bars([np.array(first), np.array(second)])
    for values, bars in zip((first, second), both, strict=True):
        assert sum(bar.share for bar in bars) == pytest.approx(100, abs=0.05)
        assert len(bars) <= MAX_BARS
        for bar in bars:
            assert bar.left < bar.right
        slow = shares_of_a_loop(values, [*first, *second])
        assert [bar.share for bar in bars] == pytest.approx(slow, abs=1e-3)
    assert [(b.left, b.value) for b in both[0]] == [(b.left, b.value) for b in both[1]]


def shares_of_a_loop(values: list[float], every: list[float]) -> list[float]:
    """Values counted one by one: by equality where few differ, or else by the bin they fall in."""
    levels = sorted(set(every))
    edges = np.linspace(levels[0], levels[-1], MAX_BARS + 1).tolist()
    counts = [0] * (len(levels) if len(levels) <= MAX_BARS else MAX_BARS)
    for value in values:
        place = levels.index(value)
        if len(levels) > MAX_BARS:
            place = next((j for j in range(MAX_BARS) if value < edges[j + 1]), MAX_BARS - 1)
        counts[place] += 1
    return [100 * count / len(values) for count in counts]


def test_few_values_have_a_bar_each_and_many_share() -> None:
    (few,) = histogram_bars([np.array([1 / 3, 1.0, 1.0])])
    assert [(bar.value, bar.share) for bar in few] == [("0.333", 33.333), ("1.000", 66.667)]
    assert few[0].right < few[1].left
    (many,) = histogram_bars([np.linspace(-1, 0, 100)])
    assert len(many) == MAX_BARS
    assert many[0].value == "−1.000 to −0.958"


def test_two_models_stand_side_by_side() -> None:
    bars = histogram_bars([np.array([0.5, 1.0]), np.array([1.0, 1.0])])
    drawn = rows(distribution_chart(dict(zip("ab", bars, strict=True)), "NI"))
    at_one = [row for row in drawn if row["value"] == "1.000"]
    assert [(row["name"], row["share"]) for row in at_one] == [("a", 50.0), ("b", 100.0)]
    assert at_one[0]["right"] == pytest.approx(at_one[1]["left"])


def test_a_limit_is_drawn_with_zero_in_sight() -> None:
    spec = dot_chart([IntervalPoint("a", 0.3)], "rise", (0.1, "limit 0.1"))
    assert {"at": 0.1, "text": "limit 0.1"} in rows(spec)
    domain = spec["layer"][-1]["encoding"]["x"]["scale"]["domain"]
    assert domain[0] < 0.0
    assert domain[1] > 0.3
    assert not [row for row in rows(spec) if "low" in row]


def test_intervals_are_in_the_chart_whole() -> None:
    spec = dot_chart(
        [IntervalPoint("a", 0.5, 0.25, 0.75), IntervalPoint("b", 0.1, 0.05, 0.2)], "NI"
    )
    assert rows(spec)[0] == {"name": "a", "value": 0.5, "low": 0.25, "high": 0.75, "series": ""}
    low, high = spec["layer"][0]["encoding"]["x"]["scale"]["domain"]
    assert low < 0.05
    assert high > 0.75


def test_known_values_look_alike_whatever_is_beside_them() -> None:
    alone = dot_chart([IntervalPoint("a", 50.0, series=KNOWN_SERIES)], "accuracy")
    both = dot_chart(
        [
            IntervalPoint("a", 40.0, series="by the line"),
            IntervalPoint("a", 50.0, series=KNOWN_SERIES),
        ],
        "accuracy",
    )
    for spec in (alone, both):
        scale = spec["layer"][-1]["encoding"]["shape"]["scale"]
        assert dict(zip(scale["domain"], scale["range"], strict=True))[KNOWN_SERIES] == "square"
    assert alone["height"] == both["height"]


@given(st.lists(finite, min_size=1))
def test_air_is_round_all_values(values: list[float]) -> None:
    low, high = padded_range(values)
    assert low < min(values)
    assert high > max(values)
