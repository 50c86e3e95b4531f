"""COT and COTT under label shift and against a loop over rows."""

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


def test_cot_detects_wrong_class_frequencies() -> None:
    source = toy_predictions(2000, 4, seed=1)
    probs = np.tile([0.97, 0.01, 0.01, 0.01], (500, 1))
    target = Predictions.from_probs(probs)
    assert AverageConfidence().estimate(source, target).value == pytest.approx(0.97)
    assert COT().estimate(source, target).value < 0.3


def test_cot_with_mlls_prior_is_accurate_under_label_shift() -> None:
    source = toy_predictions(4000, 3, seed=2)
    target = toy_predictions(4000, 3, class_shares=[0.9, 0.05, 0.05], seed=3)
    assert target.labels is not None
    truth = target.correct.mean()
    plain = COT().estimate(source, target).value
    adapted = COT("mlls").estimate(source, target).value
    assert abs(adapted - truth) < abs(plain - truth) / 3


def test_cott_is_the_share_of_rows_with_costs_up_to_the_threshold() -> None:
    source, target = toy_predictions(300, 4, seed=4), toy_predictions(250, 4, sharpness=1.5, seed=5)
    assert source.labels is not None
    shares = np.bincount(source.labels, minlength=4) / 300
    source_scores = -row_costs(source.probs, shares)
    threshold = threshold_value(source_scores, int((~source.correct).sum()))
    target_scores = -row_costs(target.probs, shares)
    literal = sum(1 for score in target_scores if score >= threshold) / 250
    assert COTT().estimate(source, target).value == pytest.approx(literal, abs=0.005)


def test_invalid_predictions_and_settings_are_rejected() -> None:
    source = toy_predictions(50, 3)
    hard = Predictions.from_classes([0, 1, 2], k=3)
    for member in (COT(), COTT()):
        with pytest.raises(NotApplicable):
            member.estimate(source, hard)
    with pytest.raises(InputError, match="prior must be 'source' or 'mlls'"):
        COT("target")  # type: ignore[arg-type]


def test_large_target_notes_the_subsample_of_prices() -> None:
    source = toy_predictions(200, 2)
    target = toy_predictions(50_000, 2, seed=1)
    assert "one row in 3" in COT().estimate(source, target).notes[0]
