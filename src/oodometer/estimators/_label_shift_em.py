"""Maximum-likelihood class frequencies under label shift (EM; Saerens et al., 2002).

The class frequencies q of the target maximize the likelihood L(q) = mean log Σ_y q_y p_y(x) /
p_s(y), where p_s are the class frequencies of the source. The maximum is found by
expectation-maximization (EM), accelerated by squared extrapolation (SQUAREM; Varadhan & Roland,
2008).
"""

from __future__ import annotations

import numpy as np

from oodometer.core.array_types import Array, Floats
from oodometer.core.softmax_kernels import row_blocks

# The iteration stops when a step changes the class frequencies by less than this in total.
TOLERANCE = 1e-7
# Lower limit of densities, which avoids division by zero.
EPSILON = 1e-30
# Up to about this many rows, the iteration starts from the class frequencies of the source. If
# there are more, it starts from the solution on a subsample of about this many rows.
WARM_START_ROWS = 20_000


def max_bootstrap_rows(k: int) -> int:
    """Return the maximum number of target rows that are resampled, given k classes."""
    return max(2_000, min(10_000, 1_000_000 // k))


def fit_class_shares(probs: Floats, prior: Floats, max_iterations: int) -> tuple[Floats, bool]:
    """Return the maximum-likelihood class frequencies, and whether the iteration converged.

    `prior` are the class frequencies of the source.
    """
    start: Floats = prior.astype(np.float64)
    stride = len(probs) // WARM_START_ROWS
    if stride > 1:
        start, _ = _accelerated_em(probs[::stride], prior, start, max_iterations)
        # EM cannot increase a frequency of exactly 0.
        start = np.where(prior > 0, np.maximum(start, 1e-9), 0.0)
    return _accelerated_em(probs, prior, start / start.sum(), max_iterations)


def _em_step(probs: Floats, prior: Floats, q: Floats) -> tuple[Floats, float]:
    """Return the class frequencies after one EM step, and the log-likelihood before the step.

    Sums are computed in float64, because sums of a million float32 terms are not precise enough for
    the iteration to converge. Rows are converted block by block.
    """
    inverse = np.divide(1.0, prior, out=np.zeros(len(prior)), where=prior > 0)
    ratios = np.zeros(len(prior))
    likelihood = 0.0
    for rows in row_blocks(*probs.shape):
        block = probs[rows].astype(np.float64, copy=False)
        density = np.maximum(block @ (q * inverse), EPSILON)
        likelihood += float(np.log(density).sum())
        ratios += (1.0 / density) @ block
    updated = q * inverse * ratios
    return updated / updated.sum(), likelihood / len(probs)


def _accelerated_em(
    probs: Floats, prior: Floats, q: Floats, max_iterations: int
) -> tuple[Floats, bool]:
    """Return the class frequencies found by EM with extrapolation, and whether EM converged."""
    for _ in range(max_iterations):
        first, _ = _em_step(probs, prior, q)
        if np.abs(first - q).sum() < TOLERANCE:
            return first, True
        second, likelihood = _em_step(probs, prior, first)
        extrapolated = _extrapolate(q, first, second)
        q, extrapolated_likelihood = _em_step(probs, prior, extrapolated)
        if extrapolated_likelihood < likelihood:
            q = second
    return q, False


def _extrapolate(q: Floats, first: Floats, second: Floats) -> Floats:
    """Return the SQUAREM extrapolation of two EM steps, shortened until no value is negative."""
    change = first - q
    curvature = second - 2 * first + q
    length = float(np.linalg.norm(change)) / max(float(np.linalg.norm(curvature)), EPSILON)
    while length > 1.0:
        extrapolated = q + 2 * length * change + length * length * curvature
        if (extrapolated >= 0).all():
            return np.asarray(extrapolated / extrapolated.sum())
        length = (length - 1.0) / 2 if length > 1.5 else 1.0
    return second


def resample_class_shares(
    sample: Floats,
    n: int,
    solution: Floats,
    prior: Floats,
    priors: Floats,
    weights: Array,
) -> Floats:
    """Return bootstrap replicates (count, k) of the class frequencies.

    Each replicate is one Newton step away from `solution`, the class frequencies of the target.
    `sample` contains some of the `n` target rows, `weights` (count, rows) how often each replicate
    contains each of them; the variation that this resampling causes is scaled to n rows. `prior` are the class frequencies of the source, and `priors` those of the
    resampled sources. Frequencies of 0 stay 0.
    """
    active = (solution > 1e-9) & (prior > 0)
    rows = sample[:, active].astype(np.float64)
    q = solution[active]
    active_prior = prior[active]
    active_priors = np.maximum(priors[:, active], active_prior / (2 * n))
    density = np.maximum(rows @ (q / active_prior), EPSILON)
    ratios = rows / active_prior / density[:, None]
    gradient = ratios.mean(axis=0)
    by_target = resample_mean_changes(ratios, weights, n)
    densities = np.maximum(rows @ (q / active_priors).T, EPSILON)
    by_source = ((1.0 / densities).T @ rows) / active_priors / len(rows) - gradient
    result = np.zeros((len(priors), len(solution)))
    result[:, active] = np.maximum(q + _newton_steps(ratios, by_target + by_source), 0.0)
    return np.asarray(result / result.sum(axis=1, keepdims=True))


def resample_mean_changes(values: Floats, weights: Array, n: int) -> Floats:
    """Return the change (count, k) of the column means of rows that have bootstrap weights.

    The rows are a sample of `n` rows, and the changes are scaled to those of n rows.
    """
    draws = weights.astype(np.float64)
    total = draws.sum(axis=1, keepdims=True)
    changes = draws @ values / np.maximum(total, 1) - values.mean(axis=0)
    # A replicate of few rows can be empty.
    return np.asarray(np.where(total > 0, changes, 0.0) * np.sqrt(len(values) / n))


def row_influence(probs: Floats, *, solution: Floats, prior: Floats, slope: Floats) -> Floats:
    """Return the influence of each row on slope · q, where q are the class frequencies.

    It is the first-order change of slope · q if the row is given more weight, times the number of
    rows.
    """
    active = (solution > 1e-9) & (prior > 0)
    rows = probs[:, active].astype(np.float64)
    density = np.maximum(rows @ (solution[active] / prior[active]), EPSILON)
    ratios = rows / prior[active] / density[:, None]
    return np.asarray(_newton_steps(ratios, ratios - ratios.mean(axis=0)) @ slope[active])


def _newton_steps(ratios: Floats, gradients: Floats) -> Floats:
    """Return the steps d that solve H d + λ1 = gradient under Σ d = 0, for many gradients."""
    k = ratios.shape[1]
    bordered = np.zeros((k + 1, k + 1))
    bordered[:k, :k] = ratios.T @ ratios / len(ratios)
    bordered[:k, :k] += np.eye(k) * (1e-9 * np.trace(bordered) / k)
    bordered[k, :k] = bordered[:k, k] = 1.0
    right = np.zeros((k + 1, len(gradients)))
    right[:k] = gradients.T
    return np.asarray(np.linalg.solve(bordered, right)[:k].T)
