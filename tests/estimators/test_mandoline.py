from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oodometer.core.errors import InputError
from oodometer.core.predictions import Predictions
from oodometer.estimators import Mandoline
from oodometer.testing import toy_pair, toy_predictions


def literal(source: Predictions, target: Predictions, bins: int) -> float:
    """w_b · mean(correct) of each bin in plain loops; an empty source bin takes the nearest."""

    def place(confidence: float) -> int:
        return sum(1 for edge in range(1, bins) if confidence >= edge / bins)

    of_source = [place(c) for c in source.confidence.tolist()]
    accuracy: dict[int, float] = {}
    for b in set(of_source):
        rows = [bool(right) for j, right in zip(of_source, source.correct, strict=True) if j == b]
        accuracy[b] = sum(rows) / len(rows)
    total = 0.0
    for c in target.confidence.tolist():
        nearest = min(sorted(accuracy), key=lambda b: abs(b - place(c)))
        total += accuracy[nearest]
    return total / target.n


@settings(max_examples=30)
@given(seed=st.integers(0, 1000), bins=st.integers(1, 25), k=st.integers(2, 5))
def test_it_is_the_literal_reweighting(seed: int, bins: int, k: int) -> None:
    source = toy_predictions(30, k, sharpness=4.0, seed=seed)
    target = toy_predictions(60, k, sharpness=0.5, seed=seed + 1)
    found = Mandoline(bins).estimate(source, target)
    assert found.value == pytest.approx(literal(source, target, bins), abs=1e-12)


def test_a_bin_without_source_rows_borrows_and_says_so() -> None:
    source = Predictions.from_probs([[0.95, 0.05]] * 4, labels=[0, 0, 0, 1])
    target = Predictions.from_probs([[0.95, 0.05], [0.55, 0.45]])
    found = Mandoline().estimate(source, target)
    assert found.value == 0.75
    assert found.facts["borrowed_share"] == 0.5
    assert found.notes == ("1 target rows lie in bins that the source has no row in",)


def test_equal_mass_bins_hold_as_many_source_rows_each() -> None:
    source, _ = toy_pair()
    learned = Mandoline(8, "equal-mass").learn(source)
    assert np.ptp(learned.counts.sum(axis=1)) <= 1


def test_on_the_source_itself_it_is_the_accuracy() -> None:
    source, _ = toy_pair()
    for member in (Mandoline(), Mandoline(30, "equal-mass")):
        assert member.estimate(source, source).value == pytest.approx(source.correct.mean())


def test_settings_out_of_range_are_refused() -> None:
    with pytest.raises(InputError, match="bins must be at least 1; got 0"):
        Mandoline(0)
    with pytest.raises(InputError, match="got 'quantile'"):
        Mandoline(5, "quantile")  # type: ignore[arg-type]
