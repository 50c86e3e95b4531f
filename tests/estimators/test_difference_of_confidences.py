"""Difference of confidences against its definition."""

from __future__ import annotations

import pytest

from oodometer.core.predictions import Predictions
from oodometer.estimators import DifferenceOfConfidences
from oodometer.testing import toy_pair


def test_estimate_is_source_accuracy_minus_the_drop_in_confidence() -> None:
    source, target = toy_pair()
    drop = float(source.confidence.mean() - target.confidence.mean())
    expected = float(source.correct.mean()) - drop
    assert drop > 0
    assert DifferenceOfConfidences().estimate(source, target).value == pytest.approx(expected)


def test_value_above_one_is_clipped_with_a_note() -> None:
    source = Predictions.from_probs([[0.6, 0.4]] * 10, labels=[0] * 10)
    target = Predictions.from_probs([[0.99, 0.01]] * 10)
    result = DifferenceOfConfidences().estimate(source, target)
    assert result.value == 1.0
    assert "the raw value 1.390 was clipped" in result.notes[0]


def test_estimate_of_the_source_is_its_accuracy() -> None:
    source, _ = toy_pair()
    result = DifferenceOfConfidences().estimate(source, source)
    assert result.value == pytest.approx(source.correct.mean())
