"""Average confidence against its definition."""

from __future__ import annotations

import numpy as np
import pytest

from oodometer.core.errors import NotApplicable
from oodometer.core.predictions import Predictions
from oodometer.estimators import AverageConfidence
from oodometer.testing import toy_predictions


def test_estimate_is_the_mean_of_the_largest_probability() -> None:
    target = toy_predictions(200, 5)
    literal = sum(max(row) for row in target.probs.tolist()) / 200
    assert AverageConfidence().estimate(target, target).value == pytest.approx(literal)


def test_estimate_of_a_calibrated_model_is_its_accuracy() -> None:
    """Labels are drawn from the probabilities, so the mean confidence is the accuracy."""
    probs = np.random.default_rng(0).dirichlet(np.ones(4), size=40_000)
    drawn = (probs.cumsum(axis=1) > np.random.default_rng(1).random((40_000, 1))).argmax(axis=1)
    rows = Predictions.from_probs(probs, labels=drawn)
    assert AverageConfidence().estimate(rows, rows).value == pytest.approx(
        rows.correct.mean(), abs=0.01
    )


def test_not_applicable_to_classes_without_scores() -> None:
    hard = Predictions.from_classes([0, 1], k=2, labels=[0, 1])
    with pytest.raises(NotApplicable, match="confidence cannot be computed from classes alone"):
        AverageConfidence().estimate(hard, hard)
