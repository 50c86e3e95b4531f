"""Patterns of synthetic scatters, rules at their limits, and sampling variance."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oodometer.core.array_types import Floats
from oodometer.core.errors import InputError
from oodometer.studies.analysis.scatter_patterns import (
    MIN_ASPECT_RATIO,
    MIN_MODELS,
    MIN_SPREAD,
    MIN_STRONG_CORRELATION,
    binomial_variance,
    pattern_from_accuracies,
    robust_spread,
)

STEPS = np.linspace(0, 1, 41)


def normal(mean: float, sd: float, n: int = 60, seed: int = 0) -> Floats:
    return np.clip(np.random.default_rng(seed).normal(mean, sd, n), 0, 1)


def test_monotone_relation_is_functional() -> None:
    found = pattern_from_accuracies(0.5 + 0.4 * STEPS, 0.2 + 0.5 * STEPS**4)
    assert (found.name, found.models) == ("functional", 41)
    assert found.correlation == pytest.approx(1.0)
    assert pattern_from_accuracies(0.5 + 0.4 * STEPS, 0.7 - 0.5 * STEPS).name == "functional"
    noisy = pattern_from_accuracies(
        normal(0.8, 0.05), normal(0.8, 0.05) / 2 + normal(0.1, 0.01, seed=1)
    )
    assert noisy.name == "functional"


def test_spread_only_on_ood_is_vertical() -> None:
    found = pattern_from_accuracies(normal(0.98, 0.003), normal(0.6, 0.08, seed=1))
    assert found.name == "vertical"
    assert "ID spreads by 0." in found.reason


def test_spread_only_on_id_is_horizontal() -> None:
    assert (
        pattern_from_accuracies(normal(0.7, 0.1), normal(0.3, 0.015, seed=1)).name == "horizontal"
    )


def test_unrelated_spread_on_both_is_a_cloud() -> None:
    found = pattern_from_accuracies(normal(0.7, 0.06), normal(0.4, 0.08, seed=1))
    assert found.name == "cloud"
    assert found.reason.startswith("the rank correlation is")


def test_no_spread_on_both_is_no_pattern() -> None:
    found = pattern_from_accuracies(normal(0.9, 0.004), normal(0.6, 0.004, seed=1))
    assert found.name is None
    assert found.reason.startswith("models hardly differ on both: ID spreads by 0.")
    assert pattern_from_accuracies([0.5] * 10, [0.25] * 10).name is None


def test_too_few_complete_models_are_no_pattern() -> None:
    x = np.linspace(0.1, 0.9, MIN_MODELS)
    assert pattern_from_accuracies(x, x).name == "functional"
    gappy = x.copy()
    gappy[3] = np.nan
    for sides in ((gappy, x), (x, gappy)):
        found = pattern_from_accuracies(*sides)
        assert (found.name, found.models) == (None, MIN_MODELS - 1)
        assert found.reason == "8 models, fewer than 9"
        assert found.correlation is not None
    nothing = pattern_from_accuracies([np.nan] * 3, [0.5] * 3)
    assert (nothing.name, nothing.models, nothing.id_spread) == (None, 0, None)


def test_small_differences_in_the_same_order_are_functional() -> None:
    assert pattern_from_accuracies(0.9 + 0.02 * STEPS, 0.2 + 0.6 * STEPS).name == "functional"
    assert pattern_from_accuracies(0.9 + 0.002 * STEPS, 0.4 + 0.002 * STEPS).name == "functional"


def test_ood_spread_below_a_point_is_horizontal_despite_correlation() -> None:
    assert pattern_from_accuracies(0.4 + 0.5 * STEPS, 0.1 + 0.005 * STEPS).name == "horizontal"


def test_few_failed_models_do_not_make_a_line_functional() -> None:
    x, y = normal(0.98, 0.002, 40), normal(0.6, 0.08, 40, seed=1)
    x[:4], y[:4] = 0.2, 0.1
    found = pattern_from_accuracies(x, y)
    assert np.std(x) > 0.2
    assert found.name == "vertical"


def test_sampling_variance_is_subtracted_if_rows_are_known() -> None:
    # All models have the same true ID accuracy; 100 test rows make them look different.
    rng = np.random.default_rng(3)
    x, y = rng.binomial(100, 0.9, 80) / 100, rng.uniform(0.3, 0.6, 80)
    assert pattern_from_accuracies(x, y).name == "cloud"
    corrected = pattern_from_accuracies(x, y, id_rows=100)
    assert corrected.name == "vertical"
    assert corrected.id_spread is not None
    assert corrected.id_spread < MIN_SPREAD
    both = pattern_from_accuracies(
        x, rng.binomial(50, 0.5, 80) / 50, id_rows=100, ood_rows=np.full(80, 50)
    )
    assert both.name is None


@pytest.mark.parametrize("ratio", [MIN_ASPECT_RATIO - 0.1, MIN_ASPECT_RATIO + 0.1])
def test_lines_need_the_minimum_aspect_ratio(ratio: float) -> None:
    x, y = np.tile(STEPS, 41), np.repeat(STEPS, 41)
    vertical = pattern_from_accuracies(0.5 + 0.2 / ratio * x, 0.5 + 0.2 * y).name
    horizontal = pattern_from_accuracies(0.5 + 0.2 * x, 0.5 + 0.2 / ratio * y).name
    expected = ("vertical", "horizontal") if ratio > MIN_ASPECT_RATIO else ("cloud", "cloud")
    assert (vertical, horizontal) == expected


def test_strong_correlation_is_significant_from_the_minimum_number_of_models() -> None:
    rng = np.random.default_rng(0)
    for models, holds in ((MIN_MODELS, True), (MIN_MODELS - 1, False)):
        ranks = np.argsort(rng.random((200_000, models)), axis=1)
        squares = ((ranks - np.arange(models)) ** 2).sum(axis=1)
        rho = 1 - 6 * squares / (models * (models**2 - 1))
        by_chance = (np.abs(rho) >= MIN_STRONG_CORRELATION - 1e-12).mean()
        assert bool(by_chance <= 0.05) is holds


@given(seed=st.integers(0, 1000), kind=st.sampled_from(range(4)))
@settings(max_examples=40)
def test_model_order_does_not_matter(seed: int, kind: int) -> None:
    sd = ((0.05, 0.05), (0.002, 0.1), (0.1, 0.002), (0.001, 0.001))[kind]
    x, y = normal(0.7, sd[0], 30, seed), normal(0.5, sd[1], 30, seed + 1)
    order = np.random.default_rng(seed).permutation(30)
    first, second = pattern_from_accuracies(x, y), pattern_from_accuracies(x[order], y[order])
    assert first.name == second.name
    assert first.id_spread == pytest.approx(second.id_spread)


def test_robust_spread_of_normal_values_is_their_standard_deviation() -> None:
    values = np.random.default_rng(0).normal(0, 0.07, 200_000)
    assert robust_spread(values, np.full(1, np.nan)) == pytest.approx(0.07, rel=0.01)
    assert robust_spread(values, np.array([0.07**2])) == pytest.approx(0.0, abs=0.01)
    half = robust_spread(values, np.array([0.07**2 * 0.75, np.nan]))
    assert half == pytest.approx(0.035, rel=0.05)


def test_result_is_json_and_invalid_input_raises() -> None:
    assert set(pattern_from_accuracies(STEPS, STEPS).to_dict()) == {
        "name", "reason", "models", "correlation", "id_spread", "ood_spread"
    }  # fmt: skip
    with pytest.raises(
        InputError, match="id_accuracy must hold one fraction from 0 to 1 per model; got 90"
    ):
        pattern_from_accuracies([90.0, 80.0], [0.5, 0.5])
    with pytest.raises(InputError, match=r"ood_accuracy must hold .* got shape \(1, 2\)"):
        pattern_from_accuracies([0.5, 0.5], [[0.5, 0.5]])
    with pytest.raises(InputError, match="There are 2 ID and 3 OOD accuracies"):
        pattern_from_accuracies([0.5, 0.5], [0.5, 0.5, 0.5])
    with pytest.raises(InputError, match="id_rows must be above 0; got 0"):
        pattern_from_accuracies([0.5, 0.5], [0.5, 0.5], id_rows=[10, 0])
    assert np.isnan(binomial_variance(np.array([0.5]), None)).all()
