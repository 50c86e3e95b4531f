"""Generalization disagreement equality against counted agreements."""

from __future__ import annotations

from itertools import combinations

import pytest

from oodometer.core.errors import NotApplicable
from oodometer.estimators import GDE
from oodometer.testing import toy_predictions


def test_two_models_give_their_agreement_rate() -> None:
    first, second = toy_predictions(200, seed=1), toy_predictions(200, seed=2)
    expected = sum(int(a == b) for a, b in zip(first.classes, second.classes, strict=True)) / 200
    assert GDE().estimate(first, first.with_other_models(second)).value == pytest.approx(expected)


def test_more_than_two_models_give_the_mean_over_pairs() -> None:
    models = [toy_predictions(150, seed=seed) for seed in range(4)]
    pairs = [float((a.classes == b.classes).mean()) for a, b in combinations(models, 2)]
    result = GDE().estimate(models[0], models[0].with_other_models(*models[1:]))
    assert result.value == pytest.approx(sum(pairs) / 6)


def test_temperature_does_not_change_the_estimate() -> None:
    first, second = toy_predictions(200, seed=1), toy_predictions(200, seed=2)
    pair = first.with_other_models(second)
    hot = pair.at_temperature(7.0)
    assert GDE().estimate(first, hot).value == GDE().estimate(first, pair).value


def test_not_applicable_to_a_single_model() -> None:
    first = toy_predictions(10)
    with pytest.raises(NotApplicable, match="requires the predictions of a second model"):
        GDE().estimate(first, first)
