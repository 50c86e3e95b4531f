"""Least squares on standardised columns, the few columns that do best, and how well they do."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from oodometer.core.array_types import Floats

# Singular values below this share of the largest are rounding: some measures are sums of others.
SINGULAR_VALUE_TOLERANCE = 1e-10


@dataclass(frozen=True, eq=False)
class StandardizedFit:
    """A least-squares fit on standardised columns; mean and sd are those of the fitted rows."""

    centre: Floats
    scale: Floats
    weights: Floats
    intercept: float
    notes: tuple[str, ...]

    def predict(self, values: Floats) -> Floats:
        """What it says of some rows."""
        return np.asarray((values - self.centre) / self.scale @ self.weights + self.intercept)


def fit_least_squares(values: Floats, errors: Floats) -> StandardizedFit:
    """The least-squares fit; where columns are collinear, the one with the smallest weights.

    >>> line = fit_least_squares(np.array([[0.0], [1.0], [2.0]]), np.array([0.1, 0.2, 0.3]))
    >>> line.predict(np.array([[3.0]])).round(9)
    array([0.4])
    """
    centre, scale = _center_and_scale(values)
    around = (values - centre) / scale
    weights, _, rank, _ = np.linalg.lstsq(
        around, errors - errors.mean(), rcond=SINGULAR_VALUE_TOLERANCE
    )
    k = values.shape[1]
    note = f"{k} measures are worth {rank}: of equal fits, that with the smallest weights"
    return StandardizedFit(
        centre, scale, weights, float(errors.mean()), () if rank == k else (note,)
    )


def _center_and_scale(values: Floats) -> tuple[Floats, Floats]:
    """Mean and standard deviation of columns; 1 for a constant one, whose weight is then 0."""
    constant = np.ptp(values, axis=0) == 0
    centre = np.where(constant, values[0], values.mean(axis=0))
    return centre, np.where(constant, 1.0, values.std(axis=0))


def best_subset(values: Floats, errors: Floats, size: int) -> list[int]:
    """The columns, so many, on which the errors regress best; of equals, the first.

    R² of a set is r' C⁻¹ r, with its correlations C among themselves and r with the errors.

    >>> best_subset(np.array([[0.0, 5.0], [1.0, 5.1], [0.0, 5.2]]), np.array([0.1, 0.2, 0.3]), 1)
    [1]
    """
    if size == values.shape[1]:
        return list(range(size))
    (centre, scale), (middle, spread) = (
        _center_and_scale(values),
        _center_and_scale(errors[:, None]),
    )
    x, y = (values - centre) / scale, (errors - middle[0]) / spread[0]
    among, with_errors = x.T @ x / len(x), x.T @ y / len(x)
    sets = np.array(list(itertools.combinations(range(values.shape[1]), size)))
    inverse = np.linalg.pinv(
        among[sets[:, :, None], sets[:, None, :]], SINGULAR_VALUE_TOLERANCE, hermitian=True
    )
    r = with_errors[sets]
    r2 = np.einsum("si,sij,sj->s", r, inverse, r)
    return [int(j) for j in sets[r2.argmax()]]


def r_squared(predicted: Floats, true: Floats) -> float | None:
    """R² = 1 − SS_res / SS_tot, which can be negative; None where all that is true is equal.

    >>> r_squared(np.array([0.5, 0.625]), np.array([0.75, 0.5]))
    -1.5
    """
    if not len(true) or np.ptp(true) == 0:
        return None
    off, around = predicted - true, true - true.mean()
    return float(1.0 - (off @ off) / (around @ around))
