"""Means over groups and groups without a value."""

from __future__ import annotations

import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oodometer.studies.analysis.grouped_scores import MeanStd


@given(st.lists(st.one_of(st.floats(-100, 100), st.sampled_from(["none", "few"]))))
def test_mean_deviation_and_counts_match_the_statistics_module(items: list[float | str]) -> None:
    found = MeanStd.from_values(items)
    values = [item for item in items if not isinstance(item, str)]
    assert found.groups == len(values)
    reasons = [reason for reason in ("none", "few") if reason in items]
    assert dict(found.left_out) == {reason: items.count(reason) for reason in reasons}
    assert found.mean == (pytest.approx(statistics.mean(values)) if values else None)
    assert found.sd == (pytest.approx(statistics.stdev(values)) if len(values) > 1 else None)


def test_equal_values_have_deviation_zero() -> None:
    assert MeanStd.from_values([0.1] * 3).sd == 0.0
    assert MeanStd.from_values(iter([])).to_dict() == {
        "mean": None,
        "sd": None,
        "groups": 0,
        "left_out": {},
    }
