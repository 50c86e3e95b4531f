"""Images and vectors from arrays, and from `.npy` and `.npz` files."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from oodometer.core.errors import InputError
from oodometer.core.inputs import infer_kind
from oodometer.core.softmax_kernels import Array, Bools, row_blocks
from oodometer.data._text_rows import are_texts, read_texts
from oodometer.data.options import DatasetOptions, RawRows, normalize_labels, validate_labels
from oodometer.data.prediction_files import ScoreFile

# What the inputs and the labels of an `.npz` are called where the user does not say.
INPUT_ARRAY_NAMES = ("x", "images", "inputs", "texts")
LABEL_ARRAY_NAMES = ("y", "labels", "label")
# How many rows are looked at to tell pixels from other numbers.
PIXEL_CHECK_ROWS = 256


def read_array(array: Array, labels: Any) -> RawRows:
    """Images, vectors, or texts if the array holds strings; whole numbers become float vectors."""
    if array.dtype.kind in "UOS":
        return read_list(array.tolist(), labels)
    if array.dtype.kind in "iub" and array.ndim == 2:
        array = array.astype(np.float64)
    _reject_misencoded_images(array)
    kind = infer_kind(array)
    if 0 in array.shape[1:]:
        raise InputError(
            f"Rows hold nothing: the array has the shape {array.shape}. Give a number or more a row."
        )
    bad = _find_nonfinite_rows(array) if kind == "vectors" else np.zeros(len(array), dtype=np.bool_)
    return RawRows(
        array, validate_labels(labels, len(array)), bad, _describe_first_nonfinite(array, bad)
    )


def _reject_misencoded_images(array: Array) -> None:
    """Say how to make images of what nearly is a batch of them."""
    some = array[:PIXEL_CHECK_ROWS] if array.ndim in (3, 4) else array[:0].ravel()
    cure = (
        (_float_image_advice(some) if array.dtype.kind == "f" else _integer_image_advice(some))
        if some.size
        else ""
    )
    if cure:
        raise InputError(
            f"Images must be uint8 (n, height, width) or (n, height, width, 3); got {array.dtype} "
            f"of shape {array.shape}. {cure}"
        )


def _float_image_advice(sample: Array) -> str:
    """Colours last and 0…1 are images; floats of any other kind are taken for vectors."""
    colours = sample.ndim == 4 and sample.shape[3] in (1, 3)
    if not (colours and ((sample >= 0) & (sample <= 1)).all()):
        return ""
    return "Of pixels 0…1 make 0…255: (255 * images).round().astype(np.uint8)."


def _integer_image_advice(sample: Array) -> str:
    if sample.dtype == np.uint8:
        clear = sample.ndim == 4 and sample.shape[3] == 4 and sample.shape[1] not in (1, 3)
        return "Leave the transparency out: images[..., :3]." if clear else ""
    if sample.dtype == np.bool_:
        return "Make pixels 0 and 255: images.astype(np.uint8) * 255."
    if sample.dtype == np.uint16 and sample.max() > 255:
        return "Of 16 bits make 8: (images // 257).astype(np.uint8)."
    return "If the pixels are 0…255: images.astype(np.uint8)." if sample.dtype.kind in "iu" else ""


def read_list(rows: list[Any], labels: Any) -> RawRows:
    """Texts, pairs of texts, or rows of numbers."""
    if are_texts(rows):
        return read_texts(rows, labels)
    if not rows:
        return RawRows(rows, None, np.zeros(0, dtype=np.bool_))
    return read_array(_stack_rows(rows), labels)


def _stack_rows(rows: list[Any]) -> Array:
    """Rows of numbers as one array; they must all have one shape."""
    shapes = [np.shape(row) if not isinstance(row, str) else None for row in rows]
    odd = next((at for at, shape in enumerate(shapes) if shape != shapes[0]), None)
    if odd is not None:
        raise InputError(
            f"Rows must all have one shape; row 0 has {shapes[0]}, row {odd} has {shapes[odd]}. "
            "Give rows of one length, or a list of strings; labels are given as labels=…."
        )
    if isinstance(rows[0], bytes):
        raise InputError(
            f"Rows must be text or numbers, not bytes; row 0 is {rows[0]!r:.40}. Decode them first: "
            "texts to strings, image files to arrays (or give the folder that they are in)."
        )
    array = np.asarray(rows)
    if array.dtype.kind not in "fiub":
        raise InputError(
            f"A list of {type(rows[0]).__name__} is no dataset: row 0 is {rows[0]!r:.40}. "
            "Give strings, pairs of strings, or rows of numbers."
        )
    return array


def _find_nonfinite_rows(array: Array) -> Bools:
    """Rows with NaN or infinity, block by block, so that a mapped file stays on the disk."""
    bad = np.zeros(len(array), dtype=np.bool_)
    for rows in row_blocks(len(array), math.prod(array.shape[1:])):
        bad[rows] = ~np.isfinite(array[rows]).all(axis=tuple(range(1, array.ndim)))
    return bad


def _describe_first_nonfinite(array: Array, bad: Bools) -> str:
    if not bad.any():
        return ""
    row = int(np.argmax(bad))
    values = array[row].ravel()
    column = int(np.argmin(np.isfinite(values)))
    return f"row {row}, column {column} is {values[column]}; finite numbers were expected"


def read_npy(path: Path, options: DatasetOptions) -> RawRows:
    """One array, mapped: rows are read from the disk when they are asked for."""
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, OSError, EOFError) as error:
        raise InputError(
            f"{path.name} can't be read as npy: {str(error).splitlines()[0].rstrip('.')}. Save a "
            "plain array with np.save; Python objects are not loaded, for that can run code."
        ) from error
    return read_array(array, options.labels)


def read_npz(path: Path, options: DatasetOptions) -> RawRows:
    """The inputs and the labels among named arrays."""
    arrays = ScoreFile.open(path).content
    labels = options.labels
    if labels is None or isinstance(labels, str):
        labels = _find_labels(arrays, labels)
    return read_array(_find_inputs(arrays, options.inputs), labels)


def _find_labels(arrays: dict[str, Array], name: str | None) -> Array | None:
    found = (
        name
        if name is not None
        else next((key for key in LABEL_ARRAY_NAMES if key in arrays), None)
    )
    return None if found is None else normalize_labels(_get_array(arrays, found, "labels"))


def _find_inputs(arrays: dict[str, Array], name: Any) -> Array:
    if name is not None:
        return _get_array(arrays, name, "inputs")
    usual = [key for key in INPUT_ARRAY_NAMES if key in arrays]
    possible = usual or [key for key, array in arrays.items() if _may_be_inputs(key, array)]
    if len(possible) != 1:
        raise InputError(
            f"One array of inputs was expected: {', '.join(INPUT_ARRAY_NAMES)}; {len(possible)} were found. "
            f"There are: {', '.join(arrays) or 'none'}. Call it x, or name it: inputs='…'."
        )
    return arrays[possible[0]]


def _may_be_inputs(key: str, array: Array) -> bool:
    return key not in LABEL_ARRAY_NAMES and array.ndim >= 2


def _get_array(arrays: dict[str, Array], name: str, option: str) -> Array:
    if name not in arrays:
        raise InputError(
            f"No array is called {name!r}. There are: {', '.join(arrays)}. Name one: {option}='…'."
        )
    return arrays[name]
