"""Isotonic, beta and Platt calibration against scikit-learn and by known distortions."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.isotonic import IsotonicRegression

from oodometer.core.calibration import (
    Calibration,
    IsotonicMap,
    LogisticMap,
    calibrate,
    calibration_p_value,
    cross_fit,
    fit_class_calibrator,
)
from oodometer.core.predictions import Predictions


def rows_of(n: int, k: int, *, power: float = 1.0, seed: int = 0) -> Predictions:
    """Return labelled rows whose probabilities are p^power, normalized; 1 is calibrated."""
    rng = np.random.default_rng(seed)
    probs = rng.dirichlet(np.full(k, 0.5), size=n)
    labels = np.minimum((rng.random((n, 1)) > probs.cumsum(axis=1)).sum(axis=1), k - 1)
    distorted = np.maximum(probs, 1e-12) ** power
    distorted[:, 0] *= 1.0 if power == 1.0 else 3.0
    return Predictions.from_probs(distorted / distorted.sum(axis=1, keepdims=True), labels=labels)


def test_isotonic_map_centers_the_steps_of_scikit_learn() -> None:
    rng = np.random.default_rng(0)
    probs = rng.random(3000).round(3)
    positive = rng.random(3000) < probs**2
    fitted = IsotonicMap.fit(probs, positive)
    steps = IsotonicRegression(out_of_bounds="clip").fit_transform(probs, positive)
    values = np.unique(steps)
    centers = [probs[steps == value].mean() for value in values]
    bound = 0.5 / 3001
    np.testing.assert_allclose(fitted.x, centers, atol=1e-9)
    np.testing.assert_allclose(fitted.y, np.clip(values, bound, 1 - bound), atol=1e-9)
    between = (fitted.x[3] + fitted.x[4]) / 2
    assert fitted(np.array([between]))[0] == pytest.approx((fitted.y[3] + fitted.y[4]) / 2)
    assert fitted(np.array([0.0, 1.0])).tolist() == [fitted.y[0], fitted.y[-1]]


def test_many_rows_of_two_classes_are_calibrated_by_isotonic_regression() -> None:
    assert calibrate(rows_of(5000, 2), "auto", seed=0).method == "isotonic"
    assert calibrate(rows_of(4999, 2), "auto", seed=0).method == "temperature"
    assert calibrate(rows_of(5000, 3), "auto", seed=0).method == "temperature"


def test_method_names_the_maps_that_were_fitted() -> None:
    assert calibrate(rows_of(300, 2), "isotonic", seed=0).method == "platt"
    assert calibrate(rows_of(3000, 2), "isotonic", seed=0).method == "isotonic"
    assert calibrate(rows_of(3000, 2), "beta", seed=0).method == "beta"


def test_isotonic_map_keeps_the_mean_of_its_rows() -> None:
    rows = rows_of(4000, 2, power=0.4)
    assert rows.labels is not None
    positive = rows.labels == 1
    fitted = IsotonicMap.fit(rows.probs[:, 1], positive)
    assert fitted(rows.probs[:, 1]).mean() == pytest.approx(positive.mean(), abs=1e-3)


@pytest.mark.parametrize("is_platt", [True, False])
def test_logistic_map_recovers_its_own_distortion(is_platt: bool) -> None:
    rng = np.random.default_rng(1)
    true = LogisticMap(2.0, 2.0 if is_platt else 0.5, -0.3)
    probs = rng.random(200_000)
    positive = rng.random(200_000) < true(probs)
    fitted = LogisticMap.fit(probs, positive, is_platt=is_platt)
    assert (fitted.a, fitted.b, fitted.c) == pytest.approx((true.a, true.b, true.c), abs=0.05)


def test_logistic_map_of_one_outcome_stays_finite() -> None:
    fitted = LogisticMap.fit(np.linspace(0.1, 0.9, 50), np.ones(50, dtype=bool), is_platt=True)
    values = fitted(np.array([0.0, 0.5, 1.0]))
    assert np.isfinite(values).all()
    assert (np.diff(values) >= 0).all()


@pytest.mark.parametrize("method", ["isotonic", "beta", "platt"])
@pytest.mark.parametrize("k", [2, 5, 30])
def test_calibrated_confidence_equals_the_accuracy(method: str, k: int) -> None:
    source, fresh = rows_of(8000, k, power=0.4), rows_of(8000, k, power=0.4, seed=1)
    assert abs(fresh.confidence.mean() - fresh.correct.mean()) > (0.05 if k < 30 else 0.01)
    result = fit_class_calibrator(source, method)(fresh)
    np.testing.assert_allclose(result.probs.sum(axis=1), 1.0)
    np.testing.assert_array_equal(result.classes, fresh.classes)
    assert result.confidence.mean() == pytest.approx(fresh.correct.mean(), abs=0.01)


def test_rare_classes_use_platt_scaling() -> None:
    rows = rows_of(300, 4)
    maps = fit_class_calibrator(rows, "isotonic").class_maps
    assert all(isinstance(fitted, LogisticMap) for fitted in maps)
    many = rows_of(8000, 4)
    maps = fit_class_calibrator(many, "isotonic").class_maps
    assert all(isinstance(fitted, IsotonicMap) for fitted in maps)


def test_auto_calibrates_only_if_necessary() -> None:
    assert calibrate(rows_of(5000, 3), "auto", seed=0).method == "temperature"
    distorted = calibrate(rows_of(5000, 3, power=0.4), "auto", seed=0)
    assert distorted.method in ("isotonic", "beta")
    assert abs(distorted.gap) < 3 * distorted.gap_error + 0.005


def test_p_values_of_calibrated_rows_are_rarely_small() -> None:
    p_values = [calibration_p_value(rows_of(1000, 3, seed=seed)) for seed in range(200)]
    # With a level of 1 %, more than 8 of 200 has a probability below 1 in 4,000.
    assert sum(p < 0.01 for p in p_values) <= 8


def test_cross_fitted_rows_do_not_use_their_own_label() -> None:
    rows = rows_of(400, 2)
    assert rows.labels is not None
    changed = rows.labels.copy()
    changed[0] = 1 - changed[0]
    other = Predictions.from_probs(rows.scores, labels=changed)
    first, second = (cross_fit(part, "isotonic", seed=0).probs[0] for part in (rows, other))
    np.testing.assert_array_equal(first, second)


def test_none_removes_the_temperature_and_temperature_keeps_it() -> None:
    rows = rows_of(200, 3).at_temperature(2.0)
    assert calibrate(rows, "none", seed=0)(rows).temperature == 1.0
    unchanged = calibrate(rows, "temperature", seed=0)
    assert unchanged(rows) is rows
    assert isinstance(unchanged, Calibration)
