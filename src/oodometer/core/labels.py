"""Encode labels (class names, or numbers in any form) as class numbers from 0 to k − 1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from oodometer.core.array_types import Array, Ints
from oodometer.core.errors import InputError
from oodometer.core.validation import validate_row_values

# Maximum number of class names that an error message lists.
MAX_LISTED_CLASSES = 8


def validate_class_names(class_names: Sequence[str] | None, k: int) -> tuple[str, ...] | None:
    """Return the class names as text; raise unless there are exactly `k` distinct names."""
    if class_names is None:
        return None
    names = tuple(str(name) for name in class_names)
    if len(names) != k:
        raise InputError(f"There are {k} classes but {len(names)} class names.")
    if len(set(names)) != k:
        repeated = next(name for name in names if names.count(name) > 1)
        raise InputError(
            f"The class name {repeated!r} occurs more than once; class names must be unique."
        )
    return names


def is_blank(value: object) -> bool:
    """Return whether a label is missing: None, NaN or blank text.

    >>> [is_blank(value) for value in (None, float("nan"), "", " ", 0, "cat")]
    [True, True, True, True, False, False]
    """
    return value is None or value != value or (isinstance(value, str) and not value.strip())


def normalize_labels(values: Any, n: int | None = None) -> Array | None:
    """Return the labels of a dataset as an array of numbers or text; None if there are none.

    The labels are not compared with class names, which may not be known yet. Raise if a label is
    missing or, if `n` is given, if the number of labels is not `n`.
    """
    if values is None:
        return None
    if isinstance(values, str):
        raise InputError(
            f"labels={values!r} is the name of a column, but this data has no columns. Pass one "
            "label per row."
        )
    labels = np.asarray(values)
    if n is not None and labels.shape != (n,):
        raise InputError(
            f"labels must have one value per row; got shape {labels.shape} for {n} rows. Pass {n} "
            "labels."
        )
    # NaN is not equal to itself.
    missing = np.asarray([label is None or label != label for label in labels.tolist()])
    if missing.any():
        raise InputError(
            f"labels has no value in row {int(np.argmax(missing))}. Label every row, or leave "
            "labels out if some are not known."
        )
    if labels.dtype == object and all(isinstance(label, str) for label in labels):
        return labels.astype(np.str_)
    return labels


def distinct_classes(*columns: Array) -> tuple[str, ...]:
    """Return the names of the classes that occur in columns of classes; numbers in their order.

    >>> distinct_classes(np.array([10, 2]), np.array([2.0, 3.0]))
    ('2', '3', '10')
    """
    arrays = [_to_integers_or_text(np.asarray(column), (), "classes") for column in columns]
    if all(array.dtype.kind in "iu" for array in arrays):
        return tuple(str(number) for number in np.unique(np.concatenate(arrays)))
    return tuple(sorted({str(name) for array in arrays for name in np.unique(array)}))


def encode_labels(
    values: Any,
    n: int,
    k: int,
    class_names: Sequence[str] | None,
    argument: str = "labels",
    *,
    numeric_text: bool = False,
) -> Ints | None:
    """Convert labels, which are class numbers or class names, to class numbers 0 to k-1.

    Parameters
    ----------
    values : array-like of shape (n,), or None
        Class numbers or class names. False and True mean the classes named false and true if these
        exist, otherwise the classes 0 and 1. If all class names are integers, numbers are
        interpreted as class names.
    n, k : int
        Number of rows and of classes.
    class_names : sequence of str, optional
        Names of the classes in their order.
    argument : str
        Word for the labels in error messages.
    numeric_text : bool
        Also accept class numbers that are written as text, such as "1".

    Returns
    -------
    array of int64 of shape (n,), or None
        None if `values` is None.

    Raises
    ------
    InputError
        If a label is missing or is not a class.

    Examples
    --------
    >>> encode_labels(["dog", "cat"], 2, 2, ("cat", "dog"))
    array([1, 0])
    >>> encode_labels(["1", "0"], 2, 2, ("cat", "dog"), numeric_text=True)
    array([1, 0])
    """
    array = validate_row_values(values, n, argument)
    if array is None:
        return None
    names = () if class_names is None else tuple(class_names)
    array = _to_integers_or_text(array, names, argument)
    if numeric_text and array.dtype.kind not in "iu":
        array, names = _numbers_from_text(array, names)
    if names and (array.dtype.kind not in "iu" or _are_integers(names)):
        return _encode_names(array, names, argument)
    if array.dtype.kind not in "iu":
        raise InputError(
            f"{argument} are text ({array[:1].tolist()[0]!r} in row 0) but the classes have no names. "
            "Pass class_names, or name the score columns after the classes (prob_cat, prob_dog); "
            "for a model, pass class_names=[…] (--class-names)."
        )
    outside = (array < 0) | (array >= k)
    if outside.any():
        row = int(np.argmax(outside))
        raise InputError(f"{argument} must be between 0 and {k - 1}; row {row} is {array[row]}.")
    return array.astype(np.int64, copy=False)


def _to_integers_or_text(array: Array, class_names: tuple[str, ...], argument: str) -> Array:
    """Return labels of any type as integers or as text."""
    if array.dtype.kind == "O":
        for row, value in enumerate(array):
            if not isinstance(value, str | bytes | int | float | np.generic):
                raise _not_a_label(argument, row, repr(value))
        array = np.asarray(array.tolist())
    if array.dtype.kind == "b":
        by_lower_case = {name.lower(): name for name in class_names}
        if set(by_lower_case) == {"true", "false"}:
            return np.where(array, by_lower_case["true"], by_lower_case["false"])
        return array.astype(np.int64)
    if array.dtype.kind != "f":
        return array
    wide = array.astype(np.float64)
    integral = (np.abs(wide) < 2.0**53) & (np.floor(wide) == wide)
    if not integral.all():
        row = int(np.argmin(integral))
        raise _not_a_label(argument, row, str(array[row]))
    return wide.astype(np.int64)


def _not_a_label(argument: str, row: int, value: str) -> InputError:
    return InputError(f"{argument} must be class numbers or class names; row {row} is {value}.")


def _numbers_from_text(array: Array, class_names: tuple[str, ...]) -> tuple[Array, tuple[str, ...]]:
    """Convert labels of digits to integers, and drop the class names if no label is a name."""
    distinct = [str(label).strip() for label in np.unique(array)]
    if not distinct or not all(map(str.isdecimal, distinct)):
        return array, class_names
    if any(label in class_names for label in distinct):
        return np.char.strip(array.astype(str)), class_names
    are_names = any(str(int(label)) in class_names for label in distinct)
    return array.astype(np.int64), class_names if are_names else ()


def _are_integers(class_names: tuple[str, ...]) -> bool:
    return all(name.lstrip("-").isdecimal() for name in class_names)


def _encode_names(array: Array, class_names: tuple[str, ...], argument: str) -> Ints:
    distinct, inverse = np.unique(array.astype(str), return_inverse=True)
    number_of = {name: number for number, name in enumerate(class_names)}
    codes = np.array([number_of.get(str(name), -1) for name in distinct], dtype=np.int64)[inverse]
    unknown = np.flatnonzero(codes < 0)
    if unknown.size:
        row = int(unknown[0])
        listed = ", ".join(class_names[:MAX_LISTED_CLASSES])
        more = ", …" if len(class_names) > MAX_LISTED_CLASSES else ""
        raise InputError(
            f"{argument} has {str(distinct[inverse[row]])!r} in row {row}, which is not a class. "
            f"Classes: {listed}{more}."
        )
    return codes
