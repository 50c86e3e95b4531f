from __future__ import annotations

from itertools import combinations

import pytest

from oodometer.core.errors import NotApplicable
from oodometer.estimators import GDE
from oodometer.testing import toy_predictions


def test_two_models_agree_as_often_as_counted() -> None:
    one, two = toy_predictions(200, seed=1), toy_predictions(200, seed=2)
    expected = sum(int(a == b) for a, b in zip(one.classes, two.classes, strict=True)) / 200
    assert GDE().estimate(one, one.with_other_models(two)).value == pytest.approx(expected)


def test_more_than_two_give_the_mean_over_pairs() -> None:
    models = [toy_predictions(150, seed=seed) for seed in range(4)]
    pairs = [float((a.classes == b.classes).mean()) for a, b in combinations(models, 2)]
    found = GDE().estimate(models[0], models[0].with_other_models(*models[1:]))
    assert found.value == pytest.approx(sum(pairs) / 6)


def test_a_temperature_changes_nothing() -> None:
    one, two = toy_predictions(200, seed=1), toy_predictions(200, seed=2)
    pair = one.with_other_models(two)
    hot = pair.at_temperature(7.0)
    assert GDE().estimate(one, hot).value == GDE().estimate(one, pair).value


def test_one_model_alone_has_no_answer() -> None:
    one = toy_predictions(10)
    with pytest.raises(NotApplicable, match="give the second one's predictions"):
        GDE().estimate(one, one)
