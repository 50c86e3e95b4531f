"""Non-inferiority test: decisions, the p-value, and the error rate at the margin."""

from __future__ import annotations

import pytest
from scipy.stats import ttest_ind

from oodometer.assessment.noninferiority import _predict_correctness, noninferiority_test
from oodometer.core.errors import InputError, NotApplicable
from oodometer.core.predictions import Predictions
from oodometer.testing import toy_predictions


def test_decision_depends_on_the_loss_and_the_margin() -> None:
    source = toy_predictions(3000, seed=0)
    assert noninferiority_test(source, toy_predictions(2000, seed=1)).decision == "SUITABLE"
    harder = noninferiority_test(source, toy_predictions(2000, sharpness=1.5, seed=2))
    assert harder.decision == "UNSUITABLE"
    loss = harder.source_accuracy - harder.target_accuracy
    target = toy_predictions(2000, sharpness=1.5, seed=2)
    assert noninferiority_test(source, target, margin=loss).decision == "INCONCLUSIVE"
    assert noninferiority_test(source, target, margin=loss + 0.1).decision == "SUITABLE"
    assert harder.target_accuracy < harder.source_accuracy - 0.05


def test_p_value_is_that_of_welchs_test() -> None:
    source, target = toy_predictions(1000, seed=3), toy_predictions(800, sharpness=2.2, seed=4)
    on_source, on_target = _predict_correctness(source, target, 0)
    expected = ttest_ind(on_source - 0.05, on_target, equal_var=False, alternative="less").pvalue
    assert noninferiority_test(source, target, margin=0.05).p_value == pytest.approx(expected)


def test_false_positive_rate_at_the_margin() -> None:
    """A target that is worse by exactly the margin is SUITABLE in about 5 % of trials."""
    passed = 0
    for seed in range(60):
        source, target = toy_predictions(1000, seed=seed), toy_predictions(1000, seed=seed + 500)
        on_source, on_target = _predict_correctness(source, target, seed)
        margin = max(float(on_source.mean() - on_target.mean()), 0.0)
        passed += (
            noninferiority_test(source, target, margin=margin, seed=seed).decision == "SUITABLE"
        )
    assert passed <= 8


def test_invalid_input_is_rejected() -> None:
    rows = toy_predictions(400)
    with pytest.raises(InputError, match=r"Did you mean 0\.05"):
        noninferiority_test(rows, rows, margin=5)
    with pytest.raises(NotApplicable, match="20 of each are required"):
        noninferiority_test(toy_predictions(60), rows)
    with pytest.raises(NotApplicable):
        noninferiority_test(rows, Predictions.from_classes([0, 1], k=4))
