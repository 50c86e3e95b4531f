"""Images and vectors from arrays, and from `.npy` and `.npz` files."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from oodometer.arrays import Array, Bools, blocks
from oodometer.datasets.asked import Asked, Read, labels_of, plain_labels
from oodometer.datasets.texts import are_texts, read_texts
from oodometer.errors import InputError
from oodometer.files import Outputs
from oodometer.inputs import kind_of

# What the inputs and the labels of an `.npz` are called where the user does not say.
INPUTS = ("x", "images", "inputs", "texts")
LABELS = ("y", "labels", "label")


def read_array(array: Array, labels: Any) -> Read:
    """Images, vectors, or texts if the array holds strings; whole numbers become float vectors."""
    if array.dtype.kind in "UO":
        return read_list(array.tolist(), labels)
    if array.dtype.kind in "iub" and array.ndim == 2:
        array = array.astype(np.float64)
    kind = kind_of(array)
    if 0 in array.shape[1:]:
        raise InputError(
            f"Rows hold nothing: the array has the shape {array.shape}. Give a number or more a row."
        )
    bad = _not_finite(array) if kind == "vectors" else np.zeros(len(array), dtype=np.bool_)
    return Read(array, labels_of(labels, len(array)), bad, _first_not_finite(array, bad))


def read_list(rows: list[Any], labels: Any) -> Read:
    """Texts, pairs of texts, or rows of numbers."""
    if are_texts(rows):
        return read_texts(rows, labels)
    if not rows:
        return Read(rows, None, np.zeros(0, dtype=np.bool_))
    return read_array(_stacked(rows), labels)


def _stacked(rows: list[Any]) -> Array:
    """Rows of numbers as one array; they must all have one shape."""
    shapes = [np.shape(row) if not isinstance(row, str) else None for row in rows]
    odd = next((at for at, shape in enumerate(shapes) if shape != shapes[0]), None)
    if odd is not None:
        raise InputError(
            f"Rows must all have one shape; row 0 has {shapes[0]}, row {odd} has {shapes[odd]}. "
            "Give rows of one length, or a list of strings."
        )
    array = np.asarray(rows)
    if array.dtype.kind not in "fiub":
        raise InputError(
            f"A list of {type(rows[0]).__name__} is no dataset: row 0 is {rows[0]!r:.40}. "
            "Give strings, pairs of strings, or rows of numbers."
        )
    return array


def _not_finite(array: Array) -> Bools:
    """Rows with NaN or infinity, block by block, so that a mapped file stays on the disk."""
    bad = np.zeros(len(array), dtype=np.bool_)
    for rows in blocks(len(array), math.prod(array.shape[1:])):
        bad[rows] = ~np.isfinite(array[rows]).all(axis=tuple(range(1, array.ndim)))
    return bad


def _first_not_finite(array: Array, bad: Bools) -> str:
    if not bad.any():
        return ""
    row = int(np.argmax(bad))
    values = array[row].ravel()
    column = int(np.argmin(np.isfinite(values)))
    return f"row {row}, column {column} is {values[column]}; finite numbers were expected"


def read_npy(path: Path, asked: Asked) -> Read:
    """One array, mapped: rows are read from the disk when they are asked for."""
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, OSError, EOFError) as error:
        raise InputError(
            f"{path.name} can't be read as npy: {str(error).splitlines()[0].rstrip('.')}. Save a "
            "plain array with np.save; Python objects are not loaded, for that can run code."
        ) from error
    return read_array(array, asked.labels)


def read_npz(path: Path, asked: Asked) -> Read:
    """The inputs and the labels among named arrays."""
    arrays = Outputs.open(path).content
    labels = asked.labels
    if labels is None or isinstance(labels, str):
        labels = _labels(arrays, labels)
    return read_array(_inputs(arrays, asked.inputs), labels)


def _labels(arrays: dict[str, Array], name: str | None) -> Array | None:
    found = name if name is not None else next((key for key in LABELS if key in arrays), None)
    return None if found is None else plain_labels(_named(arrays, found, "labels"))


def _inputs(arrays: dict[str, Array], name: Any) -> Array:
    if name is not None:
        return _named(arrays, name, "inputs")
    usual = [key for key in INPUTS if key in arrays]
    possible = usual or [key for key, array in arrays.items() if _may_be_inputs(key, array)]
    if len(possible) != 1:
        raise InputError(
            f"One array of inputs was expected: {', '.join(INPUTS)}; {len(possible)} were found. "
            f"There are: {', '.join(arrays)}. Name it: inputs='…'."
        )
    return arrays[possible[0]]


def _may_be_inputs(key: str, array: Array) -> bool:
    return key not in LABELS and array.ndim >= 2


def _named(arrays: dict[str, Array], name: str, option: str) -> Array:
    if name not in arrays:
        raise InputError(
            f"No array is called {name!r}. There are: {', '.join(arrays)}. Name one: {option}='…'."
        )
    return arrays[name]
