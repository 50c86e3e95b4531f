"""The class shares that make unlabelled probabilities most likely.

L(q) = mean log Σ_y q_y p_y(x) / p_s(y), over the simplex: expectation-maximisation (Saerens et al.
2002), with the squared extrapolation of Varadhan & Roland (2008) where it helps.
"""

from __future__ import annotations

import numpy as np

from oodometer.core.array_types import Floats
from oodometer.core.softmax_kernels import row_blocks
from oodometer.core.stats import poisson_bootstrap_weights

TOLERANCE = 1e-7
EPSILON = 1e-30
# A first solution from this many rows starts the one on all.
WARM_START_ROWS = 20_000


def max_bootstrap_rows(k: int) -> int:
    """How many target rows the bootstrap of the shares looks at."""
    return max(2_000, min(10_000, 1_000_000 // k))


def fit_class_shares(probs: Floats, prior: Floats, max_iterations: int) -> tuple[Floats, bool]:
    """The likeliest class shares, and whether the iteration settled."""
    start: Floats = prior.astype(np.float64)
    stride = len(probs) // WARM_START_ROWS
    if stride > 1:
        start, _ = _accelerated_em(probs[::stride], prior, start, max_iterations)
        # A share of exactly 0 could never grow again.
        start = np.where(prior > 0, np.maximum(start, 1e-9), 0.0)
    return _accelerated_em(probs, prior, start / start.sum(), max_iterations)


def _em_step(probs: Floats, prior: Floats, q: Floats) -> tuple[Floats, float]:
    """One EM step, and the log-likelihood before it.

    In float64, block by block: sums of a million float32 terms are too rough to converge on.
    """
    inverse = np.divide(1.0, prior, out=np.zeros(len(prior)), where=prior > 0)
    pull, likelihood = np.zeros(len(prior)), 0.0
    for rows in row_blocks(*probs.shape):
        block = probs[rows].astype(np.float64, copy=False)
        density = np.maximum(block @ (q * inverse), EPSILON)
        likelihood += float(np.log(density).sum())
        pull += (1.0 / density) @ block
    following = q * inverse * pull
    return following / following.sum(), likelihood / len(probs)


def _accelerated_em(
    probs: Floats, prior: Floats, q: Floats, max_iterations: int
) -> tuple[Floats, bool]:
    """EM with extrapolation, until a step moves less than the tolerance."""
    for _ in range(max_iterations):
        first, _ = _em_step(probs, prior, q)
        if np.abs(first - q).sum() < TOLERANCE:
            return first, True
        second, before = _em_step(probs, prior, first)
        ahead = _extrapolate(q, first, second)
        q, after = _em_step(probs, prior, ahead)
        if after < before:
            q = second
    return q, False


def _extrapolate(q: Floats, first: Floats, second: Floats) -> Floats:
    """As far along the path of two steps as its curvature suggests, inside the simplex."""
    change, bend = first - q, second - 2 * first + q
    length = float(np.linalg.norm(change)) / max(float(np.linalg.norm(bend)), EPSILON)
    while length > 1.0:
        ahead = q + 2 * length * change + length * length * bend
        if (ahead >= 0).all():
            return np.asarray(ahead / ahead.sum())
        length = (length - 1.0) / 2 if length > 1.5 else 1.0
    return second


def resample_class_shares(
    sample: Floats,
    n: int,
    solution: Floats,
    prior: Floats,
    priors: Floats,
    rng: np.random.Generator,
) -> Floats:
    """Shares (count, k) after drawing source and target again: one Newton step from the solution.

    `sample` are target rows, of n in all; what they vary by is scaled to n. `priors` are the
    source's class shares in each replicate. Shares of 0 stay 0.
    """
    active = (solution > 1e-9) & (prior > 0)
    rows, q = sample[:, active].astype(np.float64), solution[active]
    before = prior[active]
    after = np.maximum(priors[:, active], before / (2 * n))
    density = np.maximum(rows @ (q / before), EPSILON)
    ratios = rows / before / density[:, None]
    draws = poisson_bootstrap_weights(rng, (len(priors), len(rows))).astype(np.float64)
    total = np.maximum(draws.sum(axis=1, keepdims=True), 1)
    level = ratios.mean(axis=0)
    by_target = (draws @ ratios / total - level) * np.sqrt(len(rows) / n)
    densities = np.maximum(rows @ (q / after).T, EPSILON)
    by_source = ((1.0 / densities).T @ rows) / after / len(rows) - level
    result = np.zeros((len(priors), len(solution)))
    result[:, active] = np.maximum(q + _newton_moves(ratios, by_target + by_source), 0.0)
    return np.asarray(result / result.sum(axis=1, keepdims=True))


def _newton_moves(ratios: Floats, slopes: Floats) -> Floats:
    """Moves d that keep Σ d = 0 and undo the slopes: H d + λ1 = slope, for many slopes."""
    k = ratios.shape[1]
    bordered = np.zeros((k + 1, k + 1))
    bordered[:k, :k] = ratios.T @ ratios / len(ratios)
    bordered[:k, :k] += np.eye(k) * (1e-9 * np.trace(bordered) / k)
    bordered[k, :k] = bordered[:k, k] = 1.0
    right = np.zeros((k + 1, len(slopes)))
    right[:k] = slopes.T
    return np.asarray(np.linalg.solve(bordered, right)[:k].T)
