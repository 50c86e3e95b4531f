"""DIS²: the slope of its loss, its formula, and that it bounds."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import approx_fprime

from oodometer.assessment.dis2 import _critic_loss, _DomainRows, lower_bound
from oodometer.core.errors import InputError, NotApplicable
from oodometer.core.predictions import Predictions
from oodometer.testing import toy_predictions


def test_the_slope_of_the_loss_is_that_of_small_steps() -> None:
    rng = np.random.default_rng(0)
    sides = [_DomainRows(rng.normal(size=(30, 4)), rng.integers(0, 3, 30)) for _ in range(2)]
    weights = rng.normal(size=12)
    slope = _critic_loss(weights, sides[0], sides[1], (0.01, 2.0))[1]
    literal = approx_fprime(
        weights, lambda w: _critic_loss(w, sides[0], sides[1], (0.01, 2.0))[0], 1e-7
    )
    np.testing.assert_allclose(slope, literal, atol=1e-5)


def test_it_is_the_accuracy_less_the_gap_less_the_margin() -> None:
    source, target = toy_predictions(2000, seed=1), toy_predictions(1000, seed=2)
    found = lower_bound(source, target)
    margin = math.sqrt((1000 + 4 * 500) * math.log(20) / (2 * 1000 * 500))
    assert found.margin == pytest.approx(margin)
    assert found.value == pytest.approx(found.source_accuracy - found.discrepancy - margin)
    assert found.discrepancy >= 0


def leaning(rng: np.random.Generator, n: int, alike: float) -> tuple[Predictions, Predictions]:
    """A model that leans on a shortcut as much as on what makes the class.

    The shortcut says what the cause says in a share `alike` of rows, and else the opposite.
    """
    labels = rng.integers(0, 2, n)
    sign = 2 * labels - 1
    cause = 2 * sign + rng.normal(size=n)
    shortcut = 2 * np.where(rng.random(n) < alike, sign, -sign) + rng.normal(size=n)
    score = cause + 1.5 * shortcut
    features = np.column_stack([cause, shortcut])
    logits = np.column_stack([-score, score])
    made = Predictions.from_logits(logits, labels=labels, features=features)
    return made, made.without_labels()


@pytest.mark.parametrize("alike", [0.95, 0.7, 0.4, 0.25])
def test_it_lies_below_the_truth_where_critics_can_tell(alike: float) -> None:
    for seed in range(3):
        rng = np.random.default_rng(seed)
        source, _ = leaning(rng, 6000, 0.95)
        truth, target = leaning(rng, 6000, alike)
        found = lower_bound(source, target, seed=seed)
        assert found.value <= truth.correct.mean()
        assert found.discrepancy >= source.correct.mean() - truth.correct.mean() - 0.1


def test_the_farther_the_shift_the_lower_the_bound() -> None:
    rng = np.random.default_rng(9)
    source, _ = leaning(rng, 4000, 0.95)
    found = [lower_bound(source, leaning(rng, 4000, alike)[1]).value for alike in (0.95, 0.6, 0.2)]
    assert found[0] > found[1] + 0.1 > found[2] + 0.2


def test_bad_input_is_told() -> None:
    rows = toy_predictions(100)
    with pytest.raises(InputError, match="delta must be above 0 and below 1; got 1"):
        lower_bound(rows, rows, delta=1.0)
    with pytest.raises(NotApplicable, match="at least four rows"):
        lower_bound(rows, rows.rows(slice(0, 3)))
    with pytest.raises(NotApplicable):
        lower_bound(rows, Predictions.from_classes([0, 1, 2, 3], k=4))
