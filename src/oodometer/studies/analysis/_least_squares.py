"""Least-squares fits on standardized columns, and selection of the best subset of columns."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from oodometer.core.array_types import Floats

# Singular values below this share of the largest one are treated as 0. If a measure is the sum of
# other measures, one singular value should be 0, but rounding makes it tiny instead.
SINGULAR_VALUE_TOLERANCE = 1e-10


@dataclass(frozen=True, eq=False)
class StandardizedFit:
    """Least-squares fit on columns that are standardized by the fitted rows' mean and deviation."""

    centre: Floats
    scale: Floats
    weights: Floats
    intercept: float
    notes: tuple[str, ...]

    def predict(self, values: Floats) -> Floats:
        return np.asarray((values - self.centre) / self.scale @ self.weights + self.intercept)


def fit_least_squares(values: Floats, errors: Floats) -> StandardizedFit:
    """Fit errors on columns; if columns are collinear, choose the fit with the smallest weights.

    >>> fit = fit_least_squares(np.array([[0.0], [1.0], [2.0]]), np.array([0.1, 0.2, 0.3]))
    >>> fit.predict(np.array([[3.0]])).round(9)
    array([0.4])
    """
    centre, scale = _center_and_scale(values)
    weights, _, rank, _ = np.linalg.lstsq(
        (values - centre) / scale, errors - errors.mean(), rcond=SINGULAR_VALUE_TOLERANCE
    )
    k = values.shape[1]
    note = f"{k} measures have rank {rank}: the weights are the smallest of all equal fits"
    return StandardizedFit(
        centre, scale, weights, float(errors.mean()), () if rank == k else (note,)
    )


def _center_and_scale(values: Floats) -> tuple[Floats, Floats]:
    """Return the mean and the standard deviation per column; 1 for constant columns.

    A constant column is then 0 everywhere after standardization, and its weight is 0.
    """
    constant = np.ptp(values, axis=0) == 0
    centre = np.where(constant, values[0], values.mean(axis=0))
    return centre, np.where(constant, 1.0, values.std(axis=0))


def best_subset(values: Floats, errors: Floats, size: int) -> list[int]:
    """Return the `size` columns that together have the highest R²; the first subset wins ties.

    R² of a subset is r' C⁻¹ r. The matrix C holds the correlations among the columns of the subset,
    and the vector r holds their correlations with the errors.

    >>> best_subset(np.array([[0.0, 5.0], [1.0, 5.1], [0.0, 5.2]]), np.array([0.1, 0.2, 0.3]), 1)
    [1]
    """
    if size == values.shape[1]:
        return list(range(size))
    centre, scale = _center_and_scale(values)
    error_centre, error_scale = _center_and_scale(errors[:, None])
    x = (values - centre) / scale
    y = (errors - error_centre[0]) / error_scale[0]
    among = x.T @ x / len(x)
    with_errors = x.T @ y / len(x)
    subsets = np.array(list(itertools.combinations(range(values.shape[1]), size)))
    inverse = np.linalg.pinv(
        among[subsets[:, :, None], subsets[:, None, :]], SINGULAR_VALUE_TOLERANCE, hermitian=True
    )
    r = with_errors[subsets]
    r2 = np.einsum("si,sij,sj->s", r, inverse, r)
    return [int(j) for j in subsets[r2.argmax()]]


def r_squared(predicted: Floats, true: Floats) -> float | None:
    """Return R² = 1 − SS_res / SS_tot, which can be negative; None if all true values are equal.

    >>> r_squared(np.array([0.5, 0.625]), np.array([0.75, 0.5]))
    -1.5
    """
    if not len(true) or np.ptp(true) == 0:
        return None
    residual = predicted - true
    centered = true - true.mean()
    return float(1.0 - (residual @ residual) / (centered @ centered))
