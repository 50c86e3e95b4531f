"""Rounded probabilities: rounding step, zeros and sums."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from oodometer.core.errors import InputError
from oodometer.core.predictions import NORMALIZED_NOTE, Predictions
from oodometer.core.validation import (
    normalize_rows,
    replace_zeros,
    rounding_step,
    zero_replacement,
)


def probs_of(n: int = 500, k: int = 4, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).dirichlet(np.full(k, 0.3), size=n)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("decimals", [1, 2, 3, 4])
def test_step_is_found_for_one_to_four_decimals(decimals: int, dtype: npt.DTypeLike) -> None:
    rounded = probs_of().round(decimals).astype(dtype)
    assert rounding_step(rounded) == 10.0**-decimals


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_five_decimals_and_decisions_have_no_step(dtype: npt.DTypeLike) -> None:
    assert rounding_step(probs_of().round(5).astype(dtype)) is None
    assert rounding_step(np.eye(3, dtype=dtype)) is None


def test_zeros_become_half_the_step_or_half_a_row() -> None:
    assert zero_replacement(probs_of().round(2)) == 0.005
    exact = probs_of()
    exact[0] = [0.0, 1.0, 0.0, 0.0]
    assert zero_replacement(exact) == 1 / 1000
    assert zero_replacement(np.eye(4)) == 1 / 8


def test_rows_without_zeros_are_unchanged_and_others_sum_to_1() -> None:
    probs = probs_of().round(2)
    result = replace_zeros(probs, 0.005)
    has_zero = (probs <= 0).any(axis=1)
    assert 0 < has_zero.sum() < len(probs)
    np.testing.assert_array_equal(result[~has_zero], probs[~has_zero])
    np.testing.assert_allclose(result[has_zero].sum(axis=1), 1.0)
    assert result.min() > 0
    clean = probs[~has_zero]
    assert replace_zeros(clean, 0.005) is clean


def test_rounded_rows_are_normalized_with_a_note() -> None:
    probs = probs_of(k=30).round(2)
    assert np.abs(probs.sum(axis=1) - 1).max() > 1e-3
    rows = Predictions.from_probs(probs)
    np.testing.assert_allclose(np.asarray(rows.scores).sum(axis=1), 1.0)
    assert rows.notes == (NORMALIZED_NOTE,)
    exact = probs_of(k=30)
    assert Predictions.from_probs(exact).notes == ()
    assert normalize_rows(exact) is exact


def test_sums_beyond_rounding_raise() -> None:
    probs = probs_of(k=4).round(2)
    probs[3] = [0.5, 0.25, 0.25, 0.03]
    with pytest.raises(InputError, match=r"row 3 sums to 1\.03"):
        Predictions.from_probs(probs)
    probs[3] = [0.5, 0.25, 0.25, 0.02]
    assert Predictions.from_probs(probs).n == 500


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("decimals", [1, 2, 3])
@pytest.mark.parametrize("n", [1, 5, 12, 400])
def test_rounded_probabilities_are_accepted(n: int, decimals: int, dtype: npt.DTypeLike) -> None:
    for k in (2, 3, 10):
        probs = probs_of(n, k, seed=n).round(decimals).astype(dtype)
        rows = Predictions.from_probs(probs)
        assert np.abs(np.asarray(rows.scores, dtype=float).sum(axis=1) - 1).max() < 2e-3


def test_three_significant_digits_are_accepted() -> None:
    text = [[f"{value:.3g}" for value in row] for row in probs_of(k=8)]
    assert Predictions.from_probs(np.array(text, dtype=float)).notes == (NORMALIZED_NOTE,)
