"""Read the rows of a dataset from arrays, lists of texts and data frames, or from their files."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from oodometer.core import frames
from oodometer.core.array_types import Array, Bools
from oodometer.core.errors import InputError, format_error, unknown_column
from oodometer.core.inputs import infer_kind
from oodometer.core.labels import normalize_labels
from oodometer.core.softmax_kernels import row_blocks
from oodometer.data.float_images import check_range_is_stated, convert_images
from oodometer.data.options import ColumnNames, DatasetOptions, RawRows
from oodometer.data.prediction_files import ScoreFile, find_array

# Default names of the arrays of inputs and labels in an `.npz` file.
INPUT_ARRAY_NAMES = ("x", "images", "inputs", "texts")
LABEL_ARRAY_NAMES = ("y", "labels", "label")
# Default names of the columns of pairs of texts and of single texts.
PAIR_COLUMNS = ("premise", "hypothesis")
TEXT_COLUMN = "text"
# Number of rows that are examined to distinguish pixels from other numbers.
PIXEL_CHECK_ROWS = 256


# Arrays -----------------------------------------------------------------------------------------


def read_array(array: Array, labels: Any, options: DatasetOptions | None = None) -> RawRows:
    """Return the rows of an array of images, vectors or texts; convert integers to floats.

    The options say which range the pixels of images of floats have.
    """
    pixel_range = None if options is None else options.pixel_range
    if pixel_range is not None and options is not None:
        array = convert_images(array, pixel_range, options.channels)
    elif options is not None and options.channels is not None:
        raise InputError("channels needs pixel_range, the range of the pixels of the images.")
    else:
        check_range_is_stated(array)
    if array.dtype.kind in "UOS":
        return read_list(array.tolist(), labels)
    if array.dtype.kind in "iub" and array.ndim == 2:
        array = array.astype(np.float64)
    _check_pixels(array)
    kind = infer_kind(array)
    if 0 in array.shape[1:]:
        raise InputError(f"Rows are empty: the array has shape {array.shape}.")
    bad = np.zeros(len(array), dtype=np.bool_)
    problem = ""
    if kind == "vectors":
        bad = _find_nonfinite_rows(array)
    if bad.any():
        row = int(np.argmax(bad))
        values = array[row].ravel()
        column = int(np.argmin(np.isfinite(values)))
        problem = f"row {row}, column {column} is {values[column]}; expected finite numbers"
    return RawRows(array, normalize_labels(labels, len(array)), bad, problem)


def _check_pixels(array: Array) -> None:
    """Raise an error with advice if an array seems to hold images that are not uint8."""
    sample = array[:PIXEL_CHECK_ROWS] if array.ndim in (3, 4) else array[:0].ravel()
    if not sample.size:
        return
    advice = "" if array.dtype.kind == "f" else _integer_pixel_advice(sample)
    if advice:
        raise InputError(
            f"Images must be uint8 (n, height, width) or (n, height, width, 3); got {array.dtype} "
            f"of shape {array.shape}. {advice}"
        )


def _integer_pixel_advice(sample: Array) -> str:
    if sample.dtype == np.uint8:
        has_alpha = sample.ndim == 4 and sample.shape[3] == 4 and sample.shape[1] not in (1, 3)
        return "Remove the transparency channel: images[..., :3]." if has_alpha else ""
    if sample.dtype == np.bool_:
        return "Convert pixels to 0 and 255: images.astype(np.uint8) * 255."
    if sample.dtype == np.uint16 and sample.max() > 255:
        return "Convert 16 bits to 8: (images // 257).astype(np.uint8)."
    return "If pixels are 0…255: images.astype(np.uint8)." if sample.dtype.kind in "iu" else ""


def _find_nonfinite_rows(array: Array) -> Bools:
    """Return which rows hold NaN or infinity; read in blocks to save memory for mapped files."""
    bad = np.zeros(len(array), dtype=np.bool_)
    for rows in row_blocks(len(array), math.prod(array.shape[1:])):
        bad[rows] = ~np.isfinite(array[rows]).all(axis=tuple(range(1, array.ndim)))
    return bad


def read_npy(path: Path, options: DatasetOptions) -> RawRows:
    """Return the rows of a memory-mapped `.npy` file, which are read from disk when needed."""
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, OSError, EOFError) as error:
        raise InputError(
            f"{path.name} cannot be read as npy: {format_error(error, first_line=True)}. Save a "
            "plain array with np.save; Python objects are not loaded because that can run code."
        ) from error
    return read_array(array, options.labels, options)


def read_npz(path: Path, options: DatasetOptions) -> RawRows:
    """Return the array of inputs of an `.npz` file and, if there is one, the array of labels."""
    arrays = ScoreFile.open(path).content
    labels = options.labels
    if labels is None:
        labels = next((key for key in LABEL_ARRAY_NAMES if key in arrays), None)
    if isinstance(labels, str):
        labels = normalize_labels(find_array(arrays, labels, option="labels"))
    return read_array(_input_array(arrays, options.inputs), labels, options)


def _input_array(arrays: dict[str, Array], name: Any) -> Array:
    if name is not None:
        return find_array(arrays, name, option="inputs")
    candidates = [key for key in INPUT_ARRAY_NAMES if key in arrays] or [
        key for key, array in arrays.items() if key not in LABEL_ARRAY_NAMES and array.ndim >= 2
    ]
    if len(candidates) != 1:
        raise InputError(
            f"Expected one array of inputs ({', '.join(INPUT_ARRAY_NAMES)}); got "
            f"{len(candidates)}. Arrays: {', '.join(arrays) or 'none'}. Name it with inputs='…'."
        )
    return arrays[candidates[0]]


# Lists ------------------------------------------------------------------------------------------


def read_list(rows: list[Any], labels: Any, options: DatasetOptions | None = None) -> RawRows:
    """Return the rows of a list of texts, pairs of texts or sequences of numbers."""
    if _texts_per_row(rows):
        return read_texts(rows, labels)
    if not rows:
        return RawRows(rows, None, np.zeros(0, dtype=np.bool_))
    return read_array(_stack_rows(rows), labels, options)


def _stack_rows(rows: list[Any]) -> Array:
    """Return rows of numbers as one array; raise unless all rows have the same shape."""
    shapes = [np.shape(row) if not isinstance(row, str) else None for row in rows]
    odd = next((row for row, shape in enumerate(shapes) if shape != shapes[0]), None)
    if odd is not None:
        raise InputError(
            f"Rows must all have the same shape; row 0 has {shapes[0]}, row {odd} has {shapes[odd]}."
            " Pass rows of one length, or a list of strings; pass labels as labels=…."
        )
    if isinstance(rows[0], bytes):
        raise InputError(
            f"Rows must be text or numbers, not bytes; row 0 is {rows[0]!r:.40}. Decode them first: "
            "texts to strings, image files to arrays (or pass the folder of images)."
        )
    array = np.asarray(rows)
    if array.dtype.kind not in "fiub":
        raise InputError(
            f"A list of {type(rows[0]).__name__} is not a dataset: row 0 is {rows[0]!r:.40}. "
            "Pass strings, pairs of strings, or rows of numbers."
        )
    return array


def read_texts(rows: list[Any], labels: Any) -> RawRows:
    """Return texts or pairs of texts; mark rows with a missing or blank text as invalid."""
    width = _texts_per_row(rows)
    fields = [_row_texts(row, number, width) for number, row in enumerate(rows)]
    bad = np.array([not all(text and text.strip() for text in row) for row in fields], np.bool_)
    problem = ""
    if bad.any():
        first = int(np.argmax(bad))
        problem = f"row {first} has {'no text' if None in fields[first] else 'an empty text'}"
    inputs = [row[0] for row in fields] if width == 1 else fields
    return RawRows(inputs, normalize_labels(labels, len(rows)), bad, problem)


def _texts_per_row(rows: list[Any]) -> int:
    """Return 1 if the first row that is not missing is a text, 2 if it is a pair, otherwise 0."""
    for row in rows:
        if isinstance(row, str):
            return 1
        if not _is_missing(row):
            return 2 if _is_text_pair(row) else 0
    return 0


def _row_texts(row: Any, number: int, width: int) -> tuple[str | None, ...]:
    if _is_missing(row):
        return (None,) * width
    if width == 1 and isinstance(row, str):
        return (row,)
    if width == 2 and _is_text_pair(row):
        return tuple(text if isinstance(text, str) else None for text in row)
    expected = "a text" if width == 1 else "a pair of texts"
    raise InputError(
        f"Row {number} is not {expected} like the rows before it but {type(row).__name__} "
        f"{row!r:.40}. Pass strings only, or pairs of strings only."
    )


def _is_text_pair(row: Any) -> bool:
    """Return whether a row consists of two texts, of which one may be missing."""
    if not (isinstance(row, tuple | list) and len(row) == 2):
        return False
    known = [text for text in row if not _is_missing(text)]
    return bool(known) and all(isinstance(text, str) for text in known)


def _is_missing(value: Any) -> bool:
    """Return whether a value is missing, which is None or, in data frames, NaN."""
    return value is None or (isinstance(value, float) and value != value)


# Data frames ------------------------------------------------------------------------------------


def read_frame(frame: Any, options: DatasetOptions) -> RawRows:
    """Return the texts, pairs of texts or table rows of a data frame, and their labels.

    If the options name neither `text` nor `inputs`, the rows are read from the first of these that
    exists: the columns `premise` and `hypothesis`, the column `text`, or a single column of text.
    Otherwise, all columns except the label form a table.
    """
    table = frames.drop_pandas_index(frames.as_table(frame))
    label, labels = _read_labels(table, options.labels)
    columns = [name for name in table.column_names if name != label]
    if options.text is not None:
        text_columns = _resolve_columns(table, options.text)
    else:
        text_columns = _default_text_columns(table, columns)
        if options.inputs is not None:
            text_columns = []
            columns = _resolve_columns(table, options.inputs)
    if not table.num_rows:  # columns without rows have no type either
        return RawRows([], None, np.zeros(0, dtype=np.bool_))
    if text_columns:
        return _read_text_columns(table, text_columns, labels)
    return _read_feature_table(table.select(columns), labels)


def _read_labels(table: Any, labels: Any) -> tuple[str | None, Array | None]:
    """Return the name of the label column and the labels; each is None if it does not exist."""
    default = frames.DEFAULT_LABEL_COLUMN
    column = default if default in table.column_names else None
    if labels is not None and not isinstance(labels, str):
        return column, normalize_labels(labels, table.num_rows)
    column = column if labels is None else labels
    return column, None if column is None else normalize_labels(frames.read_column(table, column))


def _resolve_columns(table: Any, names: ColumnNames) -> list[str]:
    """Return a list of column names, given as one name, as names with commas or as a sequence."""
    if isinstance(names, str):
        is_column = names in table.column_names
        names = [names] if is_column else [name.strip() for name in names.split(",")]
    for name in names:
        if name not in table.column_names:
            raise unknown_column(name, table.column_names)
    return list(names)


def _default_text_columns(table: Any, columns: list[str]) -> list[str]:
    texts = [name for name in columns if _is_text(table.column(name).type)]
    if all(name in texts for name in PAIR_COLUMNS):
        return list(PAIR_COLUMNS)
    if TEXT_COLUMN in texts:
        return [TEXT_COLUMN]
    return texts if len(columns) == 1 else []


def _is_text(arrow_type: Any) -> bool:
    return frames.type_category(frames.value_type(arrow_type)) == "text"


def _read_text_columns(table: Any, names: list[str], labels: Array | None) -> RawRows:
    if len(names) > 2:
        raise InputError(
            f"text names {len(names)} columns ({', '.join(names)}); expected one, or two for pairs."
        )
    for name in names:
        if not _is_text(table.column(name).type):
            raise InputError(
                f"The column {name!r} holds {table.column(name).type}, not text. Name a column of "
                "text: text='…'."
            )
    columns = [table.column(name).to_pylist() for name in names]
    rows = columns[0] if len(names) == 1 else list(zip(*columns, strict=True))
    return read_texts(rows, labels)


def _read_feature_table(table: Any, labels: Array | None) -> RawRows:
    """Return a table of numbers and categories; mark rows with a missing number as invalid."""
    if not table.num_columns:
        raise InputError("There is no column but the label. Add the inputs as columns.")
    bad = np.zeros(table.num_rows, dtype=np.bool_)
    problem = ""
    for index, name in enumerate(table.column_names):
        column = _feature_column(table.column(name), name)
        table = table.set_column(index, name, column)
        missing = _missing_numbers(column)
        if missing.any() and (not problem or np.argmax(missing) < np.argmax(bad)):
            row = int(np.argmax(missing))
            value = column[row].as_py()
            problem = (
                f"the column {name!r} has {'no value' if value is None else value} in row {row}"
            )
        bad |= missing
    return RawRows(table.unify_dictionaries().combine_chunks(), labels, bad, problem)


def _feature_column(column: Any, name: str) -> Any:
    """Return a column of numbers or categories; raise for dates, lists and other types."""
    if frames.type_category(column.type) == "decimal":
        return column.cast("float64")
    category = frames.type_category(frames.value_type(column.type))
    if category in ("boolean", "text", "number"):
        return column
    # In a CSV file, text that is not UTF-8 is read as bytes.
    advice = "Save text as UTF-8" if category == "binary" else "Convert it to numbers"
    raise InputError(
        f"The column {name!r} holds {column.type}; expected numbers, text or booleans. {advice}, "
        "or leave it out: inputs='…' names the columns to use."
    )


def _missing_numbers(column: Any) -> Bools:
    """Return which rows lack a finite number; none do in a column of categories."""
    import pyarrow.compute as pc
    from pyarrow import types

    if frames.type_category(column.type) != "number":
        return np.zeros(len(column), dtype=np.bool_)
    if types.is_integer(column.type):
        return np.asarray(column.is_null())
    return np.asarray(pc.invert(pc.fill_null(pc.is_finite(column), False)))
