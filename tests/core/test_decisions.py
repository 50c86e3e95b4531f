"""Deployed decisions: given classes, thresholds, and what derives from them."""

from __future__ import annotations

import numpy as np
import pytest

from oodometer.core.errors import InputError
from oodometer.core.predictions import Predictions

PROBS = np.array([[0.7, 0.3], [0.4, 0.6], [0.2, 0.8]])


def test_accuracy_and_confidence_are_those_of_the_decisions() -> None:
    rows = Predictions.from_probs(PROBS, labels=[0, 0, 1], decisions=[0, 0, 0])
    assert rows.has_decisions
    assert rows.classes.tolist() == [0, 0, 0]
    assert rows.confidence.tolist() == [0.7, 0.4, 0.2]
    assert rows.correct.tolist() == [True, True, False]


def test_confidence_of_decisions_follows_the_temperature_and_the_row_selection() -> None:
    logits = np.log(PROBS)
    rows = Predictions.from_logits(logits, decisions=[1, 0, 1]).at_temperature(2.0)
    scaled = np.exp(logits / 2)
    expected = (scaled / scaled.sum(axis=1, keepdims=True))[np.arange(3), [1, 0, 1]]
    np.testing.assert_allclose(rows.confidence, expected)
    np.testing.assert_allclose(rows.rows(np.array([2, 0])).confidence, expected[[2, 0]])


def test_decisions_are_reordered_with_the_classes() -> None:
    rows = Predictions.from_probs(PROBS, class_names=["a", "b"], decisions=["b", "a", "a"])
    swapped = rows.reorder_classes(("b", "a"))
    assert swapped.classes.tolist() == [0, 1, 1]
    np.testing.assert_allclose(swapped.confidence, rows.confidence)


@pytest.mark.parametrize(("threshold", "classes"), [(0.3, [1, 1, 1]), (0.5, [0, 1, 1]), (0.7, [0, 0, 1])])  # fmt: skip
def test_second_class_is_decided_from_the_threshold_on(
    threshold: float, classes: list[int]
) -> None:
    assert Predictions.from_probs(PROBS).decide(threshold).classes.tolist() == classes
    single = Predictions.from_probs(PROBS.astype(np.float32)).decide([1 - threshold, threshold])
    assert len(single.classes) == 3


def test_thresholds_of_several_classes_divide_the_probabilities() -> None:
    rows = Predictions.from_probs([[0.5, 0.3, 0.2]])
    assert rows.decide([0.9, 0.3, 0.5]).classes.tolist() == [1]


@pytest.mark.parametrize("threshold", [0.0, 1.0, -1.0, float("nan")])
def test_threshold_outside_0_and_1_raises(threshold: float) -> None:
    with pytest.raises(InputError, match="threshold must be"):
        Predictions.from_probs(PROBS).decide(threshold)


def test_wrong_number_of_thresholds_and_classes_without_scores_raise() -> None:
    with pytest.raises(InputError, match="There are 2 classes but 3 thresholds"):
        Predictions.from_probs(PROBS).decide([0.2, 0.3, 0.4])
    with pytest.raises(InputError, match="Decisions need probabilities or logits"):
        Predictions.from_classes([0, 1], k=2).with_decisions([0, 1])
    with pytest.raises(InputError, match="decisions"):
        Predictions.from_probs(PROBS, decisions=[0, 1, 2])
