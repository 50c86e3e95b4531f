"""Rows of a dataset from arrays, data frames, lists of texts, and their files."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from oodometer.core import frames
from oodometer.core.array_types import Array, Bools
from oodometer.core.errors import InputError, did_you_mean
from oodometer.core.inputs import infer_kind
from oodometer.core.softmax_kernels import row_blocks
from oodometer.data.options import (
    ColumnNames,
    DatasetOptions,
    RawRows,
    normalize_labels,
    validate_labels,
)
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
        labels = _labels_from_arrays(arrays, labels)
    return read_array(_find_inputs(arrays, options.inputs), labels)


def _labels_from_arrays(arrays: dict[str, Array], name: str | None) -> Array | None:
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


TextFields = tuple[str | None, ...]


def are_texts(rows: list[Any]) -> bool:
    """Whether the first row that holds anything holds a text, or two."""
    return _texts_per_row(rows) > 0


def read_texts(rows: list[Any], labels: Any) -> RawRows:
    """Texts, or pairs of texts; those that are missing or blank are bad rows."""
    width = _texts_per_row(rows)
    sides = [_row_texts(row, at, width) for at, row in enumerate(rows)]
    bad = np.array([not all(side and side.strip() for side in row) for row in sides], np.bool_)
    texts = [row[0] for row in sides] if width == 1 else sides
    first = int(np.argmax(bad)) if bad.any() else 0
    lacks = "no text" if None in sides[first] else "an empty text"
    return RawRows(texts, validate_labels(labels, len(rows)), bad, f"row {first} has {lacks}")


def _texts_per_row(rows: list[Any]) -> int:
    """1 of texts, 2 of pairs, 0 of anything else, by the first row that holds anything."""
    for row in rows:
        if isinstance(row, str):
            return 1
        if not _is_missing(row):
            return 2 if _may_be_pair(row) else 0
    return 0


def _row_texts(row: Any, row_number: int, width: int) -> TextFields:
    if _is_missing(row):
        return (None,) * width
    if width == 1 and isinstance(row, str):
        return (row,)
    if width == 2 and _may_be_pair(row):
        return tuple(side if isinstance(side, str) else None for side in row)
    what = "a text" if width == 1 else "a pair of texts"
    raise InputError(
        f"Row {row_number} is not {what}, as those before it are, but {type(row).__name__} {row!r:.40}. "
        "Give strings only, or pairs of strings only."
    )


def _may_be_pair(row: Any) -> bool:
    """Two texts, of which one may be missing."""
    if not (isinstance(row, tuple | list) and len(row) == 2):
        return False
    there = [side for side in row if not _is_missing(side)]
    return bool(there) and all(isinstance(side, str) for side in there)


def _is_missing(value: Any) -> bool:
    """None, or the not-a-number that stands for it in a data frame."""
    return value is None or (isinstance(value, float) and value != value)


PAIR_COLUMNS = ("premise", "hypothesis")


def read_frame(frame: Any, options: DatasetOptions) -> RawRows:
    """The text, the pair of texts or the table that a data frame holds, and its labels.

    Without `text` or `inputs`: the columns `premise` and `hypothesis`, or the column `text`, or
    the only column if that holds text; else all columns are a table. The label is no input.
    """
    table = frames.drop_pandas_index(frames.as_table(frame))
    label, labels = _labels_from_table(table, options.labels)
    there = [name for name in table.column_names if name != label]
    texts = (
        _resolve_columns(table, options.text)
        if options.text is not None
        else _default_text_columns(table, there)
    )
    if options.inputs is not None and options.text is None:
        texts, there = [], _resolve_columns(table, options.inputs)
    if not table.num_rows:  # columns without rows have no type either
        return RawRows([], None, np.zeros(0, dtype=np.bool_))
    return (
        _read_text_columns(table, texts, labels)
        if texts
        else _read_feature_table(table.select(there), labels)
    )


def _labels_from_table(table: Any, labels: Any) -> tuple[str | None, Array | None]:
    """The name of the label column, if there is one, and the labels."""
    usual = "label" if "label" in table.column_names else None
    if labels is not None and not isinstance(labels, str):
        return usual, validate_labels(labels, table.num_rows)
    name = labels if labels is not None else usual
    return name, None if name is None else normalize_labels(frames.read_column(table, name))


def _resolve_columns(table: Any, names: ColumnNames) -> list[str]:
    """Column names as they were given: one, several between commas, or a sequence."""
    if isinstance(names, str):
        known = names in table.column_names
        names = [names] if known else [name.strip() for name in names.split(",")]
    unknown = [name for name in names if name not in table.column_names]
    if unknown:
        there = ", ".join(table.column_names[:12])
        hint = did_you_mean(unknown[0], table.column_names)
        raise InputError(
            f"No column is called {unknown[0]!r}.{hint} There are: {there}. Name one of these."
        )
    return list(names)


def _default_text_columns(table: Any, input_columns: list[str]) -> list[str]:
    texts = [name for name in input_columns if _is_text(table.column(name).type)]
    if all(side in texts for side in PAIR_COLUMNS):
        return list(PAIR_COLUMNS)
    if "text" in texts:
        return ["text"]
    return texts if len(input_columns) == 1 else []


def _read_text_columns(table: Any, names: list[str], labels: Array | None) -> RawRows:
    if len(names) > 2:
        raise InputError(
            f"text names {len(names)} columns; one was expected, or two for pairs. There are: "
            f"{', '.join(names)}."
        )
    odd = next((name for name in names if not _is_text(table.column(name).type)), None)
    if odd is not None:
        raise InputError(
            f"The column {odd!r} holds {table.column(odd).type}, not text. Name a column of text: "
            "text='…'."
        )
    sides = [table.column(name).to_pylist() for name in names]
    rows = sides[0] if len(names) == 1 else list(zip(*sides, strict=True))
    return read_texts(rows, labels)


def _read_feature_table(table: Any, labels: Array | None) -> RawRows:
    """Numbers and categories; a row without one of its numbers is bad, a category may be missing."""
    if not table.num_columns:
        raise InputError("There is no column but the label. Give the inputs as columns too.")
    bad, why = np.zeros(table.num_rows, dtype=np.bool_), ""
    for at, name in enumerate(table.column_names):
        table = table.set_column(at, name, _check_column(table.column(name), name))
        missing = _missing_numbers(table.column(name))
        if missing.any() and (not why or np.argmax(missing) < np.argmax(bad)):
            row = int(np.argmax(missing))
            value = table.column(name)[row].as_py()
            why = f"the column {name!r} has {'nothing' if value is None else value} in row {row}"
        bad |= missing
    return RawRows(table.unify_dictionaries().combine_chunks(), labels, bad, why)


def _check_column(column: Any, name: str) -> Any:
    """A column of numbers or of categories; dates, lists and the like are refused."""
    import pyarrow as pa

    kind = column.type
    held = kind.value_type if pa.types.is_dictionary(kind) else kind
    if pa.types.is_decimal(kind):
        return column.cast(pa.float64())
    if pa.types.is_boolean(held) or _is_text(held) or _is_number(held):
        return column
    # Text of a CSV file that is not UTF-8 is read as bytes.
    cure = "Save text as UTF-8" if pa.types.is_binary(held) else "Turn it into numbers"
    raise InputError(
        f"The column {name!r} holds {kind}; numbers, text or true and false were expected. {cure}, "
        "or leave it out: inputs='…' names the columns to use."
    )


def _is_text(kind: Any) -> bool:
    import pyarrow as pa

    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    tests = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    return any(test(kind) for test in tests)


def _is_number(kind: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _missing_numbers(column: Any) -> Bools:
    """Where a column of numbers has none; categories may be missing."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not _is_number(column.type):
        return np.zeros(len(column), dtype=np.bool_)
    if pa.types.is_integer(column.type):
        return np.asarray(column.is_null())
    return np.asarray(pc.invert(pc.fill_null(pc.is_finite(column), False)))
