"""Estimates by segment, and sortable values of segments."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oodometer
from oodometer.assessment.conformal_interval import History
from oodometer.assessment.segments import (
    SourceSegment,
    SourceSegments,
    as_segments,
    row_chunks,
    segment_values,
    shift_to_mean,
    time_periods,
)
from oodometer.core.errors import InputError
from oodometer.core.predictions import Predictions
from oodometer.testing import toy_pair, toy_predictions


def test_times_become_days_and_other_types_text() -> None:
    times = np.array(["2026-03-01T23:59", "2026-03-02T00:00"], dtype="datetime64[m]")
    assert segment_values(times).astype(str).tolist() == ["2026-03-01", "2026-03-02"]
    mixed = np.array(["b", None, 3], dtype=object)
    assert segment_values(mixed).tolist() == ["b", "None", "3"]


def test_numbers_are_sorted_numerically() -> None:
    assert np.unique(segment_values(np.array([10, 9, 10]))).tolist() == [9, 10]


def calibrated_rows(n: int, shift: float, seed: int) -> Predictions:
    """Return two-class rows; with a shift, the log-odds of class 1 are too low by it."""
    rng = np.random.default_rng(seed)
    odds = rng.normal(0, 2, n)
    labels = rng.random(n) < 1 / (1 + np.exp(-odds - shift))
    return Predictions.from_logits(np.column_stack([np.zeros(n), odds]), labels=labels.astype(int))


def stack(parts: list[Predictions]) -> tuple[Predictions, np.ndarray]:
    scores = np.concatenate([np.asarray(part.scores) for part in parts])
    labels = np.concatenate([np.asarray(part.labels) for part in parts])
    names = np.repeat([f"s{j}" for j in range(len(parts))], [part.n for part in parts])
    return Predictions.from_logits(scores, labels=labels), names


SHIFTS = (-1.5, 0.0, 1.5)


def test_segments_learn_from_the_source_rows_of_the_same_segment() -> None:
    source, source_by = stack([calibrated_rows(3000, shift, 1) for shift in SHIFTS])
    target, by = stack([calibrated_rows(3000, shift, 2) for shift in SHIFTS])
    with_source = oodometer.estimate(source, target, segment_by=by, source_segment_by=source_by)
    without = oodometer.estimate(source, target, segment_by=by)
    notes = [
        [note for note in r.notes if "source_segment_by" in note] for r in (with_source, without)
    ]
    assert [len(each) for each in notes] == [0, 1]
    errors = []
    for result in (with_source, without):
        truths = [target.correct[by == segment.value].mean() for segment in result.segments]
        values = [segment.estimate.value for segment in result.segments if segment.estimate]
        errors.append(np.abs(np.subtract(values, truths)).mean())
    assert errors[0] < 0.015
    assert errors[1] > 2 * errors[0]
    first = with_source.segments[0]
    assert first.n_source == 3000
    assert first.source_accuracy == pytest.approx(source.correct[:3000].mean())
    assert without.segments[0].source_accuracy is None


def test_mean_of_segments_is_the_headline() -> None:
    source, target = toy_pair()
    by = np.arange(target.n) % 7
    for labels in (None, (np.arange(120), np.asarray(target.labels)[:120])):
        result = oodometer.estimate(source, target, segment_by=by, target_labels=labels)
        total = sum(s.n * s.estimate.value for s in result.segments if s.estimate) / target.n
        assert total == pytest.approx(result.headline.estimate.value, abs=1e-9)


def test_segment_with_enough_labels_is_estimated_from_them() -> None:
    source, target = toy_predictions(1000, seed=1), toy_predictions(600, seed=2)
    by = np.repeat(["a", "b"], 300)
    labels = (np.arange(100), np.asarray(target.labels)[:100])
    result = oodometer.estimate(source, target, segment_by=by, target_labels=labels)
    methods = [segment.estimate.method for segment in result.segments if segment.estimate]
    assert methods == ["ppi++", "segment"]


def test_history_gives_every_segment_a_typical_range() -> None:
    source, target = toy_pair()
    history = History(np.full(19, 0.8), np.linspace(0.7, 0.79, 19))
    result = oodometer.estimate(source, target, segment_by=np.arange(target.n) % 2, history=history)
    for segment in result.segments:
        assert segment.estimate is not None
        assert segment.shift is not None
        assert segment.shift.low < segment.estimate.value < segment.shift.high


def test_status_of_a_segment_is_its_own() -> None:
    source = toy_predictions(2000, seed=1)
    alike, different = toy_predictions(500, seed=2), toy_predictions(500, sharpness=0.3, seed=3)
    scores = np.concatenate([np.asarray(alike.scores), np.asarray(different.scores)])
    result = oodometer.estimate(
        source, Predictions.from_logits(scores), segment_by=np.repeat(["alike", "different"], 500)
    )
    assert [segment.status == "ok" for segment in result.segments] == [True, False]


def test_few_source_rows_are_shrunk_to_the_whole() -> None:
    source = SourceSegments(
        {"many": SourceSegment(10_000, 0.9, 0.1), "few": SourceSegment(2, 0.5, 0.1)},
        residual_variance=0.1,
        between=0.01,
        between_error=0.0,
        n=10_002,
    )
    assert source.correction("many")[0] == pytest.approx(0.1, rel=0.01)
    assert source.correction("few")[0] == pytest.approx(0.1 / 6, rel=0.01)
    assert source.correction("unknown")[0] == 0.0
    assert source.correction("unknown")[1] > source.correction("many")[1]


@given(
    values=st.lists(st.floats(0, 1), min_size=1, max_size=8),
    mean=st.floats(0.001, 0.999),
)
def test_shifted_values_have_the_mean_and_keep_their_order(
    values: list[float], mean: float
) -> None:
    weights = np.full(len(values), 1 / len(values))
    shifted = shift_to_mean(np.array(values), weights, mean)
    assert shifted.mean() == pytest.approx(mean, abs=1e-9)
    assert (np.diff(shifted[np.argsort(values)]) >= -1e-12).all()


TIMES = np.array(["2026-01-31T23:59:00", "2026-02-01T00:00:00", "2026-02-02T07:15:00"])


@pytest.mark.parametrize(
    ("period", "expected"),
    [
        ("hour", ["2026-01-31T23", "2026-02-01T00", "2026-02-02T07"]),
        ("day", ["2026-01-31", "2026-02-01", "2026-02-02"]),
        ("week", ["2026-01-26", "2026-01-26", "2026-02-02"]),
        ("month", ["2026-01", "2026-02", "2026-02"]),
    ],
)
def test_times_are_cut_into_periods(period: str, expected: list[str]) -> None:
    assert time_periods(TIMES, period).tolist() == expected
    assert time_periods(TIMES.astype("datetime64[us]"), period).tolist() == expected


def test_weeks_begin_on_mondays() -> None:
    days = np.datetime64("1969-12-01") + np.arange(20_000)
    weeks = time_periods(days, "week").astype("datetime64[D]")
    assert {day.weekday() for day in weeks.tolist()} == {0}
    assert set((days - weeks).astype(int)) == set(range(7))


@pytest.mark.parametrize(("values", "period"), [(TIMES, "year"), (np.array(["soon"]), "day")])
def test_unknown_periods_and_values_that_are_no_times_raise(
    values: np.ndarray, period: str
) -> None:
    with pytest.raises(InputError):
        time_periods(values, period)


def test_chunks_follow_the_order_of_time() -> None:
    times = np.array([3, 1, 2, 0])
    assert row_chunks(4, 2, times).tolist() == ["2–3", "0–1", "2–3", "0–1"]
    assert row_chunks(12, 10).tolist() == ["00–09"] * 10 + ["10–11"] * 2
    with pytest.raises(InputError, match="chunk_rows"):
        row_chunks(4, 0)


# Argument segment_by ----------------------------------------------------------------------------


def test_segment_by_is_an_array_a_matrix_a_mapping_or_a_frame() -> None:
    site, sex = ["a", "b", "a", "b"], ["f", "f", "m", "m"]
    combined = ["a, f", "b, f", "a, m", "b, m"]
    pairs = list(zip(site, sex, strict=True))
    forms = (
        pairs,
        np.array(pairs),
        {"site": site, "sex": sex},
        pd.DataFrame({"site": site, "sex": sex}, index=[9, 8, 7, 6]),
        pa.table({"site": site, "sex": sex}),
    )
    for form in forms:
        segments = as_segments(form, 4, "values of segment_by")
        assert segments is not None
        assert segments.tolist() == combined
    for form in (site, {"site": site}, pd.DataFrame({"site": site}), pd.Series(site)):
        segments = as_segments(form, 4, "values of segment_by")
        assert segments is not None
        assert segments.tolist() == site
    assert as_segments(None, 4, "values of segment_by") is None


def test_wrong_numbers_of_segment_values_raise() -> None:
    with pytest.raises(InputError, match="There are 4 rows but 3 values of segment_by"):
        as_segments({"site": ["a", "b", "c"]}, 4, "values of segment_by")
    with pytest.raises(InputError, match="have no columns"):
        as_segments({}, 4, "values of segment_by")


def test_estimate_combines_columns_of_source_and_target() -> None:
    rng = np.random.default_rng(0)
    n = 400
    labels = rng.integers(0, 2, n)
    p = np.clip(labels + rng.normal(0, 0.4, n), 0.01, 0.99)
    rows = Predictions.from_probs(np.stack([1 - p, p], axis=1), labels=labels)
    by = {"site": np.arange(n) % 2, "sex": np.array(["f", "m"])[np.arange(n) // 2 % 2]}
    result = oodometer.estimate(
        rows, rows.rows(slice(None, None, -1)), segment_by=by, source_segment_by=by, replicates=20
    )
    assert [segment.value for segment in result.segments] == ["0, f", "0, m", "1, f", "1, m"]
    assert all(segment.n == 100 for segment in result.segments)
