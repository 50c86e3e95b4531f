"""Probabilities that were rounded: rounding step, exact zeros, and rows that do not sum to 1.

Files often hold probabilities with two or three decimals. Such values contain exact zeros, whose
logarithm does not exist, and rows whose sum differs from 1 by more than floating-point error.
"""

from __future__ import annotations

import numpy as np

from oodometer.core.array_types import Array, Floats

# Probabilities count as rounded if all values have at most this many decimals.
MAX_DECIMALS = 4
# Rows whose sum differs from 1 by more than this are divided by their sum. Sums of float32
# probabilities differ by less, and those of float16 probabilities by less than the second number.
MAX_UNCHANGED_EXCESS = 1e-5
MAX_UNCHANGED_EXCESS_FLOAT16 = 1e-3
# A value with d decimals, stored as float32 or float64 and multiplied by 10^d, is within 10^d times
# this distance of an integer.
FLOAT32_TOLERANCE = 2e-7
FLOAT64_TOLERANCE = 1e-12
# Number of rows that are examined first, because most arrays are not rounded.
PREVIEW_ROWS = 64


def rounding_step(probs: Array) -> float | None:
    """Return 10⁻ᵈ if all values have at most d ≤ 4 decimals; None if they were not rounded.

    Values that are all 0 or 1 are decisions, not rounded probabilities, so the result is None.

    >>> rounding_step(np.array([[0.25, 0.75], [0.5, 0.5]]))
    0.01
    >>> rounding_step(np.array([[0.123456, 0.876544]])) is None
    True
    """
    for decimals in range(1, MAX_DECIMALS + 1):
        if all(_has_decimals(rows, decimals) for rows in (probs[:PREVIEW_ROWS], probs)):
            is_binary = decimals == 1 and bool(np.isin(probs, (0, 1)).all())
            return None if is_binary else float(f"1e-{decimals}")
    return None


def _has_decimals(values: Array, decimals: int) -> bool:
    scaled = values.astype(np.float64) * 10**decimals
    is_single = values.dtype.itemsize <= 4
    tolerance = 10**decimals * (FLOAT32_TOLERANCE if is_single else FLOAT64_TOLERANCE)
    with np.errstate(invalid="ignore"):
        return bool((np.abs(scaled - np.rint(scaled)) <= tolerance).all())


def zero_replacement(probs: Array) -> float:
    """Return the value that replaces exact zeros: half the rounding step, else 1/(2n) for n rows.

    >>> zero_replacement(np.array([[0.0, 1.0], [0.25, 0.75]]))
    0.005
    """
    step = rounding_step(probs)
    return step / 2 if step is not None else 1 / (2 * len(probs))


def replace_zeros(probs: Array, replacement: float) -> Array:
    """Return probabilities in which zeros are replaced and the rows that had zeros sum to 1.

    Return the same array if it has no zeros.

    >>> replace_zeros(np.array([[0.0, 1.0], [0.5, 0.5]]), 0.25).tolist()
    [[0.2, 0.8], [0.5, 0.5]]
    """
    is_zero = probs <= 0
    rows = np.flatnonzero(is_zero.any(axis=1))
    if not rows.size:
        return probs
    result = probs.astype(np.result_type(probs.dtype, np.float32))
    changed = np.where(is_zero[rows], replacement, result[rows])
    result[rows] = changed / changed.sum(axis=1, keepdims=True)
    return result


def max_unchanged_excess(probs: Array) -> float:
    """Return the difference between a row's sum and 1 up to which the row is not changed."""
    is_half = probs.dtype == np.float16
    return MAX_UNCHANGED_EXCESS_FLOAT16 if is_half else MAX_UNCHANGED_EXCESS


def normalize_rows(probs: Array) -> Array:
    """Return probabilities whose rows sum to 1; return the same array if all sums are close to 1.

    >>> normalize_rows(np.array([[0.33, 0.33, 0.33]])).round(4).tolist()
    [[0.3333, 0.3333, 0.3333]]
    """
    sums: Floats = probs.sum(axis=1, dtype=np.float64)
    rows = np.flatnonzero(np.abs(sums - 1.0) > max_unchanged_excess(probs))
    if not rows.size:
        return probs
    result = probs.astype(np.result_type(probs.dtype, np.float32))
    result[rows] = result[rows] / sums[rows, None].astype(result.dtype)
    return result
