"""PAPE against a loop over rows and bins."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from oodometer.core.errors import InputError
from oodometer.core.predictions import Predictions
from oodometer.estimators.importance_weighting import ImportanceWeighting, source_weights
from oodometer.estimators.pape import PAPE
from oodometer.testing import toy_predictions


def naive_estimate(source: Predictions, target: Predictions, bins: int) -> float:
    weighting = ImportanceWeighting()
    weights = source_weights(weighting.summarize(weighting.learn(source), target))
    edges = np.unique(np.quantile(source.confidence, np.linspace(0, 1, bins + 1)[1:-1]))
    total = 0.0
    for confidence in target.confidence:
        low = max((e for e in edges if e <= confidence), default=-np.inf)
        high = min((e for e in edges if e > confidence), default=np.inf)
        rows = (source.confidence >= low) & (source.confidence < high)
        total += float(weights[rows] @ source.correct[rows] / weights[rows].sum())
    return total / target.n


@pytest.mark.parametrize("bins", [1, 4, 20])
def test_estimate_matches_a_loop_over_rows(bins: int) -> None:
    source = toy_predictions(300, seed=1)
    target = toy_predictions(200, sharpness=1.5, seed=2)
    result = PAPE(bins).estimate(source, target).value
    assert result == pytest.approx(naive_estimate(source, target, bins))


def test_confidence_is_recalibrated_for_the_target() -> None:
    """Rows with a large feature are as confident as others but correct half as often."""
    rng = np.random.default_rng(0)
    feature = rng.normal(size=(4000, 1))
    correct = rng.random(4000) < np.where(feature[:, 0] > 0, 0.5, 1.0)
    probs = np.tile([0.8, 0.2], (4000, 1))
    labels = np.where(correct, 0, 1)
    source = Predictions.from_probs(probs[:2000], labels=labels[:2000], features=feature[:2000])
    selected = np.flatnonzero(feature[2000:, 0] > 0.2) + 2000
    target = Predictions.from_probs(probs[selected], features=feature[selected])
    result = PAPE().estimate(source, target).value
    assert abs(result - correct[selected].mean()) < 0.1 < abs(0.8 - correct[selected].mean())


def test_settings_and_features_are_validated() -> None:
    with pytest.raises(InputError, match="bins must be at least 1; got 0"):
        PAPE(0)
    source = toy_predictions(50)
    with pytest.raises(InputError, match="Both must come from the same layer"):
        PAPE().estimate(source, replace(source, features=np.zeros((50, 9))))
