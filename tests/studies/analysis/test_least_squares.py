"""Least squares on standardized columns."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LinearRegression
from sklearn.metrics import r2_score

from oodometer.studies.analysis._least_squares import best_subset, fit_least_squares, r_squared


@given(st.integers(0, 10_000), st.integers(1, 4))
@settings(max_examples=30, deadline=None)
def test_predictions_match_scikit_learn(seed: int, k: int) -> None:
    rng = np.random.default_rng(seed)
    values, errors, new = rng.normal(3, 10, (20, k)), rng.random(20), rng.normal(3, 10, (5, k))
    line = fit_least_squares(values, errors)
    peer = LinearRegression().fit(values, errors)
    assert line.predict(new) == pytest.approx(peer.predict(new), abs=1e-9)
    assert line.weights / line.scale == pytest.approx(peer.coef_, abs=1e-9)
    assert line.notes == ()


def test_collinear_columns_get_minimal_weights_and_a_note() -> None:
    """A measure and its double get equal weights; a sum of two others adds nothing."""
    rng = np.random.default_rng(0)
    one, two, errors = rng.random((3, 30))
    doubled = fit_least_squares(np.stack([one, 2 * one], axis=1), errors)
    assert doubled.weights[0] == pytest.approx(doubled.weights[1])
    assert doubled.notes == (
        "2 measures have rank 1: the weights are the smallest of all equal fits",
    )
    three = np.stack([one, two, one + two], axis=1)
    alone = fit_least_squares(three[:, :2], errors)
    assert fit_least_squares(three, errors).notes[0].startswith("3 measures have rank 2")
    assert fit_least_squares(three, errors).predict(three) == pytest.approx(
        alone.predict(three[:, :2])
    )


def test_constant_column_has_weight_zero() -> None:
    rng = np.random.default_rng(1)
    values, errors = np.stack([rng.random(9), np.full(9, 0.1)], axis=1), rng.random(9)
    line = fit_least_squares(values, errors)
    assert line.weights[1] == 0.0
    assert line.notes != ()
    moved = values + np.array([0.0, 5.0])
    assert line.predict(moved) == pytest.approx(line.predict(values))
    assert line.predict(values) == pytest.approx(
        fit_least_squares(values[:, :1], errors).predict(values[:, :1])
    )


@given(st.integers(0, 10_000), st.integers(1, 3))
@settings(max_examples=30, deadline=None)
def test_best_subset_minimizes_squared_error(seed: int, size: int) -> None:
    rng = np.random.default_rng(seed)
    values, errors = rng.random((15, 5)), rng.random(15)

    def left(columns: tuple[int, ...]) -> float:
        some = values[:, columns]
        return float(((fit_least_squares(some, errors).predict(some) - errors) ** 2).sum())

    naive = min(itertools.combinations(range(5), size), key=left)
    assert best_subset(values, errors, size) == list(naive)


def test_first_of_equal_columns_wins() -> None:
    column = np.random.default_rng(0).random(10)
    assert best_subset(np.stack([np.ones(10), column, column], axis=1), column, 1) == [1]
    assert best_subset(np.stack([column, column], axis=1), np.ones(10), 1) == [0]
    assert best_subset(np.stack([column, column], axis=1), np.ones(10), 2) == [0, 1]


def test_r_squared_matches_scikit_learn_and_is_none_for_constants() -> None:
    true, predicted = np.random.default_rng(2).random((2, 12))
    assert r_squared(predicted, true) == pytest.approx(r2_score(true, predicted))
    assert r_squared(true, true) == 1.0
    assert r_squared(true, np.full(12, 0.3)) is None
    assert r_squared(np.array([]), np.array([])) is None
