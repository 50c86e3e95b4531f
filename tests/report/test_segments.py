"""Estimates by segment and over time: selection, order and limits."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oodometer
from oodometer import Assessment, Predictions
from oodometer.assessment.result import Segment
from oodometer.core.format import few_rows_warning
from oodometer.core.results import Estimate
from oodometer.report import assessment_page
from oodometer.report.segments import (
    MAX_DATES,
    MAX_LISTED_SEGMENTS,
    is_time_series,
    lowest_segments,
    segment_figure,
    select_table_segments,
)
from oodometer.testing import toy_pair


def part(name: str, value: float | None = 0.5) -> Segment:
    result = None if value is None else Estimate(value, low=value - 0.1, high=value + 0.1)
    return Segment(name, 5, result, "" if result else "too few rows")


def days(count: int, start: str = "2025-01-01") -> list[str]:
    first = np.datetime64(start)
    return [str(first + j) for j in range(count)]


def test_lowest_segments_keep_their_order() -> None:
    segments = [part("a", 0.9), part("b", None), part("c", 0.2), part("d", 0.5)]
    assert [s.value for s in lowest_segments(segments, 2)] == ["c", "d"]
    assert [s.value for s in lowest_segments(segments, 3)] == ["a", "c", "d"]


@given(
    st.lists(st.none() | st.floats(0, 1), min_size=1, max_size=30),
    st.integers(min_value=1, max_value=30),
)
def test_omitted_segments_are_not_lower(values: list[float | None], most: int) -> None:
    segments = [part(str(j), value) for j, value in enumerate(values)]
    kept = lowest_segments(segments, most)
    assert [s for s in segments if s in kept] == kept
    assert len(kept) == min(most, len(segments))
    inside = [2.0 if s.estimate is None else s.estimate.value for s in kept]
    outside = [2.0 if s.estimate is None else s.estimate.value for s in segments if s not in kept]
    assert not outside or max(inside) <= min(outside)


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["2026-03-01", "2026-03-02"], True),
        (["2015", "2016", "2018"], True),
        (["2026-03", "2026-04"], True),
        (["2026-03-01"], False),
        (["2026-03-01", "NaT"], False),
        (["2026-03-01", "2026-02-30"], False),
        (["3", "4"], False),
        (["north", "2026-03-01"], False),
        ([], False),
    ],
)
def test_dates_are_recognized(names: list[str], expected: bool) -> None:
    assert is_time_series([part(name) for name in names]) is expected


def assessed_by(assessment: Assessment, segments: list[Segment]) -> Assessment:
    return replace(assessment, segments=tuple(segments))


def drawn(spec: object) -> list[dict[str, object]]:
    """Return the rows of a chart that have a name."""
    assert isinstance(spec, dict)
    return [row for rows in spec["datasets"].values() for row in rows if "name" in row]


def test_timeline_is_in_order_with_gaps(assessment: Assessment) -> None:
    segments = [part("2026-03-01", 0.9), part("2026-03-02", None), part("2026-03-03", 0.4)]
    figure = segment_figure(assessed_by(assessment, segments))
    assert figure is not None
    assert figure.title == "Estimates over time"
    assert "for each day" in figure.caption
    assert "lowest is 40.0 %, for 2026-03-03" in figure.alt
    rows = drawn(figure.spec)
    assert [row["at"] for row in rows] == [s.value for s in segments]
    assert [row["value"] for row in rows] == [90.0, None, 40.0]
    assert '"type": "utc"' in json.dumps(figure.spec)


def test_only_the_last_dates_are_shown(assessment: Assessment) -> None:
    segments = [part(name) for name in days(MAX_DATES + 50)]
    result = assessed_by(assessment, segments)
    figure = segment_figure(result)
    assert figure is not None
    assert f"The last {MAX_DATES} of {MAX_DATES + 50} dates are drawn." in figure.caption
    names = [row["name"] for row in drawn(figure.spec)]
    assert (
        names
        == [s.value for s in select_table_segments(segments)]
        == [s.value for s in segments[50:]]
    )


def test_only_the_lowest_segments_are_shown(source: Predictions, target: Predictions) -> None:
    many = target.rows(np.arange(2_000) % target.n)
    result = oodometer.estimate(source, many, segment_by=np.arange(2_000) // 4, replicates=20)
    page = assessment_page(result, source, many, title="t", reproduce={})
    listed = f"{MAX_LISTED_SEGMENTS} of 500 segments are listed, those with the lowest estimates."
    assert listed in page
    assert "40 of 500 segments are drawn, those with the lowest estimates." in page
    assert page.count('<th scope="row"><bdi>') > MAX_LISTED_SEGMENTS


def test_drawn_segments_are_in_the_table(assessment: Assessment) -> None:
    segments = [part(f"s{j}", value) for j, value in enumerate(np.linspace(0.2, 0.8, 300))]
    figure = segment_figure(assessed_by(assessment, segments))
    assert figure is not None
    assert {row["name"] for row in drawn(figure.spec)} <= {
        s.value for s in select_table_segments(segments)
    }


def test_no_figure_without_estimates(assessment: Assessment) -> None:
    assert segment_figure(assessed_by(assessment, [])) is None
    assert segment_figure(assessed_by(assessment, [part("a", None), part("b", None)])) is None


def test_page_of_dates_has_a_timeline(source: Predictions, target: Predictions) -> None:
    at = np.datetime64("2026-03-01") + np.arange(target.n) // 30
    result = oodometer.estimate(source, target, segment_by=at, replicates=20)
    page = assessment_page(result, source, target, title="t", reproduce={})
    assert '<h2 id="parts">Over time</h2>' in page
    assert '<th scope="col">Date</th>' in page
    assert '<a href="#parts">Over time</a>' in page
    plain = oodometer.estimate(source, target, replicates=20)
    assert 'id="parts"' not in assessment_page(plain, source, target, title="t", reproduce={})


def test_segments_with_few_rows_give_a_warning() -> None:
    source, target = toy_pair()
    halves = oodometer.estimate(source, target, segment_by=np.arange(target.n) % 2)
    assert few_rows_warning([one.n for one in halves.segments]) == ""
    ones = oodometer.estimate(source, target, segment_by=np.arange(target.n) // 29)
    warning = few_rows_warning([one.n for one in ones.segments])
    assert f"{len(ones.segments)} of {len(ones.segments)} have fewer than 30 rows" in warning
    pages = [
        assessment_page(result, source, target, title="t", reproduce={})
        for result in (halves, ones)
    ]
    assert [warning in page for page in pages] == [False, True]
