"""Pairwise correlations over common rows against loops, scipy and pandas."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from oodometer.core.array_types import Floats
from oodometer.core.errors import InputError
from oodometer.studies.analysis.correlation_matrix import (
    MIN_CORRELATION_ROWS,
    CorrelationKind,
    correlation,
    pairwise_correlations,
    round_means,
)

KINDS: tuple[CorrelationKind, ...] = ("spearman", "pearson")
FEW = st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0, math.nan])
TABLES = st.integers(1, 12).flatmap(
    lambda n: st.integers(1, 5).flatmap(lambda v: arrays(np.float64, (n, v), elements=FEW))
)


def naive_ranks(values: list[float]) -> list[float]:
    return [
        sum(1 for other in values if other < value)
        + (sum(1 for other in values if other == value) + 1) / 2
        for value in values
    ]


def naive(x: list[float], y: list[float], kind: CorrelationKind) -> tuple[float, int]:
    both = [(a, b) for a, b in zip(x, y, strict=True) if math.isfinite(a) and math.isfinite(b)]
    first, second = [a for a, _ in both], [b for _, b in both]
    if len(both) < 3 or len(set(first)) == 1 or len(set(second)) == 1:
        return math.nan, len(both)
    if kind == "spearman":
        first, second = naive_ranks(first), naive_ranks(second)
    a_mean, b_mean = sum(first) / len(both), sum(second) / len(both)
    up = sum((a - a_mean) * (b - b_mean) for a, b in zip(first, second, strict=True))
    a_square = sum((a - a_mean) ** 2 for a in first)
    b_square = sum((b - b_mean) ** 2 for b in second)
    return up / math.sqrt(a_square * b_square), len(both)


@pytest.mark.parametrize("kind", KINDS)
@given(table=TABLES)
@settings(max_examples=150)
def test_coefficients_match_naive_loop(kind: CorrelationKind, table: Floats) -> None:
    found = pairwise_correlations(table, kind=kind)
    for i in range(table.shape[1]):
        for j in range(table.shape[1]):
            expected, rows = naive(table[:, i].tolist(), table[:, j].tolist(), kind)
            assert found.n_rows[i, j] == rows
            np.testing.assert_allclose(found.values[i, j], expected, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_gaps_and_ties_match_pandas(kind: CorrelationKind) -> None:
    rng = np.random.default_rng(0)
    table = rng.normal(size=(60, 20)).round(1)
    table[rng.random(table.shape) < 0.3] = np.nan
    expected = pd.DataFrame(table).corr(method=kind, min_periods=MIN_CORRELATION_ROWS).to_numpy()
    np.testing.assert_allclose(pairwise_correlations(table, kind=kind).values, expected, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_two_columns_match_scipy(kind: CorrelationKind) -> None:
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=40).round(1), rng.normal(size=40).round(1)
    peer: Any = stats.spearmanr if kind == "spearman" else stats.pearsonr
    assert correlation(x, y, kind=kind) == pytest.approx(peer(x, y).statistic, abs=1e-12)


@pytest.mark.parametrize("kind", KINDS)
@given(first=TABLES, seed=st.integers(0, 5))
@settings(max_examples=60)
def test_two_tables_match_a_block_of_their_concatenation(
    kind: CorrelationKind, first: Floats, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    second = rng.integers(4, size=(len(first), 3)).astype(float)
    whole = pairwise_correlations(np.concatenate([first, second], axis=1), kind=kind)
    block = pairwise_correlations(first, second, kind=kind)
    v = first.shape[1]
    np.testing.assert_allclose(block.values, whole.values[:v, v:], atol=1e-12)
    np.testing.assert_array_equal(block.n_rows, whole.n_rows[:v, v:])


@pytest.mark.parametrize("kind", KINDS)
@given(table=TABLES, seed=st.integers(0, 5))
@settings(max_examples=60)
def test_matrix_is_symmetric_bounded_and_independent_of_row_order(
    kind: CorrelationKind, table: Floats, seed: int
) -> None:
    found = pairwise_correlations(table, kind=kind)
    np.testing.assert_allclose(found.values, found.values.T, atol=1e-12)
    known = found.values[~np.isnan(found.values)]
    assert ((known >= -1) & (known <= 1)).all()
    shuffled = np.random.default_rng(seed).permutation(table)
    np.testing.assert_allclose(
        pairwise_correlations(shuffled, kind=kind).values, found.values, atol=1e-12
    )


def test_spearman_ignores_monotone_and_pearson_linear_transforms() -> None:
    rng = np.random.default_rng(2)
    table = rng.random((30, 4))
    ranked = pairwise_correlations(table).values
    np.testing.assert_array_equal(pairwise_correlations(np.exp(5 * table)).values, ranked)
    linear = pairwise_correlations(table, kind="pearson").values
    moved = pairwise_correlations(1e6 * table + 1e3, kind="pearson").values
    np.testing.assert_allclose(moved, linear, atol=1e-10)
    assert (
        np.abs(pairwise_correlations(np.exp(5 * table), kind="pearson").values - linear).max()
        > 0.01
    )


@pytest.mark.parametrize("scale", [1e-200, 1e-3, 1.0, 1e200])
def test_extreme_magnitudes_do_not_overflow(scale: float) -> None:
    x = np.array([1.0, 2.0, 4.0, 3.0])
    assert correlation(x * scale, x, kind="pearson") == pytest.approx(1.0)


def test_outlier_outside_common_rows_is_ignored() -> None:
    x, y = np.array([1e10, 0.1, 0.2, 0.4, 0.3]), np.array([np.nan, 1.0, 2.0, 4.0, 3.0])
    assert correlation(x, y, kind="pearson") == pytest.approx(1.0, abs=1e-12)


def test_constant_column_has_no_coefficient_despite_rounding() -> None:
    x = np.full(7, 0.1)
    assert correlation(x, np.arange(7.0), kind="pearson") is None
    assert correlation(x, np.arange(7.0)) is None


def test_infinite_values_are_missing() -> None:
    x, y = np.array([1.0, 2.0, 3.0, np.inf]), np.array([1.0, 2.0, 3.0, -9.0])
    assert correlation(x, y) == pytest.approx(1.0)
    assert pairwise_correlations(x[:, None], y[:, None]).n_rows.tolist() == [[3]]


def test_two_rows_are_too_few_and_do_not_warn() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert correlation(np.array([1.0, 2.0]), np.array([1.0, 2.0])) is None
        assert correlation(np.full(3, np.nan), np.arange(3.0)) is None


def test_unknown_kind_raises() -> None:
    with pytest.raises(
        InputError, match=r"No correlation is called 'spearmen'. Did you mean 'spea"
    ):
        pairwise_correlations(np.ones((3, 2)), kind="spearmen")  # type: ignore[arg-type]


def test_rounded_means_keep_twelve_digits() -> None:
    means = np.array([[1e-300, 1.7e308, 0.0], [1.000001e-300, 1.6e308, 0.0], [np.nan, 1.0, 0.0]])
    assert np.allclose(round_means(means)[:2], means[:2], rtol=1e-11, atol=0)
    assert np.isnan(round_means(means)[2, 0])
    assert round_means(means)[0, 0] != round_means(means)[1, 0]
