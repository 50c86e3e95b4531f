"""Maximum-likelihood class frequencies: boundary cases of EM and of its bootstrap."""

from __future__ import annotations

import numpy as np
import pytest

from oodometer.core.array_types import Floats
from oodometer.core.stats import poisson_bootstrap_weights
from oodometer.estimators import _label_shift_em


def test_frequencies_of_one_hot_rows_are_their_counts() -> None:
    probs = np.eye(3)[[0, 0, 0, 1, 2, 2]]
    solution, converged = _label_shift_em.fit_class_shares(probs, np.full(3, 1 / 3), 1000)
    assert converged
    assert np.allclose(solution, [1 / 2, 1 / 6, 1 / 3], atol=1e-6)


def test_class_without_evidence_gets_frequency_zero() -> None:
    probs = np.array([[0.7, 0.29, 0.01]] * 50 + [[0.2, 0.79, 0.01]] * 50)
    solution, _ = _label_shift_em.fit_class_shares(probs, np.full(3, 1 / 3), 5000)
    assert solution[2] == pytest.approx(0.0, abs=1e-6)


def test_iterations_never_lower_the_likelihood() -> None:
    failed = []
    for seed in range(30):
        rng = np.random.default_rng(seed)
        k = int(rng.integers(2, 8))
        concentration = np.full(k, rng.choice([0.05, 0.3, 1.0]))
        probs = rng.dirichlet(concentration, size=int(rng.integers(5, 200)))
        prior = rng.dirichlet(np.ones(k))
        likelihoods = []
        for steps in range(1, 15):
            q, _ = _label_shift_em._accelerated_em(probs, prior, prior, steps)
            density = np.maximum(probs @ (q / prior), _label_shift_em.EPSILON)
            likelihoods.append(float(np.log(density).mean()))
        if (np.diff(likelihoods) <= -1e-10).any():
            failed.append(seed)
    assert not failed


def test_extrapolation_that_lowers_the_likelihood_is_discarded() -> None:
    """Cases in which the extrapolation is worse than the second of two EM steps."""
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


def test_newton_step_matches_solving_for_resampled_priors() -> None:
    rng = np.random.default_rng(0)
    probs, prior = rng.dirichlet(np.full(3, 0.4), size=4000), np.array([0.5, 0.3, 0.2])
    solution, _ = _label_shift_em.fit_class_shares(probs, prior, 1000)
    others = np.array([[0.52, 0.29, 0.19], [0.48, 0.3, 0.22], [0.5, 0.33, 0.17]])
    resampled = _label_shift_em.resample_class_shares(
        probs, 4000, solution, prior, others, np.ones((3, 4000))
    )
    solved = np.stack([_label_shift_em.fit_class_shares(probs, other, 1000)[0] for other in others])
    assert np.abs(solved - solution).max() > 0.01
    assert np.abs(resampled - solved).max() < 0.15 * np.abs(solved - solution).max()


def test_bootstrap_deviation_scales_with_the_number_of_rows() -> None:
    """The deviation of 4,000 rows is halved if they are a sample of 16,000."""
    rng = np.random.default_rng(0)
    probs, prior = rng.dirichlet(np.full(3, 0.4), size=4000), np.array([0.5, 0.3, 0.2])
    solution, _ = _label_shift_em.fit_class_shares(probs, prior, 1000)
    priors = np.tile(prior, (3000, 1))
    weights = poisson_bootstrap_weights(rng, (3000, 4000))
    few, many = (
        _label_shift_em.resample_class_shares(probs, n, solution, prior, priors, weights).std(
            axis=0
        )
        for n in (4000, 16_000)
    )
    assert many == pytest.approx(few / 2, rel=0.1)


def test_float32_converges_to_the_float64_solution() -> None:
    """Sums of 200,000 float32 terms have five digits, too few for EM to converge."""
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(200_000, 2)) * 8
    probs = np.exp(logits - logits.max(axis=1, keepdims=True))
    probs /= probs.sum(axis=1, keepdims=True)
    prior = np.array([0.55, 0.45])
    narrow, converged = _label_shift_em.fit_class_shares(probs.astype(np.float32), prior, 1000)
    wide, _ = _label_shift_em.fit_class_shares(probs, prior, 1000)
    assert converged
    assert np.allclose(narrow, wide, atol=1e-6)


def test_resampled_frequencies_are_on_the_simplex() -> None:
    rng = np.random.default_rng(0)
    sample, prior = np.array([[0.9, 0.1]] * 30), np.array([0.5, 0.5])
    priors = np.array([[0.5, 0.5], [0.4, 0.6]])
    for solution in (np.array([1.0, 0.0]), np.array([0.6, 0.4])):
        weights = poisson_bootstrap_weights(rng, (2, 30))
        resampled = _label_shift_em.resample_class_shares(
            sample, 30, solution, prior, priors, weights
        )
        assert resampled.shape == (2, 2)
        assert (resampled >= 0).all()
        assert np.allclose(resampled.sum(axis=1), 1.0)
