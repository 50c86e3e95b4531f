"""ATC with distances against a loop over rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from oodometer.core.errors import InputError, NotApplicable
from oodometer.core.predictions import Predictions
from oodometer.estimators.atc import threshold_value
from oodometer.estimators.atc_distance import ATCDistance
from oodometer.testing import toy_predictions


def naive_estimate(source: Predictions, target: Predictions, nearest: int) -> tuple[float, float]:
    assert source.features is not None
    assert target.features is not None
    threshold = threshold_value(source.confidence, int((~source.correct).sum()))
    distances = []
    for row in range(source.n):
        away = np.linalg.norm(source.features - source.features[row], axis=1)
        distances.append(np.sort(np.delete(away, row))[:nearest].mean())
    farthest = sorted(distances)[int(np.ceil(0.99 * (source.n - 1)))]
    right = far = 0
    for row in range(target.n):
        away = np.linalg.norm(source.features - target.features[row], axis=1)
        near = np.sort(away)[:nearest].mean() <= farthest
        far += not near
        right += bool(near and target.confidence[row] >= threshold)
    return right / target.n, far / target.n


@pytest.mark.parametrize("seed", range(4))
def test_rows_far_from_the_source_count_as_errors(seed: int) -> None:
    source = toy_predictions(200, seed=seed)
    target = toy_predictions(150, sharpness=1.5, seed=seed + 1)
    assert target.features is not None
    target = replace(target, features=target.features * 1.5)
    result = ATCDistance(nearest=10).estimate(source, target)
    value, far = naive_estimate(source, target, 10)
    assert far > 0.02
    assert result.value == pytest.approx(value)
    assert result.facts["beyond_support"] == pytest.approx(far)


def test_about_one_per_cent_is_far_without_shift() -> None:
    source, target = toy_predictions(3000, seed=1), toy_predictions(3000, seed=2)
    assert 0.003 < ATCDistance().estimate(source, target).facts["beyond_support"] < 0.02


def test_estimate_is_zero_if_all_rows_are_far() -> None:
    source, target = toy_predictions(100), toy_predictions(50, seed=1)
    assert target.features is not None
    moved = replace(target, features=target.features + 1000)
    result = ATCDistance().estimate(source, moved)
    assert result.value == 0.0
    assert "all target rows are far" in result.notes[0]


def test_features_and_settings_are_validated() -> None:
    source, target = toy_predictions(100), toy_predictions(50, seed=1)
    with pytest.raises(NotApplicable, match="features of source and target"):
        ATCDistance().estimate(source, replace(target, features=None))
    with pytest.raises(InputError, match="The source has 3 features, the target 2"):
        ATCDistance().estimate(source, replace(target, features=np.zeros((50, 2))))
    for settings in ({"nearest": 0}, {"max_rows": 1}, {"within": 0.0}):
        with pytest.raises(InputError, match="must be"):
            ATCDistance(**settings)
