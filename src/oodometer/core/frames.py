"""Find the columns of scores and labels in a data frame, and read them as arrays.

Every frame with the Arrow interface is accepted, such as those of pandas, polars and pyarrow.
Scores are in one of three forms: one column per class with a common prefix (`prob_0`, `prob_1`, …
or `prob_cat`, `prob_dog`), one column of lists, or, with two classes, one column of numbers
(`prob`) that holds the score of the second class. A file without scores may have a column `pred`
of predicted classes.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from oodometer.core.array_types import Array, Floats, ScoreType
from oodometer.core.errors import InputError, did_you_mean, format_error, unknown_column
from oodometer.core.labels import is_blank

# Names to search for if the user names no column. For each type of scores, these are the name of a
# column of lists, the prefix of one column per class, and the name of a single column of numbers.
DEFAULT_SCORE_COLUMNS: dict[ScoreType, tuple[str, ...]] = {
    "probs": ("probs", "prob_", "prob"),
    "logits": ("logits", "logit_", "logit"),
}
DEFAULT_LABEL_COLUMN = "label"
DEFAULT_PRED_COLUMN = "pred"
# Parts of names of columns with scores or classes, their content and the argument for them.
SCORE_NAME_PARTS = (
    ("prob", "probabilities", "prob_columns"),
    ("logit", "logits", "logit_columns"),
    ("softmax", "probabilities", "prob_columns"),
    ("pred", "predicted classes", "pred_column"),
)
# How to name score columns; the command line shows the names of its options instead.
NAME_SCORES_ADVICE = (
    "prob_columns='…' or logit_columns='…' (in Python, for estimate: columns={'prob_columns': '…'})"
)
# Maximum number of columns that an error message lists.
MAX_LISTED_COLUMNS = 12


# Tables -----------------------------------------------------------------------------------------


def as_table(frame: Any) -> Any:
    """Return a pyarrow table of a frame with the Arrow interface."""
    import pyarrow as pa

    if not isinstance(frame, pa.Table):
        if not hasattr(frame, "__arrow_c_stream__") and not hasattr(frame, "__arrow_c_array__"):
            raise InputError(
                f"{type(frame).__name__} is not a data frame with the Arrow interface. "
                "Pass a pandas, polars or pyarrow table, or use Predictions.from_probs for arrays."
            )
        try:
            frame = pa.table(frame)
        except (pa.ArrowException, ValueError, TypeError) as error:
            raise _conversion_error(frame, error) from error
    _check_unique_columns(frame.column_names)
    return frame


def _check_unique_columns(names: list[str]) -> None:
    repeated = sorted(name for name, count in Counter(names).items() if count > 1)
    if repeated:
        raise InputError(
            f"The table has more than one column {repeated[0]!r}. Rename or remove one of them."
        )


def _conversion_error(frame: Any, error: Exception) -> InputError:
    """Return the error for a frame that Arrow cannot read, with a column of mixed types if any."""
    _check_unique_columns([str(name) for name in getattr(frame, "columns", ())])
    for name, column in frame.items() if hasattr(frame, "items") else ():
        known = [
            (row, value)
            for row, value in enumerate(column)
            if isinstance(value, str | int | float) and value == value
        ]
        is_text = [isinstance(value, str) for _, value in known]
        if any(is_text) and not all(is_text):
            row, value = known[is_text.index(not is_text[0])]
            return InputError(
                f"The column {str(name)!r} holds both numbers and text: row {known[0][0]} is "
                f"{known[0][1]!r}, row {row} is {value!r}. Correct it or remove the column."
            )
    return InputError(f"The table cannot be read: {format_error(error, first_line=True)}.")


def drop_pandas_index(table: Any) -> Any:
    """Return the table without the index that pandas stores as columns."""
    metadata = (table.schema.metadata or {}).get(b"pandas")
    index = json.loads(metadata).get("index_columns", []) if metadata else []
    names = [name for name in index if isinstance(name, str) and name in table.column_names]
    return table.drop_columns(names).replace_schema_metadata(None)


def type_category(arrow_type: Any) -> str:
    """Return "number", "decimal", "text", "boolean", "list" or "null", or else the Arrow type name.

    Examples
    --------
    >>> import pyarrow as pa
    >>> type_category(pa.int8()), type_category(pa.large_string()), type_category(pa.date32())
    ('number', 'text', 'date32[day]')
    """
    from pyarrow import types

    if types.is_integer(arrow_type) or types.is_floating(arrow_type):
        return "number"
    if any(
        is_text(arrow_type)
        for is_text in (types.is_string, types.is_large_string, types.is_string_view)
    ):
        return "text"
    if any(
        is_list(arrow_type)
        for is_list in (types.is_list, types.is_large_list, types.is_fixed_size_list)
    ):
        return "list"
    if types.is_decimal(arrow_type):
        return "decimal"
    if types.is_boolean(arrow_type):
        return "boolean"
    return "null" if types.is_null(arrow_type) else str(arrow_type)


def value_type(arrow_type: Any) -> Any:
    """Return the value type of a dictionary-encoded column; return any other type unchanged."""
    from pyarrow import types

    return arrow_type.value_type if types.is_dictionary(arrow_type) else arrow_type


# Finding columns --------------------------------------------------------------------------------


@dataclass(frozen=True)
class ScoreColumns:
    """Names of the score columns of a table.

    `columns` are in the order of the classes, and `class_names` are the suffixes of the column
    names. If `is_single_column`, the only column holds lists of scores, or the scores of the second
    of two classes.
    """

    score_type: ScoreType
    columns: tuple[str, ...]
    class_names: tuple[str, ...] | None
    is_single_column: bool


def find_prediction_columns(
    table: Any,
    *,
    label_column: str | None = None,
    prob_columns: str | None = None,
    logit_columns: str | None = None,
    labelled: bool = True,
) -> tuple[ScoreColumns, str | None]:
    """Return the score columns, and the name of the label column if there is one.

    If `labelled` is true, a label column that the user named must exist. If `labelled` is false,
    labels are optional, and the label column is never used as a score column, even if its name
    begins with the prefix of the scores.
    """
    scored = table
    if not labelled:
        labels = {DEFAULT_LABEL_COLUMN, label_column}
        scored = table.drop_columns([name for name in table.column_names if name in labels])
    scores = find_score_columns(scored, probs=prob_columns, logits=logit_columns)
    return scores, find_label_column(table, label_column, labelled=labelled)


def find_label_column(table: Any, label_column: str | None, *, labelled: bool) -> str | None:
    """Return the label column, or None; if `labelled`, a column that the user named must exist."""
    label = label_column or DEFAULT_LABEL_COLUMN
    if label in table.column_names:
        return label
    if label_column is not None and labelled:
        raise unknown_column(label_column, table.column_names)
    return None


def find_pred_column(table: Any, pred_column: str | None) -> str | None:
    """Return the column of decisions that the user named, or else `pred` if it exists."""
    if pred_column is None:
        return DEFAULT_PRED_COLUMN if DEFAULT_PRED_COLUMN in table.column_names else None
    if pred_column not in table.column_names:
        raise unknown_column(pred_column, table.column_names)
    return pred_column


def requested_score_columns(probs: str | None, logits: str | None) -> list[tuple[ScoreType, str]]:
    """Return a list with the score type and the column or prefix that the user named, if any."""
    if probs is not None and logits is not None:
        raise InputError("Both probs and logits are named. Name only one of them.")
    if probs is not None:
        return [("probs", probs)]
    return [] if logits is None else [("logits", logits)]


def find_score_columns(
    table: Any, *, probs: str | None = None, logits: str | None = None
) -> ScoreColumns:
    """Return the score columns that the user named, or else those with default names."""
    requested = requested_score_columns(probs, logits)
    matches = _matching_score_columns(table, requested)
    if not matches:
        raise InputError(_no_scores_message(table, requested))
    if len({score_type for score_type, _ in matches}) > 1:
        raise InputError(
            f"The table has both probabilities and logits. Choose with {NAME_SCORES_ADVICE}."
        )
    score_type, name = matches[0]
    if name in table.column_names:
        return ScoreColumns(score_type, (name,), None, is_single_column=True)
    columns, class_names = _columns_in_class_order(table, name)
    return ScoreColumns(score_type, tuple(columns), class_names, is_single_column=False)


def _matching_score_columns(
    table: Any, requested: list[tuple[ScoreType, str]]
) -> list[tuple[ScoreType, str]]:
    """Return the score types and the names or prefixes of the score columns that exist."""
    candidates = requested or [
        (score_type, name) for score_type, names in DEFAULT_SCORE_COLUMNS.items() for name in names
    ]
    # A default name is a prefix only if it ends in _; a name given by the user can always be one.
    return [
        (score_type, name)
        for score_type, name in candidates
        if name in table.column_names
        or ((requested or name.endswith("_")) and _columns_with_prefix(table, name))
    ]


def has_classes_only(
    table: Any, *, probs: str | None, logits: str | None, pred_column: str | None
) -> bool:
    """Return whether a table has predicted classes but no scores; False if scores were named."""
    if probs is not None or logits is not None:
        return False
    return (pred_column or DEFAULT_PRED_COLUMN) in table.column_names and not (
        _matching_score_columns(table, [])
    )


def _columns_with_prefix(table: Any, prefix: str) -> list[str]:
    return [name for name in table.column_names if name.startswith(prefix) and name != prefix]


def _no_scores_message(table: Any, requested: list[tuple[ScoreType, str]]) -> str:
    names = table.column_names
    more = ["…"] if len(names) > MAX_LISTED_COLUMNS else []
    columns = ", ".join([*names[:MAX_LISTED_COLUMNS], *more]) or "none"
    end = "" if more else "."
    hint = _score_column_hint(table.column_names)
    if hint and not requested:
        return f"There are no columns of scores with default names. {hint}"
    if requested:
        name = requested[0][1]
        return (
            f"There is no column {name!r} or with that prefix.{did_you_mean(name, names)} "
            f"Columns: {columns}{end}"
        )
    return (
        "There are no scores: expected columns prob_0, prob_1, … or logit_0, logit_1, …, one list "
        "column probs or logits, for two classes one column prob or logit, or, if only the "
        "predicted classes are known, a column pred. "
        f"Columns: {columns}{end} Name yours with {NAME_SCORES_ADVICE}."
    )


def _score_column_hint(names: Sequence[str]) -> str:
    """Return which columns may hold scores or classes, by their names, and the argument for them.

    >>> _score_column_hint(["age", "p_logit"])
    "If 'p_logit' has logits, name it with logit_columns='p_logit' (in Python, for estimate: \
columns={'logit_columns': 'p_logit'})."
    """
    for part, content, argument in SCORE_NAME_PARTS:
        for name in names:
            if part in name.lower():
                return (
                    f"If {name!r} has {content}, name it with {argument}={name!r} (in Python, for "
                    f"estimate: columns={{{argument!r}: {name!r}}})."
                )
    return ""


def _columns_in_class_order(table: Any, prefix: str) -> tuple[list[str], tuple[str, ...] | None]:
    """Return columns and class names, sorted by number if the suffixes are 0 to k-1."""
    columns = _columns_with_prefix(table, prefix)
    suffixes = [name[len(prefix) :] for name in columns]
    if all(suffix[0] in "_.-" and len(suffix) > 1 for suffix in suffixes):
        # The class of prob_3 is 3, whether the prefix is given as `prob_` or `prob`.
        suffixes = [suffix[1:] for suffix in suffixes]
    if not all(suffix.isdecimal() for suffix in suffixes):
        return columns, tuple(suffixes)
    by_number: dict[int, str] = {}
    for number, name in zip(map(int, suffixes), columns, strict=True):
        if by_number.setdefault(number, name) != name:
            raise InputError(
                f"The columns {by_number[number]!r} and {name!r} belong to the same class. Rename "
                "or remove one of them."
            )
    if sorted(by_number) == list(range(len(columns))):
        return [by_number[number] for number in range(len(columns))], None
    if min(by_number) == 0:
        gap = next(number for number in range(len(columns)) if number not in by_number)
        raise InputError(
            f"The column {prefix}{gap} is missing: there are {len(columns)} columns up to "
            f"{prefix}{max(by_number)}. Add it, or use suffixes that are not numbers."
        )
    numbers = sorted(by_number)
    return [by_number[number] for number in numbers], tuple(map(str, numbers))


# Reading columns --------------------------------------------------------------------------------


def read_scores(table: Any, score_columns: ScoreColumns, out: Array | None = None) -> Array:
    """Return the (n, k) scores of a table.

    If there is one column per class, and `out` has the right type and the shape (k, at least n),
    the scores are copied into `out`. A caller that reads many batches can pass the same `out` each
    time, because allocating memory takes longer than copying.
    """
    if not score_columns.is_single_column:
        return _read_columns(table, score_columns.columns, out)
    name = score_columns.columns[0]
    if not table.num_rows:  # a column of a CSV file without rows has no type
        return np.empty((0, 2))
    if type_category(table.column(name).type) == "number":
        return _read_binary_scores(table, name, score_columns.score_type)
    return _read_list_column(table, name)


def _read_columns(table: Any, columns: Sequence[str], out: Array | None) -> Array:
    """Return an (n, k) array of columns in which the values of each class are contiguous."""
    import pyarrow as pa

    narrow = (pa.float16(), pa.float32())
    types = [table.column(name).type for name in columns]
    dtype = np.float32 if all(arrow_type in narrow for arrow_type in types) else np.float64
    n = table.num_rows
    if out is not None and out.dtype == dtype and out.shape[1] >= n:
        values = out[:, :n]
    else:
        values = np.empty((len(columns), n), dtype=dtype)
    for row, name in zip(values, columns, strict=True):
        row[:] = read_numbers(table, name)
    return values.T


def _read_binary_scores(table: Any, name: str, score_type: ScoreType) -> Array:
    """Return the scores of two classes, (1 - p, p) or (0, logit), from those of the second."""
    second = read_numbers(table, name)
    pair = np.zeros((2, len(second)), dtype=np.result_type(second.dtype, np.float32))
    pair[1] = second
    if score_type == "probs":
        pair[0] = 1.0 - pair[1]
    return pair.T


def _read_list_column(table: Any, name: str) -> Array:
    import pyarrow.compute as pc

    column = table.column(name)
    _check_percent_signs(column, name)
    if type_category(column.type) != "list":
        raise InputError(
            f"The column {name!r} holds {column.type}; expected a list of numbers in every row. "
            "For one column per class, name their common prefix."
        )
    check_no_nulls(column, name)
    lengths = np.asarray(pc.list_value_length(column))
    if lengths.size == 0:
        return np.empty((0, 0))
    k = int(lengths[0])
    differ = np.flatnonzero(lengths != k)
    if differ.size:
        raise InputError(
            f"The lists of column {name!r} differ in length: {k} in row 0, {lengths[differ[0]]} in "
            f"row {differ[0]}. Every row needs one score per class."
        )
    flat = pc.list_flatten(column)
    if flat.null_count:
        raise InputError(
            f"A list of column {name!r} has a missing value in row {_first_null(flat) // k}."
        )
    if type_category(flat.type) != "number":
        raise InputError(f"The lists of column {name!r} hold {flat.type}; expected numbers.")
    return _to_numpy(flat, name).reshape(lengths.size, k)


def read_numbers(table: Any, name: str) -> Array:
    """Return a column of numbers; raise an error that names the row if a value is not a number."""
    column = _numeric_column(table, name)
    check_no_nulls(column, name)
    return _to_numpy(column, name)


def read_nullable_floats(table: Any, name: str) -> Floats:
    """Return a column of numbers as float64, with NaN for missing values; raise if it is text."""
    column = _numeric_column(table, name).cast("float64")
    return np.array(_to_numpy(column, name), dtype=np.float64)


def _numeric_column(table: Any, name: str) -> Any:
    column = table.column(name)
    category = type_category(column.type)
    if category == "decimal":
        return column.cast("float64")
    if category not in ("number", "null"):
        _check_percent_signs(column, name)
        row, value = _first_non_number(column)
        raise InputError(
            f"The column {name!r} holds {column.type}, not numbers: row {row} is {value!r}. "
            "Correct it, or name other columns."
        )
    return column


def _check_percent_signs(column: Any, name: str) -> None:
    """Raise if a column is text and a value ends with a percent sign."""
    if type_category(value_type(column.type)) != "text":
        return
    for row, value in enumerate(column.to_pylist()):
        if value is not None and value.rstrip().endswith("%"):
            raise InputError(
                f"The column {name!r} is text with percent signs: row {row} is {value!r}; expected "
                "numbers from 0 to 1. Remove the percent signs and divide the numbers by 100."
            )


def _first_non_number(column: Any) -> tuple[int, str]:
    for row, value in enumerate(column.to_pylist()):
        try:
            float(value)
        except (TypeError, ValueError):
            return row, str(value)
    return 0, str(column[0].as_py())


def read_texts(table: Any, name: str) -> list[str]:
    """Return a column of any type as text; raise if a value is missing or empty."""
    column = table.column(name)
    check_no_nulls(column, name)
    texts = [str(cell) for cell in column.to_pylist()]
    if "" in texts:
        raise _missing_value(name, texts.index(""))
    return texts


def read_column(table: Any, name: str) -> Array:
    """Return a column as an array of its own type, such as numbers, text or dates."""
    import pyarrow as pa

    if name not in table.column_names:
        raise unknown_column(name, table.column_names)
    column = table.column(name)
    check_no_nulls(column, name)
    if pa.types.is_dictionary(column.type):
        return np.asarray(column.to_numpy())
    return _to_numpy(column, name)


def read_labels(table: Any, name: str) -> Array:
    """Return a column of labels; raise an error that counts the rows without a label."""
    column = table.column(name)
    has_distinct_values = type_category(value_type(column.type)) in ("number", "text", "null")
    if has_distinct_values and any(map(is_blank, column.unique().to_pylist())):
        missing = [is_blank(label) for label in column.to_pylist()]
        raise InputError(
            f"The column {name!r} has no label in {sum(missing):,} of {len(missing):,} rows, the "
            f"first of which is row {missing.index(True)}. Fill in these labels, or remove these "
            "rows."
        )
    return read_column(table, name)


def _to_numpy(column: Any, name: str) -> Array:
    import pyarrow as pa

    try:
        array = column
        if isinstance(array, pa.ChunkedArray):  # a single chunk is not copied
            array = array.chunk(0) if array.num_chunks == 1 else array.combine_chunks()
        if isinstance(array, pa.ChunkedArray):
            array = pa.concat_arrays(array.chunks)
        if type_category(array.type) == "number" and not array.null_count:
            return np.from_dlpack(array)  # to_numpy would import pandas, which is slow
        return np.asarray(array.to_numpy(zero_copy_only=False))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, TypeError) as error:
        raise InputError(f"The column {name!r} cannot be read: {error}") from error


def check_no_nulls(column: Any, name: str) -> None:
    """Raise an error that names the row if a value of the column is missing."""
    if column.null_count:
        raise _missing_value(name, _first_null(column))


def _missing_value(name: str, row: int) -> InputError:
    return InputError(f"The column {name!r} has no value in row {row}.")


def _first_null(column: Any) -> int:
    return int(np.flatnonzero(np.asarray(column.is_null()))[0])
