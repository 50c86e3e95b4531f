"""ATC by class against a loop over rows."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oodometer.core.errors import InputError
from oodometer.core.predictions import Predictions
from oodometer.estimators.atc import ATC, threshold_value
from oodometer.estimators.atc_by_class import ATCByClass
from oodometer.testing import toy_predictions


def naive_estimate(source: Predictions, target: Predictions, fewest: int) -> float:
    n_above = 0
    for row in range(target.n):
        rows = source.classes == target.classes[row]
        if rows.sum() < fewest:
            rows[:] = True
        threshold = threshold_value(source.confidence[rows], int((~source.correct[rows]).sum()))
        n_above += bool(target.confidence[row] >= threshold)
    return n_above / target.n


@given(seed=st.integers(0, 500), k=st.integers(2, 6), fewest=st.sampled_from([1, 20, 40, 10_000]))
@settings(max_examples=30)
def test_rows_are_compared_with_the_threshold_of_their_class(
    seed: int, k: int, fewest: int
) -> None:
    source = toy_predictions(150, k, seed=seed)
    target = toy_predictions(120, k, sharpness=1.5, seed=seed + 1)
    result = ATCByClass(fewest).estimate(source, target)
    assert result.value == pytest.approx(naive_estimate(source, target, fewest))


def test_equals_atc_if_no_class_has_enough_rows() -> None:
    source, target = toy_predictions(100, 4), toy_predictions(100, 4, sharpness=1.0, seed=1)
    result = ATCByClass(1000).estimate(source, target)
    assert result.value == ATC("mc").estimate(source, target).value
    assert result.facts["classes_with_a_threshold"] == 0


def test_class_without_source_errors_counts_as_correct() -> None:
    source = Predictions.from_probs([[0.9, 0.1]] * 30 + [[0.2, 0.8]] * 30, labels=[0] * 60)
    target = Predictions.from_probs([[0.51, 0.49], [0.01, 0.99]])
    assert ATCByClass().estimate(source, target).value == 0.5


def test_fewest_must_be_at_least_one() -> None:
    with pytest.raises(InputError, match="fewest must be at least 1; got 0"):
        ATCByClass(0)
