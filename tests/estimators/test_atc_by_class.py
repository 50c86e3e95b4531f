"""Thresholds by class against a literal loop."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oodometer.core.errors import InputError
from oodometer.core.predictions import Predictions
from oodometer.estimators.atc import ATC, threshold_value
from oodometer.estimators.atc_by_class import ATCByClass
from oodometer.testing import toy_predictions


def literal(source: Predictions, target: Predictions, fewest: int) -> float:
    right = 0
    for row in range(target.n):
        rows = source.classes == target.classes[row]
        if rows.sum() < fewest:
            rows[:] = True
        at = threshold_value(source.confidence[rows], int((~source.correct[rows]).sum()))
        right += bool(target.confidence[row] >= at)
    return right / target.n


@given(seed=st.integers(0, 500), k=st.integers(2, 6), fewest=st.sampled_from([1, 20, 40, 10_000]))
@settings(max_examples=30)
def test_every_row_is_held_to_the_threshold_of_its_class(seed: int, k: int, fewest: int) -> None:
    source = toy_predictions(150, k, seed=seed)
    target = toy_predictions(120, k, sharpness=1.5, seed=seed + 1)
    found = ATCByClass(fewest).estimate(source, target)
    assert found.value == pytest.approx(literal(source, target, fewest))


def test_without_enough_rows_of_any_class_it_is_plain_atc() -> None:
    source, target = toy_predictions(100, 4), toy_predictions(100, 4, sharpness=1.0, seed=1)
    found = ATCByClass(1000).estimate(source, target)
    assert found.value == ATC("mc").estimate(source, target).value
    assert found.facts["classes_with_a_threshold"] == 0


def test_a_class_that_is_always_right_is_believed() -> None:
    source = Predictions.from_probs([[0.9, 0.1]] * 30 + [[0.2, 0.8]] * 30, labels=[0] * 60)
    target = Predictions.from_probs([[0.51, 0.49], [0.01, 0.99]])
    assert ATCByClass().estimate(source, target).value == 0.5


def test_fewest_is_at_least_one() -> None:
    with pytest.raises(InputError, match="fewest must be at least 1; got 0"):
        ATCByClass(0)
