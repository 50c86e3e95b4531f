"""DIS²: gradient, formula, and validity of the bound."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import approx_fprime

from oodometer.assessment.dis2 import _critic_loss, _DomainRows, lower_bound
from oodometer.core.errors import InputError, NotApplicable
from oodometer.core.predictions import Predictions
from oodometer.testing import toy_predictions


def test_gradient_matches_finite_differences() -> None:
    rng = np.random.default_rng(0)
    sides = [_DomainRows(rng.normal(size=(30, 4)), rng.integers(0, 3, 30)) for _ in range(2)]
    weights = rng.normal(size=12)
    gradient = _critic_loss(weights, sides[0], sides[1], (0.01, 2.0))[1]
    expected = approx_fprime(
        weights, lambda w: _critic_loss(w, sides[0], sides[1], (0.01, 2.0))[0], 1e-7
    )
    np.testing.assert_allclose(gradient, expected, atol=1e-5)


def test_bound_is_accuracy_minus_discrepancy_minus_margin() -> None:
    source, target = toy_predictions(2000, seed=1), toy_predictions(1000, seed=2)
    found = lower_bound(source, target)
    margin = math.sqrt((1000 + 4 * 500) * math.log(20) / (2 * 1000 * 500))
    assert found.margin == pytest.approx(margin)
    assert found.value == pytest.approx(found.source_accuracy - found.discrepancy - margin)
    assert found.discrepancy >= 0


def shortcut_model(
    rng: np.random.Generator, n: int, agreement: float
) -> tuple[Predictions, Predictions]:
    """Return predictions of a model that uses a shortcut in addition to the cause of the class.

    The shortcut agrees with the cause in a share `agreement` of the rows.
    """
    labels = rng.integers(0, 2, n)
    sign = 2 * labels - 1
    cause = 2 * sign + rng.normal(size=n)
    shortcut = 2 * np.where(rng.random(n) < agreement, sign, -sign) + rng.normal(size=n)
    score = cause + 1.5 * shortcut
    features = np.column_stack([cause, shortcut])
    logits = np.column_stack([-score, score])
    rows = Predictions.from_logits(logits, labels=labels, features=features)
    return rows, rows.without_labels()


@pytest.mark.parametrize("agreement", [0.95, 0.7, 0.4, 0.25])
def test_bound_is_below_the_accuracy(agreement: float) -> None:
    for seed in range(3):
        rng = np.random.default_rng(seed)
        source, _ = shortcut_model(rng, 6000, 0.95)
        truth, target = shortcut_model(rng, 6000, agreement)
        found = lower_bound(source, target, seed=seed)
        assert found.value <= truth.correct.mean()
        assert found.discrepancy >= source.correct.mean() - truth.correct.mean() - 0.1


def test_bound_decreases_with_the_shift() -> None:
    rng = np.random.default_rng(9)
    source, _ = shortcut_model(rng, 4000, 0.95)
    found = [
        lower_bound(source, shortcut_model(rng, 4000, agreement)[1]).value
        for agreement in (0.95, 0.6, 0.2)
    ]
    assert found[0] > found[1] + 0.1 > found[2] + 0.2


def test_invalid_input_is_rejected() -> None:
    rows = toy_predictions(100)
    with pytest.raises(InputError, match="delta must be above 0 and below 1; got 1"):
        lower_bound(rows, rows, delta=1.0)
    with pytest.raises(NotApplicable, match="at least four rows"):
        lower_bound(rows, rows.rows(slice(0, 3)))
    with pytest.raises(NotApplicable):
        lower_bound(rows, Predictions.from_classes([0, 1, 2, 3], k=4))
