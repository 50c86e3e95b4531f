"""Sortable values of segments."""

from __future__ import annotations

import numpy as np

from oodometer.assessment.segments import segment_values


def test_times_become_days_and_other_types_text() -> None:
    times = np.array(["2026-03-01T23:59", "2026-03-02T00:00"], dtype="datetime64[m]")
    assert segment_values(times).astype(str).tolist() == ["2026-03-01", "2026-03-02"]
    mixed = np.array(["b", None, 3], dtype=object)
    assert segment_values(mixed).tolist() == ["b", "None", "3"]


def test_numbers_are_sorted_numerically() -> None:
    assert np.unique(segment_values(np.array([10, 9, 10]))).tolist() == [9, 10]
