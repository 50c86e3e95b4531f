"""Toy with two worlds: formulas, simulation, and the published statements about it."""

from __future__ import annotations

import math

import numpy as np
import pytest

from oodometer.core.array_types import Floats
from oodometer.core.errors import InputError
from oodometer.studies.toys import (
    CovariateOrLabelRow,
    CovariateOrLabelToy,
    covariate_or_label_rows,
)

TOY = CovariateOrLabelToy()


@pytest.fixture(scope="module")
def rows() -> list[CovariateOrLabelRow]:
    return list(covariate_or_label_rows(TOY, n=20_000))


def normal(x: Floats, mean: float) -> Floats:
    return np.exp(-((x - mean) ** 2) / 2) / math.sqrt(2 * math.pi)


@pytest.mark.parametrize("boundary", [None, -1.0, 0.8])
@pytest.mark.parametrize("beta", [0.05, 0.6])
def test_accuracies_match_a_riemann_sum_of_the_definitions(
    boundary: float | None, beta: float
) -> None:
    """Both expectations are over p_s(x, y), as in the paper."""
    toy = CovariateOrLabelToy(alpha=0.4, mu_0=-0.5, mu_1=1.2, boundary=boundary)
    step = 1e-4
    x = np.arange(-12, 12, step) + step / 2
    joint = (0.4 * normal(x, -0.5), 0.6 * normal(x, 1.2))
    target = beta * normal(x, -0.5) + (1 - beta) * normal(x, 1.2)
    is_wrong = (x > toy.threshold, x <= toy.threshold)
    ratio = target / (joint[0] + joint[1])
    covariate = sum((ratio * joint[y] * is_wrong[y]).sum() * step for y in (0, 1))
    weights = (beta / 0.4, (1 - beta) / 0.6)
    label = sum((weights[y] * joint[y] * is_wrong[y]).sum() * step for y in (0, 1))
    assert toy.covariate_shift_accuracy(beta) == pytest.approx(1 - covariate, abs=1e-4)
    assert toy.label_shift_accuracy(beta) == pytest.approx(1 - label, abs=1e-4)
    assert toy.error_difference(beta) == pytest.approx(covariate - label, abs=1e-4)


@pytest.mark.parametrize("boundary", [None, -1.5, 0.0, 0.7, 4.0])
@pytest.mark.parametrize("beta", [0.1, 0.3, 0.8])
def test_difference_equals_the_corrected_equation(boundary: float | None, beta: float) -> None:
    toy = CovariateOrLabelToy(boundary=boundary)
    gap = toy.label_shift_accuracy(beta) - toy.covariate_shift_accuracy(beta)
    assert toy.error_difference(beta) == pytest.approx(gap, abs=1e-8)


def test_sign_of_the_difference_depends_on_the_classifier() -> None:
    """The paper states a larger error under covariate shift for α > β and every classifier."""
    low, high = (CovariateOrLabelToy(alpha=0.5, boundary=at) for at in (-0.5, 0.5))
    assert low.error_difference(0.3) > 0.04
    assert high.error_difference(0.3) < -0.04
    assert low.error_difference(0.7) < -0.04


def test_some_classifiers_have_equal_errors_in_both_worlds() -> None:
    """The paper states different errors for every classifier."""
    toy = CovariateOrLabelToy(alpha=0.5, boundary=0.0)
    assert toy.covariate_shift_accuracy(0.1) == pytest.approx(toy.label_shift_accuracy(0.1))


def test_simulated_accuracies_match_the_exact_ones(rows: list[CovariateOrLabelRow]) -> None:
    for row in rows:
        for world in (row.covariate, row.label):
            assert world.simulated == pytest.approx(world.exact, abs=0.011)
            assert world.weighted == pytest.approx(world.exact, abs=0.025)


def test_worlds_agree_without_shift_only(rows: list[CovariateOrLabelRow]) -> None:
    gaps = {row.beta: row.covariate.exact - row.label.exact for row in rows}
    assert gaps[0.3] == pytest.approx(0, abs=1e-9)
    assert gaps[0.1] < -0.02
    assert gaps[0.9] > 0.06


def test_each_estimator_is_right_in_the_world_that_it_assumes(
    rows: list[CovariateOrLabelRow],
) -> None:
    for row in rows:
        assert row.estimates["iw"] == pytest.approx(row.covariate.exact, abs=0.015)
        for method in ("bbse", "mlls"):
            assert row.estimates[method] == pytest.approx(row.label.exact, abs=0.015)
    last = rows[-1]
    assert abs(last.estimates["iw"] - last.label.exact) > 0.05
    assert abs(last.estimates["bbse"] - last.covariate.exact) > 0.05
    assert last.label.exact + 0.02 < last.estimates["atc-mc"] < last.covariate.exact - 0.01


def test_posterior_of_the_source_is_calibrated() -> None:
    x, labels = TOY.draw(50_000, TOY.alpha, np.random.default_rng(0))
    outputs = TOY.predict(x, labels)
    assert outputs.probs[:, 1] == pytest.approx(TOY.posterior(x, TOY.alpha), abs=1e-6)
    assert outputs.confidence.mean() == pytest.approx(outputs.correct.mean(), abs=0.005)


def test_rows_depend_only_on_the_seed() -> None:
    first, again, other = (
        list(covariate_or_label_rows(TOY, betas=[0.2], n=300, seed=seed)) for seed in (1, 1, 2)
    )
    assert first == again != other


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"alpha": 0.0}, "alpha must be above 0 and below 1; got 0.0"),
        ({"mu_0": 1.0}, "mu_1 must be above 1.0; got 1.0"),
        ({"boundary": math.inf}, "must be finite"),
    ],
)
def test_invalid_settings_raise(settings: dict[str, float], message: str) -> None:
    with pytest.raises(InputError, match=message):
        CovariateOrLabelToy(**settings)


def test_invalid_share_raises() -> None:
    with pytest.raises(InputError, match="beta must be above 0 and below 1; got 1"):
        next(covariate_or_label_rows(TOY, betas=[0.5, 1.0], n=100))
