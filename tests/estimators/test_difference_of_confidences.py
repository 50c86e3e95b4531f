from __future__ import annotations

import pytest

from oodometer.core.predictions import Predictions
from oodometer.estimators import DifferenceOfConfidences
from oodometer.testing import toy_pair


def test_it_is_source_accuracy_less_the_drop_in_confidence() -> None:
    source, target = toy_pair()
    drop = float(source.confidence.mean() - target.confidence.mean())
    expected = float(source.correct.mean()) - drop
    assert drop > 0
    assert DifferenceOfConfidences().estimate(source, target).value == pytest.approx(expected)


def test_a_value_above_1_is_clipped_and_the_note_says_so() -> None:
    source = Predictions.from_probs([[0.6, 0.4]] * 10, labels=[0] * 10)
    target = Predictions.from_probs([[0.99, 0.01]] * 10)
    found = DifferenceOfConfidences().estimate(source, target)
    assert found.value == 1.0
    assert "the raw value 1.390 was clipped" in found.notes[0]


def test_on_the_source_itself_it_is_the_accuracy() -> None:
    source, _ = toy_pair()
    found = DifferenceOfConfidences().estimate(source, source)
    assert found.value == pytest.approx(source.correct.mean())
