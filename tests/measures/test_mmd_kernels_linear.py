"""MMD in time linear in the rows: means with covariances, and random features."""

from __future__ import annotations

import math
import tracemalloc

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oodometer.core.array_types import Array
from oodometer.measures import _mmd_kernels
from oodometer.measures._mmd_kernels import (
    gaussian_mmd,
    mean_covariance_distance,
    random_feature_mmd,
)
from tests.support.naive_mmd import PAIRS, float64_mmd, naive_mean_covariance, naive_random_features

# Means and covariances ------------------------------------------------------------------------


@given(pair=PAIRS, rows=st.integers(1, 9))
@settings(max_examples=60, deadline=None)
def test_mean_covariance_distance_matches_naive_loop(pair: tuple[Array, Array], rows: int) -> None:
    first, second = (np.concatenate([part, part[:1] + 1.5]) for part in pair)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_mmd_kernels, "FLOAT64_BLOCK_ROWS", rows)
        result = mean_covariance_distance(first, second)
    assert result == pytest.approx(naive_mean_covariance(first, second), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_covariances_match_numpy(dtype: npt.DTypeLike) -> None:
    rng = np.random.default_rng(0)
    first, second = (rng.normal(5, 2, size=(n, 40)).astype(dtype) for n in (5000, 300))
    gap = first.mean(axis=0, dtype=float) - second.mean(axis=0, dtype=float)
    spread = np.cov(first.astype(float).T) - np.cov(second.astype(float).T)
    expected = (gap**2).sum() + (spread**2).sum()
    assert mean_covariance_distance(first, second) == pytest.approx(expected, rel=1e-9)


@given(pair=PAIRS, seed=st.integers(0, 9), offset=st.floats(-50, 50))
@settings(max_examples=60, deadline=None)
def test_invariances_of_mean_covariance_distance(
    pair: tuple[Array, Array], seed: int, offset: float
) -> None:
    first, second = (np.concatenate([rows, rows + 1.5]) for rows in pair)
    result = mean_covariance_distance(first, second)
    close = pytest.approx(result, rel=1e-6, abs=1e-6)
    assert result >= 0
    assert mean_covariance_distance(second, first) == close
    order = np.random.default_rng(seed).permutation(len(first))
    assert mean_covariance_distance(first[order], second) == close
    assert mean_covariance_distance(first, first[order]) == pytest.approx(0, abs=1e-6)
    assert mean_covariance_distance(first + offset, second + offset) == close


def test_distance_converges_to_the_population_value() -> None:
    rng, n = np.random.default_rng(0), 200_000
    turn = np.array([[1.0, 0.5], [0.0, 2.0]])
    first = rng.normal(size=(n, 2)) @ turn + [1.0, 0.0]
    second = rng.normal(size=(n, 2))
    expected = 1.0 + ((turn.T @ turn - np.eye(2)) ** 2).sum()
    assert mean_covariance_distance(first, second) == pytest.approx(expected, rel=0.02)


# Random features ------------------------------------------------------------------------------


@given(pair=PAIRS, seed=st.integers(0, 9))
@settings(max_examples=40, deadline=None)
def test_random_features_match_naive_loop(pair: tuple[Array, Array], seed: int) -> None:
    first, second = (rows.clip(-3, 3) for rows in pair)
    result, error = random_feature_mmd(first, second, rng=np.random.default_rng(seed), count=5)
    directions = np.random.default_rng(seed).standard_normal((first.shape[1], 5), dtype=np.float32)
    values = naive_random_features(first, second, directions)
    assert result == pytest.approx(np.mean(values), rel=2e-4, abs=2e-4)
    assert error == pytest.approx(np.std(values, ddof=1) / math.sqrt(5), rel=2e-3, abs=2e-4)


@pytest.mark.parametrize(("d", "scale"), [(1, 1.0), (3, 0.05), (64, 1.0), (64, 0.1)])
def test_random_features_are_unbiased_with_correct_error(d: int, scale: float) -> None:
    rng = np.random.default_rng(d)
    first = scale * rng.normal(size=(90, d))
    second = scale * (rng.normal(size=(60, d)) + 0.3)
    exact = float64_mmd(first, second)
    drawn = [random_feature_mmd(first, second, rng=rng, count=64) for _ in range(150)]
    values, errors = np.array(drawn).T
    assert abs(values.mean() - exact) < 4 * values.std() / math.sqrt(len(values))
    assert errors.mean() == pytest.approx(values.std(ddof=1), rel=0.25)
    assert values.std() < 0.5 * exact


def test_error_decreases_with_the_number_of_directions() -> None:
    first, second = np.random.default_rng(0).normal(size=(2, 500, 20))
    second += 0.2
    coarse, fine = (
        random_feature_mmd(first, second, rng=np.random.default_rng(1), count=count)
        for count in (50, 5000)
    )
    assert fine[1] == pytest.approx(coarse[1] / 10, rel=0.35)
    assert abs(fine[0] - gaussian_mmd(first, second)) < 4 * fine[1]


def test_random_features_ignore_offset_and_order() -> None:
    first, second = np.random.default_rng(0).normal(size=(2, 400, 6))
    rng = np.random.default_rng

    def result(left: Array, right: Array) -> float:
        value, _ = random_feature_mmd(left, right, rng=rng(3), count=40)
        return value

    value = result(first, second)
    assert result(first[::-1], second) == pytest.approx(value, rel=1e-6)
    assert result(second, first) == pytest.approx(value, rel=1e-6)
    assert result(first + 7.0, second + 7.0) == pytest.approx(value, rel=1e-3)
    assert result(first, first[::-1]) == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize(("columns", "cells"), [(1, 1), (3, 20), (7, 10_000)])
def test_column_blocks_do_not_matter(columns: int, cells: int) -> None:
    rng = np.random.default_rng(0)
    first, second = rng.normal(size=(30, 7)), 2 * rng.normal(size=(20, 7)) + 1
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_mmd_kernels, "COVARIANCE_BLOCK_COLUMNS", columns)
        patch.setattr(_mmd_kernels, "FLOAT64_BLOCK_CELLS", cells)
        result = mean_covariance_distance(first, second)
    assert result == pytest.approx(naive_mean_covariance(first, second), rel=1e-9)


def test_covariance_of_wide_features_is_never_held_whole() -> None:
    """A whole matrix would take 200 MB per side."""
    wide = np.random.default_rng(0).normal(size=(4, 5000)).astype(np.float32)
    tracemalloc.start()
    mean_covariance_distance(wide[:2], wide[2:])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 200e6
