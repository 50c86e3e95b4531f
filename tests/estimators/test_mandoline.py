"""Importance re-weighting over confidence bins against plain loops."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oodometer.core.errors import InputError
from oodometer.core.predictions import Predictions
from oodometer.estimators import Mandoline
from oodometer.testing import toy_pair, toy_predictions


def naive_estimate(source: Predictions, target: Predictions, bins: int) -> float:
    """Return the weighted accuracy by plain loops; an empty source bin uses the nearest."""

    def bin_of(confidence: float) -> int:
        return sum(1 for edge in range(1, bins) if confidence >= edge / bins)

    source_bins = [bin_of(c) for c in source.confidence.tolist()]
    accuracy: dict[int, float] = {}
    for b in set(source_bins):
        rows = [bool(right) for j, right in zip(source_bins, source.correct, strict=True) if j == b]
        accuracy[b] = sum(rows) / len(rows)
    total = 0.0
    for c in target.confidence.tolist():
        nearest = min(sorted(accuracy), key=lambda b: abs(b - bin_of(c)))
        total += accuracy[nearest]
    return total / target.n


@settings(max_examples=30)
@given(seed=st.integers(0, 1000), bins=st.integers(1, 25), k=st.integers(2, 5))
def test_estimate_matches_plain_loops(seed: int, bins: int, k: int) -> None:
    source = toy_predictions(30, k, sharpness=4.0, seed=seed)
    target = toy_predictions(60, k, sharpness=0.5, seed=seed + 1)
    result = Mandoline(bins).estimate(source, target)
    assert result.value == pytest.approx(naive_estimate(source, target, bins), abs=1e-12)


def test_bin_without_source_rows_uses_the_nearest_with_a_note() -> None:
    source = Predictions.from_probs([[0.95, 0.05]] * 4, labels=[0, 0, 0, 1])
    target = Predictions.from_probs([[0.95, 0.05], [0.55, 0.45]])
    result = Mandoline().estimate(source, target)
    assert result.value == 0.75
    assert result.facts["borrowed_share"] == 0.5
    assert result.notes == ("bins without source rows have 1 target row",)


def test_equal_mass_bins_have_equally_many_source_rows() -> None:
    source, _ = toy_pair()
    learned = Mandoline(8, "equal-mass").learn(source)
    assert np.ptp(learned.counts.sum(axis=1)) <= 1


def test_estimate_of_the_source_is_its_accuracy() -> None:
    source, _ = toy_pair()
    for member in (Mandoline(), Mandoline(30, "equal-mass")):
        assert member.estimate(source, source).value == pytest.approx(source.correct.mean())


def test_settings_out_of_range_are_rejected() -> None:
    with pytest.raises(InputError, match="bins must be at least 1; got 0"):
        Mandoline(0)
    with pytest.raises(InputError, match="got 'quantile'"):
        Mandoline(5, "quantile")  # type: ignore[arg-type]
