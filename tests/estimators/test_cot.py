"""COT and COTT by hand, under label shift, and against literal loops."""

from __future__ import annotations

import numpy as np
import pytest

from oodometer.core.errors import InputError, NotApplicable
from oodometer.core.predictions import Predictions
from oodometer.estimators import AverageConfidence
from oodometer.estimators._optimal_transport import row_costs
from oodometer.estimators.atc import threshold_value
from oodometer.estimators.cot import COT, COTT
from oodometer.testing import toy_predictions


@pytest.mark.parametrize("k", [2, 3, 8])
def test_cot_is_never_above_average_confidence(k: int) -> None:
    for seed in range(5):
        source = toy_predictions(200, k, seed=seed)
        target = toy_predictions(150, k, sharpness=1.0, seed=seed + 9)
        cot = COT().estimate(source, target).value
        assert cot <= AverageConfidence().estimate(source, target).value + 1e-6


def test_cot_of_the_wrong_classes_sees_what_confidence_does_not() -> None:
    source = toy_predictions(2000, 4, seed=1)
    probs = np.tile([0.97, 0.01, 0.01, 0.01], (500, 1))
    target = Predictions.from_probs(probs)
    assert AverageConfidence().estimate(source, target).value == pytest.approx(0.97)
    assert COT().estimate(source, target).value < 0.3


def test_cot_with_the_likeliest_shares_follows_a_label_shift() -> None:
    source = toy_predictions(4000, 3, seed=2)
    target = toy_predictions(4000, 3, class_shares=[0.9, 0.05, 0.05], seed=3)
    assert target.labels is not None
    truth = target.correct.mean()
    plain = COT().estimate(source, target).value
    moved = COT("mlls").estimate(source, target).value
    assert abs(moved - truth) < abs(plain - truth) / 3


def test_cott_is_the_share_that_pays_no_more_than_the_threshold() -> None:
    source, target = toy_predictions(300, 4, seed=4), toy_predictions(250, 4, sharpness=1.5, seed=5)
    assert source.labels is not None
    shares = np.bincount(source.labels, minlength=4) / 300
    known = -row_costs(source.probs, shares)
    at = threshold_value(known, int((~source.correct).sum()))
    new = -row_costs(target.probs, shares)
    literal = sum(1 for cost in new if cost >= at) / 250
    assert COTT().estimate(source, target).value == pytest.approx(literal, abs=0.005)


def test_both_refuse_what_they_can_not_do() -> None:
    source = toy_predictions(50, 3)
    hard = Predictions.from_classes([0, 1, 2], k=3)
    for member in (COT(), COTT()):
        with pytest.raises(NotApplicable):
            member.estimate(source, hard)
    with pytest.raises(InputError, match="prior must be 'source' or 'mlls'"):
        COT("target")  # type: ignore[arg-type]


def test_a_large_target_says_on_how_many_rows_prices_rest() -> None:
    source = toy_predictions(200, 2)
    target = toy_predictions(50_000, 2, seed=1)
    assert "one row in 3" in COT().estimate(source, target).notes[0]
