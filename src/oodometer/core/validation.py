"""What is checked at the door of Predictions, and the words of refusal.

Every message says what is wrong (with the value), what would be right, and what to do.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple, NoReturn

import numpy as np

from oodometer.core import softmax_kernels
from oodometer.core.array_types import Array, Bools, Floats, Ints
from oodometer.core.errors import InputError

SUM_TOLERANCE = 1e-3
# Rounding may leave a probability this far outside [0, 1].
RANGE_TOLERANCE = 1e-6


class PredictionExtras(NamedTuple):
    """What may come with scores."""

    labels: Any = None
    features: Any = None
    ids: Any = None
    class_names: Sequence[str] | None = None


def _to_array(values: Any, argument: str) -> Array:
    """An array, not copied where it is one already; rows of different lengths are none."""
    try:
        return np.asarray(values)
    except ValueError as error:
        lengths = [len(row) if hasattr(row, "__len__") else 1 for row in values]
        odd = next((row for row, length in enumerate(lengths) if length != lengths[0]), None)
        where = "" if odd is None else f"; row 0 has {lengths[0]}, row {odd} has {lengths[odd]}"
        raise InputError(f"{argument} must have as many values in every row{where}.") from error


def validate_score_matrix(values: Any, argument: str) -> Array:
    """An (n, k) array of numbers, not copied where it is one already."""
    array = _to_array(values, argument)
    if array.dtype.kind not in "fiub":
        raise InputError(f"{argument} must be numbers; got an array of {array.dtype}.")
    if array.ndim != 2:
        raise InputError(
            f"{argument} must be a table of n rows and k classes; got an array of shape {array.shape}."
        )
    if array.shape[0] == 0:
        raise InputError(f"{argument} has no rows; at least one was expected.")
    if array.shape[1] < 2:
        raise InputError(
            f"{argument} must have a column a class, at least two; got {array.shape[1]}. "
            "For a single probability p of the second class give the two columns 1 - p and p."
        )
    return array


def validate_probs(probs: Array, *, with_classes: bool) -> tuple[Floats, Ints | None]:
    """Every row in [0, 1] and of sum 1; gives the largest of each row, and its class if wanted.

    Those come with the check, for the pass over the rows costs more than what is done in it.
    """
    n, _ = probs.shape
    peaks: Floats = np.empty(n, dtype=softmax_kernels.confidence_dtype(probs))
    picks: Ints | None = np.empty(n, dtype=np.int32) if with_classes else None
    for rows, block, axis in softmax_kernels.block_copies(probs):
        with np.errstate(invalid="ignore", over="ignore"):
            if picks is None:
                best = block.max(axis=axis)
            else:
                best, picks[rows] = softmax_kernels.first_maximum(block, axis)
            off = block.sum(axis=axis) - 1.0
            inside = block.min() >= -RANGE_TOLERANCE and best.max() <= 1.0 + RANGE_TOLERANCE
            if not (inside and off.min() >= -SUM_TOLERANCE and off.max() <= SUM_TOLERANCE):
                _raise_invalid_probs(block if axis == 1 else block.T, off, rows.start)
        peaks[rows] = best
    return peaks, picks


def _out_of_range(probs: Array) -> Bools:
    return np.asarray((probs < -RANGE_TOLERANCE) | (probs > 1.0 + RANGE_TOLERANCE))


def _raise_invalid_probs(block: Array, off: Floats, start: int) -> NoReturn:
    """Say what is wrong with the first row that is."""
    wrong = ~(np.abs(off) <= SUM_TOLERANCE) | _out_of_range(block).any(axis=1)
    row = int(np.flatnonzero(wrong)[0])
    probs, row = block[row], start + row
    _check_finite(probs[None], "probs", row)
    outside = np.flatnonzero(_out_of_range(probs))
    if outside.size:
        raise InputError(
            f"probs must lie in [0, 1]; row {row}, class {outside[0]} is "
            f"{probs[outside[0]]:.7g}. For raw scores use logits (Predictions.from_logits)."
        )
    raise InputError(
        f"probs must sum to 1 in every row; row {row} sums to {probs.sum():.4g}. "
        "For raw scores use logits (Predictions.from_logits)."
    )


def check_finite_logits(logits: Array) -> None:
    """Every value finite."""
    for rows in softmax_kernels.row_blocks(*logits.shape):
        _check_finite(logits[rows], "logits", rows.start)


def check_logits(logits: Array) -> None:
    """Every value finite; a warning where they look like probabilities."""
    looks_like_probs = True
    for rows in softmax_kernels.row_blocks(*logits.shape):
        block = logits[rows]
        _check_finite(block, "logits", rows.start)
        if looks_like_probs:
            inside = float(block.min()) >= 0.0 and float(block.max()) <= 1.0
            looks_like_probs = inside and bool((abs(block.sum(axis=1) - 1.0) < SUM_TOLERANCE).all())
    if looks_like_probs and len(logits) >= 10:
        warnings.warn(
            "These logits all lie in [0, 1] and sum to 1 in every row: they look like "
            "probabilities. If they are, use probs (Predictions.from_probs; of a model, "
            'outputs="probs").',
            stacklevel=3,
        )


def _check_finite(block: Array, argument: str, start: int, *, unit: str = "class") -> None:
    bad = ~np.isfinite(block)
    if bad.any():
        row, column = (int(i) for i in np.argwhere(bad)[0])
        raise InputError(
            f"{argument} must be finite; row {start + row}, {unit} {column} is {block[row, column]}. "
            "Drop or mend such rows first."
        )


def validate_class_count(k: int) -> int:
    """At least two classes."""
    if k < 2:
        raise InputError(f"k must be at least 2; got {k}. A classifier has two classes or more.")
    return k


def validate_class_names(class_names: Sequence[str] | None, k: int) -> tuple[str, ...] | None:
    """Class names, one a class, none twice."""
    if class_names is None:
        return None
    result = tuple(str(name) for name in class_names)
    if len(result) != k:
        raise InputError(f"There are {k} classes but {len(result)} class names.")
    if len(set(result)) != k:
        twice = next(name for name in result if result.count(name) > 1)
        raise InputError(f"The class name {twice!r} stands twice; every class needs its own.")
    return result


def validate_row_values(values: Any, n: int | None, argument: str) -> Array | None:
    """One value a row."""
    if values is None:
        return None
    array = _to_array(values, argument)
    if array.ndim != 1:
        raise InputError(
            f"{argument} must have one value a row; got an array of shape {array.shape}."
        )
    if n is not None and len(array) != n:
        raise InputError(f"There are {n} rows but {len(array)} {argument}.")
    return array


def validate_bounded_values(
    values: Any, n: int | None, argument: str, *, bounds: tuple[float, float]
) -> Floats:
    """One number a row within bounds."""
    array = validate_row_values(values, n, argument)
    if array is None or not array.size or array.dtype.kind not in "fiub":
        raise InputError(f"{argument} must be numbers, one a row, at least one.")
    low, high = bounds
    with np.errstate(invalid="ignore"):
        good = (array >= low - SUM_TOLERANCE) & (array <= high + SUM_TOLERANCE)
    if not good.all():
        row = int(np.flatnonzero(~good)[0])
        raise InputError(
            f"{argument} must lie in [{low:.4g}, {high:.4g}]; row {row} is {array[row]}."
        )
    return array if array.dtype.kind == "f" else array.astype(np.float64)


def validate_flags(values: Any, n: int, argument: str) -> Bools:
    """True or False a row, or 1 and 0."""
    array = validate_bounded_values(values, n, argument, bounds=(0.0, 1.0))
    if not np.isin(array, (0.0, 1.0)).all():
        row = int(np.flatnonzero(~np.isin(array, (0.0, 1.0)))[0])
        raise InputError(
            f"{argument} must be True or False in every row; row {row} is {array[row]}."
        )
    return array.astype(bool)


def validate_features(values: Any, n: int) -> Array | None:
    """An (n, d) array of finite numbers."""
    if values is None:
        return None
    array = _to_array(values, "features")
    if array.ndim != 2 or array.dtype.kind not in "fiu" or len(array) != n:
        raise InputError(
            f"features must be numbers, {n} rows by d columns; got an array of {array.dtype} "
            f"of shape {array.shape}."
        )
    for rows in softmax_kernels.row_blocks(n, max(array.shape[1], 1)):
        _check_finite(array[rows], "features", rows.start, unit="column")
    return array


def encode_labels(
    values: Any, n: int, k: int, class_names: tuple[str, ...] | None, argument: str = "labels"
) -> Ints | None:
    """Class numbers 0…k−1 of labels that are numbers or class names."""
    array = validate_row_values(values, n, argument)
    if array is None:
        return None
    array = _to_integers_or_text(array, class_names, argument)
    if class_names is not None and (
        array.dtype.kind not in "iu" or _names_are_numbers(class_names)
    ):
        return _encode_class_names(array, class_names, argument)
    if array.dtype.kind not in "iu":
        raise InputError(
            f"{argument} are text ({array[:1].tolist()[0]!r} in row 0) but the classes have no names. "
            "Give class_names, or name the score columns after the classes (prob_cat, prob_dog); of a "
            "model, give class_names=[…] (--class-names)."
        )
    outside = (array < 0) | (array >= k)
    if outside.any():
        row = int(np.flatnonzero(outside)[0])
        raise InputError(f"{argument} must lie in 0…{k - 1}; row {row} is {array[row]}.")
    return array.astype(np.int64, copy=False)


def _to_integers_or_text(array: Array, class_names: tuple[str, ...] | None, argument: str) -> Array:
    """Labels as whole numbers or as text."""
    if array.dtype.kind == "O":
        array = _unbox_objects(array, argument)
    if array.dtype.kind == "b":
        spelled = {name.lower(): name for name in class_names or ()}
        if set(spelled) == {"true", "false"}:
            return np.where(array, spelled["true"], spelled["false"])
        return array.astype(np.int64)
    return _to_integers(array, argument) if array.dtype.kind == "f" else array


def _unbox_objects(array: Array, argument: str) -> Array:
    """Python objects as plain numbers or text."""
    for row, value in enumerate(array):
        if not isinstance(value, str | bytes | int | float | np.generic):
            raise InputError(f"{argument} must be class numbers or names; row {row} is {value!r}.")
    return np.asarray(array.tolist())


def _to_integers(array: Array, argument: str) -> Array:
    wide = array.astype(np.float64)
    good = (np.abs(wide) < 2.0**53) & (np.floor(wide) == wide)
    if not good.all():
        row = int(np.flatnonzero(~good)[0])
        raise InputError(f"{argument} must be class numbers or names; row {row} is {array[row]}.")
    return wide.astype(np.int64)


def _names_are_numbers(class_names: tuple[str, ...]) -> bool:
    return all(name.lstrip("-").isdecimal() for name in class_names)


def _encode_class_names(array: Array, class_names: tuple[str, ...], argument: str) -> Ints:
    found, inverse = np.unique(array.astype(str), return_inverse=True)
    index = {name: j for j, name in enumerate(class_names)}
    numbers = np.array([index.get(str(name), -1) for name in found], dtype=np.int64)[inverse]
    unknown = np.flatnonzero(numbers < 0)
    if unknown.size:
        row, name = int(unknown[0]), str(found[inverse[unknown[0]]])
        shown = ", ".join(class_names[:8]) + (", …" if len(class_names) > 8 else "")
        raise InputError(
            f"{argument} has {name!r} in row {row}, which is no class. Classes are: {shown}."
        )
    return numbers


def check_same_class_count(k: int, other_k: int, name: str, other_name: str) -> None:
    """Both sides have as many classes."""
    if k != other_k:
        raise InputError(
            f"{name} has {k} classes, {other_name} has {other_k}. "
            "Both must be outputs of one and the same set of classes."
        )


def check_same_feature_count(source: Array, target: Array) -> None:
    """Both sides have as many features."""
    if source.shape[1] != target.shape[1]:
        raise InputError(
            f"The source has {source.shape[1]} features, the target {target.shape[1]}. "
            "Both must come from the same layer."
        )


def check_same_ids(ids: Array, other_ids: Array) -> None:
    """Both sides are of the same rows in the same order."""
    differ = np.flatnonzero(ids != other_ids)
    if differ.size:
        row = int(differ[0])
        raise InputError(
            f"The ids of the two models differ: row {row} is {ids[row : row + 1].tolist()[0]!r} "
            f"in one and {other_ids[row : row + 1].tolist()[0]!r} in the other. Sort both by id."
        )


def is_blank(value: object) -> bool:
    """Whether a label was left out: None, NaN or no text.

    >>> [is_blank(value) for value in (None, float("nan"), "", " ", 0, "cat")]
    [True, True, True, True, False, False]
    """
    return value is None or value != value or (isinstance(value, str) and not value.strip())
