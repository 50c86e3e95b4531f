"""PAPE against a literal loop over rows and bins."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from oodometer.core.errors import InputError
from oodometer.core.predictions import Predictions
from oodometer.estimators.importance_weighting import ImportanceWeighting, source_weights
from oodometer.estimators.pape import PAPE
from oodometer.testing import toy_predictions


def literal(source: Predictions, target: Predictions, bins: int) -> float:
    weighting = ImportanceWeighting()
    weights = source_weights(weighting.summarize(weighting.learn(source), target))
    edges = np.unique(np.quantile(source.confidence, np.linspace(0, 1, bins + 1)[1:-1]))
    total = 0.0
    for sure in target.confidence:
        low = max((e for e in edges if e <= sure), default=-np.inf)
        high = min((e for e in edges if e > sure), default=np.inf)
        rows = (source.confidence >= low) & (source.confidence < high)
        total += float(weights[rows] @ source.correct[rows] / weights[rows].sum())
    return total / target.n


@pytest.mark.parametrize("bins", [1, 4, 20])
def test_the_target_takes_the_weighted_accuracy_of_its_bins(bins: int) -> None:
    source = toy_predictions(300, seed=1)
    target = toy_predictions(200, sharpness=1.5, seed=2)
    found = PAPE(bins).estimate(source, target).value
    assert found == pytest.approx(literal(source, target, bins))


def test_it_sees_that_a_confidence_means_less_where_the_target_is() -> None:
    """Rows with a large feature are as sure as others and right half as often."""
    rng = np.random.default_rng(0)
    feature = rng.normal(size=(4000, 1))
    right = rng.random(4000) < np.where(feature[:, 0] > 0, 0.5, 1.0)
    probs = np.tile([0.8, 0.2], (4000, 1))
    labels = np.where(right, 0, 1)
    source = Predictions.from_probs(probs[:2000], labels=labels[:2000], features=feature[:2000])
    there = np.flatnonzero(feature[2000:, 0] > 0.2) + 2000
    target = Predictions.from_probs(probs[there], features=feature[there])
    found = PAPE().estimate(source, target).value
    assert abs(found - right[there].mean()) < 0.1 < abs(0.8 - right[there].mean())


def test_settings_and_sides_are_checked() -> None:
    with pytest.raises(InputError, match="bins must be at least 1; got 0"):
        PAPE(0)
    source = toy_predictions(50)
    with pytest.raises(InputError, match="Both must come from the same layer"):
        PAPE().estimate(source, replace(source, features=np.zeros((50, 9))))
