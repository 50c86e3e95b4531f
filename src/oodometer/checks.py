"""What is checked at the door of Predictions, and the words of refusal.

Every message says what is wrong (with the value), what would be right, and what to do.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from oodometer import arrays
from oodometer.arrays import Array, Floats, Ints
from oodometer.errors import InputError

SUM_TOLERANCE = 1e-3
# Rounding may leave a probability this far outside [0, 1].
RANGE_TOLERANCE = 1e-6


class Extras(NamedTuple):
    """What may come with scores."""

    labels: Any = None
    features: Any = None
    ids: Any = None
    class_names: Sequence[str] | None = None


def matrix(values: Any, what: str) -> Array:
    """An (n, k) array of numbers, not copied where it is one already."""
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise InputError(f"{what} must have as many scores in every row: {error}.") from error
    if array.dtype.kind not in "fiub":
        raise InputError(f"{what} must be numbers; got an array of {array.dtype}.")
    if array.ndim != 2:
        raise InputError(
            f"{what} must be a table of n rows and k classes; got an array of shape {array.shape}."
        )
    if array.shape[0] == 0:
        raise InputError(f"{what} has no rows; at least one was expected.")
    if array.shape[1] < 2:
        raise InputError(
            f"{what} has {array.shape[1]} column; a classifier has at least two classes. "
            "For a single probability p of the second class give the two columns 1 - p and p."
        )
    return array


def are_probs(probs: Array) -> None:
    """Every row in [0, 1] and of sum 1."""
    ones = np.ones(probs.shape[1], dtype=arrays.work_dtype(probs))
    for rows in arrays.blocks(*probs.shape):
        block = probs[rows].astype(ones.dtype, copy=False)
        with np.errstate(invalid="ignore", over="ignore"):
            sums = block @ ones
            good = np.abs(sums - 1.0) <= SUM_TOLERANCE
            inside = block.min() >= -RANGE_TOLERANCE and block.max() <= 1.0 + RANGE_TOLERANCE
        if good.all() and inside:
            continue
        _finite(block, "probs", rows.start)
        _in_range(block, rows.start)
        row = int(np.flatnonzero(~good)[0])
        raise InputError(
            f"probs must sum to 1 in every row; row {rows.start + row} sums to {sums[row]:.4g}. "
            "For raw scores use logits (Predictions.from_logits)."
        )


def _in_range(block: Array, start: int) -> None:
    outside = (block < -RANGE_TOLERANCE) | (block > 1.0 + RANGE_TOLERANCE)
    if outside.any():
        row, column = (int(i) for i in np.argwhere(outside)[0])
        raise InputError(
            f"probs must lie in [0, 1]; row {start + row}, class {column} is "
            f"{block[row, column]:.4g}. For raw scores use logits (Predictions.from_logits)."
        )


def are_logits(logits: Array) -> None:
    """Every value finite; a warning where they look like probabilities."""
    looks_like_probs = True
    for rows in arrays.blocks(*logits.shape):
        block = logits[rows]
        _finite(block, "logits", rows.start)
        if looks_like_probs:
            inside = float(block.min()) >= 0.0 and float(block.max()) <= 1.0
            looks_like_probs = inside and bool((abs(block.sum(axis=1) - 1.0) < SUM_TOLERANCE).all())
    if looks_like_probs and len(logits) >= 10:
        warnings.warn(
            "These logits all lie in [0, 1] and sum to 1 in every row: they look like "
            "probabilities. If they are, use probs (Predictions.from_probs).",
            stacklevel=4,
        )


def _finite(block: Array, what: str, start: int) -> None:
    bad = ~np.isfinite(block)
    if bad.any():
        row, column = (int(i) for i in np.argwhere(bad)[0])
        raise InputError(
            f"{what} must be finite; row {start + row}, class {column} is {block[row, column]}. "
            "Drop or mend such rows first."
        )


def names(given: Sequence[str] | None, k: int) -> tuple[str, ...] | None:
    """Class names, one a class, none twice."""
    if given is None:
        return None
    result = tuple(str(name) for name in given)
    if len(result) != k:
        raise InputError(f"There are {k} classes but {len(result)} class names.")
    if len(set(result)) != k:
        twice = next(name for name in result if result.count(name) > 1)
        raise InputError(f"The class name {twice!r} stands twice; every class needs its own.")
    return result


def per_row(values: Any, n: int | None, what: str) -> Array | None:
    """One value a row."""
    if values is None:
        return None
    array = np.asarray(values)
    if array.ndim != 1:
        raise InputError(f"{what} must have one value a row; got an array of shape {array.shape}.")
    if n is not None and len(array) != n:
        raise InputError(f"There are {n} rows but {len(array)} {what}.")
    return array


def signal(values: Any, n: int | None, what: str, *, bounds: tuple[float, float]) -> Floats:
    """One number a row within bounds."""
    array = per_row(values, n, what)
    if array is None or not array.size or array.dtype.kind not in "fiub":
        raise InputError(f"{what} must be numbers, one a row, at least one.")
    low, high = bounds
    with np.errstate(invalid="ignore"):
        good = (array >= low - 1e-4) & (array <= high + 1e-4)
    if not good.all():
        row = int(np.flatnonzero(~good)[0])
        raise InputError(f"{what} must lie in [{low:.4g}, {high:.4g}]; row {row} is {array[row]}.")
    return array if array.dtype.kind == "f" else array.astype(np.float64)


def features(values: Any, n: int) -> Array | None:
    """An (n, d) array of finite numbers."""
    if values is None:
        return None
    array = np.asarray(values)
    if array.ndim != 2 or array.dtype.kind not in "fiu" or len(array) != n:
        raise InputError(
            f"features must be numbers, {n} rows by d columns; got an array of {array.dtype} "
            f"of shape {array.shape}."
        )
    for rows in arrays.blocks(n, max(array.shape[1], 1)):
        _finite(array[rows], "features", rows.start)
    return array


def labels(
    values: Any, n: int, k: int, class_names: tuple[str, ...] | None, what: str = "labels"
) -> Ints | None:
    """Class numbers 0…k−1 of labels that are numbers or class names."""
    array = per_row(values, n, what)
    if array is None:
        return None
    if array.dtype.kind == "b":
        array = array.astype(np.int64)
    if array.dtype.kind == "f":
        array = _whole(array, what)
    if class_names is not None and (
        array.dtype.kind not in "iu" or _names_are_numbers(class_names)
    ):
        return _by_name(array, class_names, what)
    if array.dtype.kind not in "iu":
        raise InputError(
            f"{what} are text ({array[0]!r} in row 0) but the classes have no names. "
            "Give class_names, or name the score columns after the classes (prob_cat, prob_dog)."
        )
    outside = (array < 0) | (array >= k)
    if outside.any():
        row = int(np.flatnonzero(outside)[0])
        raise InputError(f"{what} must lie in 0…{k - 1}; row {row} is {array[row]}.")
    return array.astype(np.int64, copy=False)


def _whole(array: Array, what: str) -> Array:
    good = np.isfinite(array) & (np.floor(array) == array)
    if not good.all():
        row = int(np.flatnonzero(~good)[0])
        raise InputError(f"{what} must be class numbers or names; row {row} is {array[row]}.")
    return array.astype(np.int64)


def _names_are_numbers(class_names: tuple[str, ...]) -> bool:
    return all(name.lstrip("-").isdecimal() for name in class_names)


def _by_name(array: Array, class_names: tuple[str, ...], what: str) -> Ints:
    found, inverse = np.unique(array.astype(str), return_inverse=True)
    index = {name: j for j, name in enumerate(class_names)}
    for j, name in enumerate(found):
        if str(name) not in index:
            row = int(np.flatnonzero(inverse == j)[0])
            shown = ", ".join(class_names[:8]) + (", …" if len(class_names) > 8 else "")
            raise InputError(
                f"{what} has {str(name)!r} in row {row}, which is no class. Classes are: {shown}."
            )
    return np.array([index[str(name)] for name in found], dtype=np.int64)[inverse]


def same_classes(k: int, other: int, first: str, second: str) -> None:
    """Both sides have as many classes."""
    if k != other:
        raise InputError(
            f"{first} has {k} classes, {second} has {other}. "
            "Both must be outputs of one and the same set of classes."
        )


def same_ids(ids: Array, other: Array) -> None:
    """Both sides are of the same rows in the same order."""
    differ = np.flatnonzero(ids != other)
    if differ.size:
        row = int(differ[0])
        raise InputError(
            f"The ids of the two models differ: row {row} is {ids[row]} in one and {other[row]} "
            "in the other. Sort both by id."
        )
