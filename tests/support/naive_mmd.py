"""Samples, and their maximum mean discrepancies by naive loops in float64."""

from __future__ import annotations

import cmath
import math

import numpy as np
from hypothesis import strategies as st
from scipy.spatial.distance import cdist

from oodometer.core.array_types import Array, Floats
from oodometer.measures._mmd_kernels import GAMMAS

COORDINATES = st.sampled_from([0.0, 1e-3, 0.01, -0.02, 0.5, 1.0, -1.0, 1.0001, 30.0, -400.0])


def samples(width: int) -> st.SearchStrategy[Array]:
    row = st.lists(COORDINATES | st.floats(-3, 3), min_size=width, max_size=width)
    return st.lists(row, min_size=1, max_size=7).map(np.array)


PAIRS = st.integers(1, 3).flatmap(lambda width: st.tuples(samples(width), samples(width)))


def naive_kernel(a: Floats, b: Floats) -> float:
    distance = math.fsum((x - y) ** 2 for x, y in zip(a.tolist(), b.tolist(), strict=True))
    return math.fsum(math.exp(-γ * distance) for γ in (0.001, 0.01, 0.1, 1, 10, 100, 1000))


def naive_mmd(first: Array, second: Array) -> float:
    def mean(left: Array, right: Array) -> float:
        return math.fsum(naive_kernel(a, b) for a in left for b in right) / len(left) / len(right)

    return mean(first, first) + mean(second, second) - 2 * mean(first, second)


def float64_mmd(first: Array, second: Array, scale: float = 1.0) -> float:
    """Return the MMD by whole float64 matrices, for more rows than loops can handle."""
    wide = [rows.astype(np.float64) for rows in (first, second)]

    def mean(left: Array, right: Array) -> float:
        distances = scale**2 * cdist(left, right, "sqeuclidean")
        return float(sum(np.exp(-γ * distances).mean() for γ in GAMMAS))

    return mean(wide[0], wide[0]) + mean(wide[1], wide[1]) - 2 * mean(wide[0], wide[1])


def naive_random_features(first: Array, second: Array, directions: Floats) -> list[float]:
    def phi(rows: Array, ω: Floats) -> complex:
        return sum(cmath.exp(1j * float(ω @ x)) for x in rows) / len(rows)

    return [
        sum(
            abs(phi(first, math.sqrt(2 * γ) * way) - phi(second, math.sqrt(2 * γ) * way)) ** 2
            for γ in GAMMAS
        )
        for way in directions.astype(np.float64).T
    ]


def naive_mean_covariance(first: Array, second: Array) -> float:
    def moments(rows: Array) -> tuple[list[float], list[list[float]]]:
        n, d = rows.shape
        mean = [math.fsum(rows[:, i]) / n for i in range(d)]
        return mean, [
            [
                math.fsum((row[i] - mean[i]) * (row[j] - mean[j]) for row in rows) / (n - 1)
                for j in range(d)
            ]
            for i in range(d)
        ]

    (means, spread), (other_means, other_spread) = moments(first), moments(second)
    gaps = [a - b for a, b in zip(means, other_means, strict=True)]
    for row, other in zip(spread, other_spread, strict=True):
        gaps += [a - b for a, b in zip(row, other, strict=True)]
    return math.fsum(gap**2 for gap in gaps)
