"""The likeliest class shares: boundary cases of the climb and of its bootstrap."""

from __future__ import annotations

import numpy as np
import pytest

from oodometer.core.array_types import Floats
from oodometer.estimators import _label_shift_em


def test_shares_of_sure_rows_are_their_counts() -> None:
    probs = np.eye(3)[[0, 0, 0, 1, 2, 2]]
    found, settled = _label_shift_em.fit_class_shares(probs, np.full(3, 1 / 3), 1000)
    assert settled
    assert np.allclose(found, [1 / 2, 1 / 6, 1 / 3], atol=1e-6)


def test_a_class_that_no_row_shows_gets_no_share() -> None:
    probs = np.array([[0.7, 0.29, 0.01]] * 50 + [[0.2, 0.79, 0.01]] * 50)
    found, _ = _label_shift_em.fit_class_shares(probs, np.full(3, 1 / 3), 5000)
    assert found[2] == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("seed", range(30))
def test_no_step_lowers_the_likelihood(seed: int) -> None:
    rng = np.random.default_rng(seed)
    k = int(rng.integers(2, 8))
    probs = rng.dirichlet(np.full(k, rng.choice([0.05, 0.3, 1.0])), size=int(rng.integers(5, 200)))
    prior = rng.dirichlet(np.ones(k))

    def likelihood(q: np.ndarray) -> float:
        return float(np.log(np.maximum(probs @ (q / prior), _label_shift_em.EPSILON)).mean())

    values = [
        likelihood(_label_shift_em._accelerated_em(probs, prior, prior, steps)[0])
        for steps in range(1, 15)
    ]
    assert (np.diff(values) > -1e-10).all()


def test_an_extrapolation_that_lowers_the_likelihood_is_not_taken() -> None:
    """Known cases in which the guess ahead is worse than the second of the two steps."""
    worse = 0
    for seed in range(10):
        rng = np.random.default_rng(seed)
        probs, prior = rng.dirichlet(np.full(6, 0.3), size=30), rng.dirichlet(np.ones(6))
        q: Floats = prior
        for _ in range(20):
            first, _ = _label_shift_em._em_step(probs, prior, q)
            if np.abs(first - q).sum() < _label_shift_em.TOLERANCE:
                break
            second, before = _label_shift_em._em_step(probs, prior, first)
            _, after = _label_shift_em._em_step(
                probs, prior, _label_shift_em._extrapolate(q, first, second)
            )
            q, _ = _label_shift_em._accelerated_em(probs, prior, q, 1)
            if after < before:
                worse += 1
                assert np.array_equal(q, second)
    assert worse > 0


class Still:
    """Every row drawn exactly once."""

    def integers(self, low: int, high: int, size: tuple[int, int], dtype: type) -> np.ndarray:
        """Weights are looked up in a table; here stands a 1."""
        return np.full(size, 30_000, dtype=dtype)


def test_shares_follow_the_sources_shares_as_solving_again_does() -> None:
    rng = np.random.default_rng(0)
    probs, prior = rng.dirichlet(np.full(3, 0.4), size=4000), np.array([0.5, 0.3, 0.2])
    found, _ = _label_shift_em.fit_class_shares(probs, prior, 1000)
    others = np.array([[0.52, 0.29, 0.19], [0.48, 0.3, 0.22], [0.5, 0.33, 0.17]])
    moved = _label_shift_em.resample_class_shares(probs, 4000, found, prior, others, Still())  # type: ignore[arg-type]
    solved = np.stack([_label_shift_em.fit_class_shares(probs, other, 1000)[0] for other in others])
    assert np.abs(solved - found).max() > 0.01
    assert np.abs(moved - solved).max() < 0.15 * np.abs(solved - found).max()


def test_a_sample_of_more_rows_varies_less() -> None:
    """What 4,000 rows vary by is halved when they stand for 16,000."""
    rng = np.random.default_rng(0)
    probs, prior = rng.dirichlet(np.full(3, 0.4), size=4000), np.array([0.5, 0.3, 0.2])
    found, _ = _label_shift_em.fit_class_shares(probs, prior, 1000)
    priors = np.tile(prior, (3000, 1))
    few, many = (
        _label_shift_em.resample_class_shares(probs, n, found, prior, priors, rng).std(axis=0)
        for n in (4000, 16_000)
    )
    assert many == pytest.approx(few / 2, rel=0.1)


def test_many_rows_of_float32_settle_where_float64_does() -> None:
    """Sums of 200,000 float32 terms are rough at the fifth digit, which once kept EM from ending."""
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(200_000, 2)) * 8
    probs = np.exp(logits - logits.max(axis=1, keepdims=True))
    probs /= probs.sum(axis=1, keepdims=True)
    prior = np.array([0.55, 0.45])
    narrow, settled = _label_shift_em.fit_class_shares(probs.astype(np.float32), prior, 1000)
    wide, _ = _label_shift_em.fit_class_shares(probs, prior, 1000)
    assert settled
    assert np.allclose(narrow, wide, atol=1e-6)


def test_resampled_shares_stay_on_the_simplex_even_with_one_class_left() -> None:
    rng = np.random.default_rng(0)
    sample, prior = np.array([[0.9, 0.1]] * 30), np.array([0.5, 0.5])
    priors = np.array([[0.5, 0.5], [0.4, 0.6]])
    for found in (np.array([1.0, 0.0]), np.array([0.6, 0.4])):
        moved = _label_shift_em.resample_class_shares(sample, 30, found, prior, priors, rng)
        assert moved.shape == (2, 2)
        assert (moved >= 0).all()
        assert np.allclose(moved.sum(axis=1), 1.0)
