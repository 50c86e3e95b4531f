"""Validation of the arrays that are passed to the constructors of `Predictions`.

Every message says what is wrong (with the row and the value), what was expected, and how to correct
it. Rounded probabilities are accepted: files often hold probabilities with two or three decimals,
which contain exact zeros and rows whose sum differs from 1 by more than floating-point error.
"""

from __future__ import annotations

import warnings
from typing import Any, NoReturn

import numpy as np

from oodometer.core import softmax_kernels
from oodometer.core.array_types import Array, Bools, Floats, Ints
from oodometer.core.errors import InputError, out_of_range, wrong_shape

# Largest accepted difference between the sum of a row of probabilities and 1, which is that of
# numbers with three significant digits. Sums of rounded probabilities may differ more, up to the
# second number; see `sum_tolerance`.
SUM_TOLERANCE = 5e-3
MAX_SUM_TOLERANCE = 0.5
# Rounding may leave a probability this far outside [0, 1].
RANGE_TOLERANCE = 1e-6
# With fewer rows than this, logits can look like probabilities by coincidence.
MIN_ROWS_TO_WARN = 10
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
FLOAT16_TOLERANCE = 2.5e-4
# A value of type float16 has at most this many decimals that rounding can be recognized by.
MAX_FLOAT16_DECIMALS = 3
# With fewer rows, probabilities do not count as rounded.
MIN_ROUNDED_ROWS = 10
RAW_SCORES_ADVICE = "For raw scores use logits: columns logit_… or --logit-columns; in Python, Predictions.from_logits."
# Number of rows that are examined first, because most arrays are not rounded.
PREVIEW_ROWS = 64


def _to_array(values: Any, argument: str) -> Array:
    """Return `values` as an array, unchanged if it is one; raise if rows differ in length."""
    try:
        return np.asarray(values)
    except ValueError as error:
        lengths = [len(row) if hasattr(row, "__len__") else 1 for row in values]
        odd = next((row for row, length in enumerate(lengths) if length != lengths[0]), None)
        detail = "" if odd is None else f"; row 0 has {lengths[0]}, row {odd} has {lengths[odd]}"
        raise InputError(
            f"{argument} must have the same number of values in every row{detail}."
        ) from error


def validate_score_matrix(values: Any, argument: str) -> Array:
    """Return `values` as an (n, k) array of numbers, without a copy if it is an array."""
    array = _to_array(values, argument)
    if array.dtype.kind not in "fiub":
        raise InputError(f"{argument} must be numbers; got an array of {array.dtype}.")
    if array.ndim != 2:
        raise wrong_shape(
            argument, "(n, k), one row per example and one column per class", array.shape
        )
    if array.shape[0] == 0:
        raise InputError(f"{argument} has no rows; expected at least one.")
    if array.shape[1] < 2:
        raise InputError(
            f"{argument} must have one column per class, at least two; got {array.shape[1]}. "
            "For a single probability p of the second class, pass the two columns 1 - p and p."
        )
    return array


def sum_tolerance(probs: Array) -> float:
    """Return the largest accepted difference between the sum of a row and 1.

    The rounding errors of k probabilities add up to at most k/2 rounding steps, and a little more
    because of floating-point errors.

    >>> sum_tolerance(np.array([[0.25, 0.25, 0.25, 0.24]] * 10)), sum_tolerance(np.eye(10))
    (0.020001, 0.005)
    """
    step = rounding_step(probs, min_rows=1)
    if step is None:
        return SUM_TOLERANCE
    # In few rows, the largest possible difference is more likely a mistake than rounding.
    margin = RANGE_TOLERANCE if len(probs) >= MIN_ROUNDED_ROWS else -RANGE_TOLERANCE
    rounding = float(probs.shape[1] / 2 * step) + margin
    if probs.dtype == np.float16:
        rounding += probs.shape[1] * FLOAT16_TOLERANCE
    return min(max(SUM_TOLERANCE, rounding), MAX_SUM_TOLERANCE)


def validate_probs(
    probs: Array, *, with_classes: bool, tolerance: float = SUM_TOLERANCE
) -> tuple[Floats, Ints | None, bool]:
    """Return the confidence and class of each row, and whether a row must be normalized.

    The values of a row must be in [0, 1] and sum to 1. Confidences and classes are computed in the
    same pass, because reading the array takes most of the time. Without `with_classes`, the classes
    are None. A sum may differ from 1 by `tolerance`, or by more if the values were rounded.
    """
    n, _ = probs.shape
    largest_excess = 0.0
    confidences: Floats = np.empty(n, dtype=softmax_kernels.confidence_dtype(probs))
    classes: Ints | None = np.empty(n, dtype=np.int32) if with_classes else None
    for rows, block, axis in softmax_kernels.block_copies(probs):
        with np.errstate(invalid="ignore", over="ignore"):
            if classes is None:
                highest = block.max(axis=axis)
            else:
                highest, classes[rows] = softmax_kernels.first_maximum(block, axis)
            excess = block.sum(axis=axis) - 1.0
            in_range = block.min() >= -RANGE_TOLERANCE and highest.max() <= 1.0 + RANGE_TOLERANCE
            block_excess = max(float(excess.max()), -float(excess.min()))
            if in_range and not block_excess <= tolerance:
                tolerance = max(tolerance, sum_tolerance(probs))
            if not (in_range and block_excess <= tolerance):
                _raise_invalid_probs(block if axis == 1 else block.T, excess, rows.start, tolerance)
        largest_excess = max(largest_excess, block_excess)
        confidences[rows] = highest
    return confidences, classes, largest_excess > max_unchanged_excess(probs)


def _is_outside_unit_interval(probs: Array) -> Bools:
    return np.asarray((probs < -RANGE_TOLERANCE) | (probs > 1.0 + RANGE_TOLERANCE))


def _raise_invalid_probs(block: Array, excess: Floats, start: int, tolerance: float) -> NoReturn:
    """Raise the error for the first invalid row of a block; `start` is the block's first row."""
    invalid = ~(np.abs(excess) <= tolerance) | _is_outside_unit_interval(block).any(axis=1)
    index = int(np.argmax(invalid))
    row = start + index
    probs = block[index]
    _check_finite(probs[None], "probs", row)
    outside = np.flatnonzero(_is_outside_unit_interval(probs))
    if len(outside) == 2 == len(probs) and abs(probs.sum() - 1) <= tolerance:
        # If a file has the score of the second class only, quote that value, not one minus it.
        outside = np.array([probs.argmax()])
    if outside.size and _are_percentages(block):
        raise InputError(
            f"probs must be between 0 and 1; row {row}, class {outside[0]} is "
            f"{probs[outside[0]]:.7g}: these look like percentages. Divide them by 100."
        )
    if outside.size:
        raise InputError(
            f"probs must be between 0 and 1; row {row}, class {outside[0]} is "
            f"{probs[outside[0]]:.7g}. {RAW_SCORES_ADVICE}"
        )
    raise InputError(
        f"probs must sum to 1 in every row; row {row} sums to {probs.sum():.4g}. {RAW_SCORES_ADVICE}"
    )


def _are_percentages(block: Array) -> bool:
    """Return whether all values are between 0 and 100, and most rows sum to about 100.

    If only the score p of the second of two classes was given, the first is 1 − p.
    """
    with np.errstate(invalid="ignore"):
        if block.shape[1] == 2 and np.allclose(block[:, 0], 1 - block[:, 1], atol=1e-3):
            block = np.stack([100 - block[:, 1], block[:, 1]], axis=1)
        sums = block.sum(axis=1, dtype=np.float64)
        in_range = (block >= 0) & (block <= 100 + 100 * RANGE_TOLERANCE)
    return bool(in_range.all() and np.mean(np.abs(sums - 100) < 5) > 0.5)


def check_finite_logits(logits: Array) -> None:
    """Raise if a value is not finite."""
    for rows in softmax_kernels.row_blocks(*logits.shape):
        _check_finite(logits[rows], "logits", rows.start)


def check_logits(logits: Array) -> None:
    """Raise if a value is not finite; warn if the values look like probabilities."""
    looks_like_probs = True
    for rows in softmax_kernels.row_blocks(*logits.shape):
        block = logits[rows]
        _check_finite(block, "logits", rows.start)
        if looks_like_probs:
            in_range = float(block.min()) >= 0.0 and float(block.max()) <= 1.0
            sums_to_1 = in_range and (abs(block.sum(axis=1) - 1.0) < SUM_TOLERANCE).all()
            looks_like_probs = bool(sums_to_1)
    if looks_like_probs and len(logits) >= MIN_ROWS_TO_WARN:
        warnings.warn(
            "These logits are all between 0 and 1 and sum to 1 in every row: they look like "
            "probabilities. If they are, use probs (Predictions.from_probs; for a model, "
            'outputs="probs").',
            stacklevel=3,
        )


def _check_finite(block: Array, argument: str, start: int, *, column_noun: str = "class") -> None:
    invalid = ~np.isfinite(block)
    if invalid.any():
        row, column = (int(i) for i in np.argwhere(invalid)[0])
        raise InputError(
            f"{argument} must be finite; row {start + row}, {column_noun} {column} is "
            f"{block[row, column]}. Remove or correct such rows."
        )


def validate_class_count(k: int) -> int:
    """Return `k`; raise if it is below 2."""
    if k < 2:
        raise out_of_range("k", k, low=2)
    return k


def validate_row_values(values: Any, n: int | None, argument: str) -> Array | None:
    """Return an array of one value per row; None if `values` is None."""
    if values is None:
        return None
    array = _to_array(values, argument)
    if array.ndim != 1:
        raise wrong_shape(argument, "(n,), one value per row", array.shape)
    if n is not None and len(array) != n:
        raise InputError(f"There are {n} rows but {len(array)} {argument}.")
    return array


def validate_bounded_values(
    values: Any, n: int | None, argument: str, *, bounds: tuple[float, float]
) -> Floats:
    """Return an array with one number per row; raise if a number is outside the bounds."""
    array = validate_row_values(values, n, argument)
    if array is None or not array.size or array.dtype.kind not in "fiub":
        raise InputError(f"{argument} must be numbers, one per row, at least one.")
    low, high = bounds
    with np.errstate(invalid="ignore"):
        in_range = (array >= low - SUM_TOLERANCE) & (array <= high + SUM_TOLERANCE)
    if not in_range.all():
        row = int(np.argmin(in_range))
        raise InputError(
            f"{argument} must be between {low:.4g} and {high:.4g}; row {row} is {array[row]}."
        )
    return array if array.dtype.kind == "f" else array.astype(np.float64)


def validate_flags(values: Any, n: int, argument: str) -> Bools:
    """Return an array with one boolean per row; 1 and 0 are accepted as True and False."""
    array = validate_bounded_values(values, n, argument, bounds=(0.0, 1.0))
    is_flag = np.isin(array, (0.0, 1.0))
    if not is_flag.all():
        row = int(np.argmin(is_flag))
        raise InputError(
            f"{argument} must be True or False in every row; row {row} is {array[row]}."
        )
    return array.astype(bool)


def validate_features(values: Any, n: int) -> Array | None:
    """Return an (n, d) array of finite numbers; None if `values` is None."""
    if values is None:
        return None
    array = _to_array(values, "features")
    if array.ndim != 2 or array.dtype.kind not in "fiu" or len(array) != n:
        raise InputError(
            f"features must be numbers of shape ({n}, d); got an array of {array.dtype} of shape "
            f"{array.shape}."
        )
    for rows in softmax_kernels.row_blocks(n, max(array.shape[1], 1)):
        _check_finite(array[rows], "features", rows.start, column_noun="column")
    return array


def check_same_class_count(k: int, other_k: int, name: str, other_name: str) -> None:
    """Raise unless two sets of predictions have the same number of classes."""
    if k != other_k:
        raise InputError(
            f"{name} has {k} classes, {other_name} has {other_k}. "
            "Both must be outputs for the same set of classes."
        )


def check_same_feature_count(source: Array, target: Array) -> None:
    """Raise unless source and target have the same number of features."""
    if source.shape[1] != target.shape[1]:
        raise InputError(
            f"The source has {source.shape[1]} features, the target {target.shape[1]}. "
            "Both must come from the same layer."
        )


def check_same_ids(ids: Array, other_ids: Array) -> None:
    """Raise unless the rows of two models have the same ids in the same order."""
    differ = np.flatnonzero(ids != other_ids)
    if differ.size:
        row = int(differ[0])
        raise InputError(
            f"The ids of the two models differ: row {row} is {ids[row : row + 1].tolist()[0]!r} "
            f"in one and {other_ids[row : row + 1].tolist()[0]!r} in the other. Sort both by id."
        )


# Rounded probabilities --------------------------------------------------------------------------


def rounding_step(probs: Array, *, min_rows: int = MIN_ROUNDED_ROWS) -> float | None:
    """Return 10⁻ᵈ if all values have at most d ≤ 4 decimals; None if they were not rounded.

    Values that are all 0 or 1 are decisions, not rounded probabilities, so the result is None. It
    is also None for fewer than `min_rows` rows, which can have few decimals by coincidence.

    >>> rounding_step(np.array([[0.25, 0.75], [0.5, 0.5]] * 5))
    0.01
    >>> rounding_step(np.array([[0.123456, 0.876544]] * 10)) is None
    True
    """
    if len(probs) < min_rows:
        return None
    is_half = probs.dtype == np.float16
    for decimals in range(1, (MAX_FLOAT16_DECIMALS if is_half else MAX_DECIMALS) + 1):
        if all(_has_decimals(rows, decimals) for rows in (probs[:PREVIEW_ROWS], probs)):
            is_binary = decimals == 1 and bool(np.isin(probs, (0, 1)).all())
            return None if is_binary else float(f"1e-{decimals}")
    return None


def _has_decimals(values: Array, decimals: int) -> bool:
    scaled = values.astype(np.float64) * 10**decimals
    by_size = {2: FLOAT16_TOLERANCE, 4: FLOAT32_TOLERANCE}
    is_float = values.dtype.kind == "f"
    tolerance = 10**decimals * (
        by_size.get(values.dtype.itemsize, FLOAT64_TOLERANCE) if is_float else FLOAT64_TOLERANCE
    )
    with np.errstate(invalid="ignore"):
        return bool((np.abs(scaled - np.rint(scaled)) <= tolerance).all())


def zero_replacement(probs: Array) -> float:
    """Return the value that replaces exact zeros: half the rounding step, else 1/(2n) for n rows.

    >>> zero_replacement(np.array([[0.0, 1.0], [0.25, 0.75]] * 5))
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
