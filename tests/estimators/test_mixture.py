"""The likeliest class shares: boundary cases of the climb and of its bootstrap."""

from __future__ import annotations

import numpy as np
import pytest

from oodometer.estimators import mixture


def test_shares_of_sure_rows_are_their_counts() -> None:
    probs = np.eye(3)[[0, 0, 0, 1, 2, 2]]
    found, settled = mixture.shares(probs, np.full(3, 1 / 3), 1000)
    assert settled
    assert np.allclose(found, [1 / 2, 1 / 6, 1 / 3], atol=1e-6)


def test_a_class_that_no_row_shows_gets_no_share() -> None:
    probs = np.array([[0.7, 0.29, 0.01]] * 50 + [[0.2, 0.79, 0.01]] * 50)
    found, _ = mixture.shares(probs, np.full(3, 1 / 3), 5000)
    assert found[2] == pytest.approx(0.0, abs=1e-6)


def test_no_step_lowers_the_likelihood() -> None:
    rng = np.random.default_rng(0)
    probs, prior = rng.dirichlet(np.full(5, 0.5), size=300), np.full(5, 0.2)

    def likelihood(q: np.ndarray) -> float:
        return float(np.log(probs @ (q / prior)).mean())

    values = [likelihood(mixture._climb(probs, prior, prior, steps)[0]) for steps in range(1, 12)]
    assert values == sorted(values)


def test_many_rows_of_float32_settle_where_float64_does() -> None:
    """Sums of 200,000 float32 terms are rough at the fifth digit, which once kept EM from ending."""
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(200_000, 2)) * 8
    probs = np.exp(logits - logits.max(axis=1, keepdims=True))
    probs /= probs.sum(axis=1, keepdims=True)
    prior = np.array([0.55, 0.45])
    narrow, settled = mixture.shares(probs.astype(np.float32), prior, 1000)
    wide, _ = mixture.shares(probs, prior, 1000)
    assert settled
    assert np.allclose(narrow, wide, atol=1e-6)


def test_resampled_shares_stay_on_the_simplex_even_with_one_class_left() -> None:
    rng = np.random.default_rng(0)
    sample, prior = np.array([[0.9, 0.1]] * 30), np.array([0.5, 0.5])
    priors = np.array([[0.5, 0.5], [0.4, 0.6]])
    for found in (np.array([1.0, 0.0]), np.array([0.6, 0.4])):
        moved = mixture.resampled_shares(sample, 30, found, prior, priors, rng)
        assert moved.shape == (2, 2)
        assert (moved >= 0).all()
        assert np.allclose(moved.sum(axis=1), 1.0)
