"""Columns of a data frame, as arrays.

Any frame that speaks the Arrow interface is read: pandas, polars, pyarrow. Scores are columns that
share a prefix (`prob_0`, `prob_1`, … or `prob_cat`, `prob_dog`), one column of lists, or, of two
classes, one column of numbers (`prob`): the score of the second class.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from oodometer.core.array_types import Array, Floats, ScoreType
from oodometer.core.errors import InputError, did_you_mean

# What is looked for when the user names no column: the list column, the prefix, the single number.
DEFAULT_SCORE_COLUMNS: dict[ScoreType, tuple[str, ...]] = {
    "probs": ("probs", "prob_", "prob"),
    "logits": ("logits", "logit_", "logit"),
}


@dataclass(frozen=True)
class ScoreMatrix:
    """A score array, what it holds, and the class names its columns spell."""

    values: Array
    score_type: ScoreType
    class_names: tuple[str, ...] | None


def as_table(frame: Any) -> Any:
    """An Arrow table of any frame that speaks the Arrow interface."""
    import pyarrow as pa

    if not isinstance(frame, pa.Table):
        if not hasattr(frame, "__arrow_c_stream__") and not hasattr(frame, "__arrow_c_array__"):
            raise InputError(
                f"{type(frame).__name__} is not a data frame that speaks the Arrow interface. "
                "Give a pandas, polars or pyarrow table, or use Predictions.from_probs on arrays."
            )
        try:
            frame = pa.table(frame)
        except (pa.ArrowException, ValueError, TypeError) as error:
            raise _conversion_error(frame, error) from error
    _check_unique_columns(frame.column_names)
    return frame


def _check_unique_columns(names: list[str]) -> None:
    twice = sorted(name for name, count in Counter(names).items() if count > 1)
    if twice:
        raise InputError(f"The column {twice[0]!r} stands twice in the table. Rename one of them.")


def _conversion_error(frame: Any, error: Exception) -> InputError:
    """What Arrow can't read of a pandas frame: a column that stands twice, or one of mixed types."""
    _check_unique_columns([str(name) for name in getattr(frame, "columns", ())])
    for name, column in frame.items() if hasattr(frame, "items") else ():
        plain = [isinstance(value, str | int | float) and value == value for value in column]
        known = [(row, value) for row, value in enumerate(column) if plain[row]]
        text = [isinstance(value, str) for _, value in known]
        if any(text) and not all(text):
            row, value = known[text.index(not text[0])]
            return InputError(
                f"The column {str(name)!r} holds both numbers and text: row {known[0][0]} is "
                f"{known[0][1]!r}, row {row} is {value!r}. Correct it, or leave the column out."
            )
    return InputError(f"The table can't be read: {str(error).splitlines()[0]}.")


def requested_score_columns(probs: str | None, logits: str | None) -> list[tuple[ScoreType, str]]:
    """The one form and name that the user gave, if any."""
    if probs is not None and logits is not None:
        raise InputError("Both probs and logits were named. Name the one to be used.")
    if probs is not None:
        return [("probs", probs)]
    return [] if logits is None else [("logits", logits)]


@dataclass(frozen=True)
class ScoreColumns:
    """Where scores are: what they hold, their columns in class order, the names those spell.

    A column that stands `is_single_column` holds whole rows, or the second of two classes.
    """

    score_type: ScoreType
    columns: tuple[str, ...]
    class_names: tuple[str, ...] | None
    is_single_column: bool


def extract_scores(
    table: Any, *, probs: str | None = None, logits: str | None = None
) -> ScoreMatrix:
    """The scores of a table: the columns named, or else the usual ones."""
    return read_scores(table, find_score_columns(table, probs=probs, logits=logits))


def find_score_columns(
    table: Any, *, probs: str | None = None, logits: str | None = None
) -> ScoreColumns:
    """Where the scores of a table are: in the columns named, or else in the usual ones."""
    named = requested_score_columns(probs, logits)
    wanted = named or [
        (form, name) for form, names in DEFAULT_SCORE_COLUMNS.items() for name in names
    ]
    found = [(form, name) for form, name in wanted if _has_score_column(table, name, bool(named))]
    if not found:
        raise InputError(_no_scores_message(table, named))
    if len({form for form, _ in found}) > 1:
        raise InputError(
            "The table has both probabilities and logits. Say which to use: --prob-columns or --logit-columns."
        )
    form, name = found[0]
    if name in table.column_names:
        return ScoreColumns(form, (name,), None, is_single_column=True)
    columns, class_names = _columns_in_class_order(table, name)
    return ScoreColumns(form, tuple(columns), class_names, is_single_column=False)


def read_scores(table: Any, score_columns: ScoreColumns, out: Array | None = None) -> ScoreMatrix:
    """The scores at some places.

    `out`, of a row a class, is where columns are laid side by side: who reads many tables, each
    of them once, so spares memory fresh from the system, which costs more than what is done in it.
    """
    name, form = score_columns.columns[0], score_columns.score_type
    if not score_columns.is_single_column:
        return ScoreMatrix(
            _read_score_columns(table, score_columns.columns, out), form, score_columns.class_names
        )
    single = _is_number(table.column(name).type)
    values = _read_binary_scores(table, name, form) if single else _read_list_column(table, name)
    return ScoreMatrix(values, form, None)


def _has_score_column(table: Any, name: str, is_requested: bool) -> bool:
    """Whether a column is called so or starts so; of the usual names, those that end in _ do."""
    may_start = is_requested or name.endswith("_")
    return name in table.column_names or (may_start and bool(_columns_with_prefix(table, name)))


def _columns_with_prefix(table: Any, prefix: str) -> list[str]:
    return [name for name in table.column_names if name.startswith(prefix) and name != prefix]


def _no_scores_message(table: Any, requested: list[tuple[ScoreType, str]]) -> str:
    there = ", ".join(table.column_names[:12]) or "none"
    if requested:
        return f"No column is called {requested[0][1]!r} or starts with it. There are: {there}."
    return (
        "No scores were found: columns prob_0, prob_1, … or logit_0, logit_1, …, or one list "
        "column probs or logits, or one column prob or logit of two classes, were expected. "
        f"There are: {there}. "
        "Name yours with --prob-columns or --logit-columns."
    )


def _columns_in_class_order(table: Any, prefix: str) -> tuple[list[str], tuple[str, ...] | None]:
    """Columns in class order: 0…k−1 by number, anything else as the table has them."""
    columns = _columns_with_prefix(table, prefix)
    suffixes = _strip_separator([name[len(prefix) :] for name in columns])
    if not all(suffix.isdecimal() for suffix in suffixes):
        return columns, tuple(suffixes)
    by_number: dict[int, str] = {}
    for number, name in zip(map(int, suffixes), columns, strict=True):
        if by_number.setdefault(number, name) != name:
            raise InputError(
                f"The columns {by_number[number]!r} and {name!r} are of one and the same class. "
                "Rename or drop one of them."
            )
    if sorted(by_number) == list(range(len(columns))):
        return [by_number[j] for j in range(len(columns))], None
    if min(by_number) == 0:
        gap = next(j for j in range(len(columns)) if j not in by_number)
        raise InputError(
            f"The column {prefix}{gap} is missing: there are {len(columns)} columns up to "
            f"{prefix}{max(by_number)}. Add it, or name classes by suffixes that are not numbers."
        )
    return [by_number[j] for j in sorted(by_number)], tuple(str(j) for j in sorted(by_number))


def _strip_separator(suffixes: list[str]) -> list[str]:
    """The class of `prob_3` is 3, whether `prob_` or `prob` was named."""
    shared = all(suffix[0] in "_.-" and len(suffix) > 1 for suffix in suffixes)
    return [suffix[1:] for suffix in suffixes] if shared else suffixes


def _read_score_columns(table: Any, columns: Sequence[str], out: Array | None) -> Array:
    """Number columns side by side; kept class by class in memory, which is how they are read."""
    dtype = np.result_type(*(_float_type(table.column(name).type) for name in columns))
    shape = len(columns), table.num_rows
    fits = out is not None and out.dtype == dtype and out.shape[1] >= shape[1]
    values = out[:, : shape[1]] if out is not None and fits else np.empty(shape, dtype=dtype)
    for j, name in enumerate(columns):
        values[j] = read_numbers(table, name)
    return values.T


def _float_type(arrow_type: Any) -> Any:
    import pyarrow as pa

    return np.float32 if arrow_type in (pa.float16(), pa.float32()) else np.float64


def _is_number(arrow_type: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_integer(arrow_type) or pa.types.is_floating(arrow_type))


def _read_binary_scores(table: Any, name: str, score_type: ScoreType) -> Array:
    """Both classes' scores from the second one's: 1 − p and p, or 0 and the logit."""
    second = read_numbers(table, name)
    pair = np.zeros((2, len(second)), dtype=np.result_type(second.dtype, np.float32))
    pair[1] = second
    if score_type == "probs":
        pair[0] = 1.0 - pair[1]
    return pair.T


def _read_list_column(table: Any, name: str) -> Array:
    import pyarrow as pa
    import pyarrow.compute

    column = table.column(name)
    if not (pa.types.is_list(column.type) or pa.types.is_fixed_size_list(column.type)
            or pa.types.is_large_list(column.type)):  # fmt: skip
        raise InputError(
            f"The column {name!r} holds {column.type}; a list of numbers in every row was "
            "expected. For one column a class, name their common prefix."
        )
    check_no_nulls(column, name)
    lengths = np.asarray(pa.compute.list_value_length(column))
    if lengths.size == 0:
        return np.empty((0, 0))
    odd = np.flatnonzero(lengths != lengths[0])
    if odd.size:
        raise InputError(
            f"The lists of column {name!r} differ in length: {lengths[0]} in row 0, "
            f"{lengths[odd[0]]} in row {odd[0]}. Every row needs one score a class."
        )
    flat = pa.compute.list_flatten(column)
    if flat.null_count:
        raise InputError(
            f"A list of column {name!r} has an empty place in row {_first_null(flat) // lengths[0]}."
        )
    if not _is_number(flat.type):
        raise InputError(f"The lists of column {name!r} hold {flat.type}; numbers were expected.")
    return _to_numpy(flat, name).reshape(lengths.size, int(lengths[0]))


def read_numbers(table: Any, name: str) -> Array:
    """A column of numbers; text or an empty place is an error that names the row."""
    column = _numeric_column(table, name)
    check_no_nulls(column, name)
    return _to_numpy(column, name)


def read_nullable_floats(table: Any, name: str) -> Floats:
    """A column of numbers as float64, NaN where it is empty; text is an error."""
    column = _numeric_column(table, name).cast("float64")
    return np.array(_to_numpy(column, name), dtype=np.float64)


def _numeric_column(table: Any, name: str) -> Any:
    import pyarrow as pa

    column = table.column(name)
    if pa.types.is_decimal(column.type):
        column = column.cast(pa.float64())
    kind = column.type
    if not (_is_number(kind) or pa.types.is_null(kind)):
        row, value = _first_text(column)
        raise InputError(
            f"The column {name!r} holds {kind}, not numbers: row {row} is {value!r}. "
            "Correct it, or name other columns."
        )
    return column


def read_texts(table: Any, name: str) -> list[str]:
    """A column as text, whatever it holds; an empty place is an error that names the row."""
    column = table.column(name)
    check_no_nulls(column, name)
    found = [str(cell) for cell in column.to_pylist()]
    if "" in found:
        raise InputError(f"The column {name!r} has no value in row {found.index('')}.")
    return found


def drop_pandas_index(table: Any) -> Any:
    """The table without the row names that pandas writes as columns of their own."""
    written = (table.schema.metadata or {}).get(b"pandas")
    index = json.loads(written).get("index_columns", []) if written else []
    names = [name for name in index if isinstance(name, str) and name in table.column_names]
    return table.drop_columns(names).replace_schema_metadata(None)


def read_column(table: Any, name: str) -> Array:
    """A column as it is: numbers, text, dates."""
    import pyarrow as pa

    if name not in table.column_names:
        there = ", ".join(table.column_names[:12])
        hint = did_you_mean(name, table.column_names)
        raise InputError(f"No column is called {name!r}.{hint} There are: {there}.")
    column = table.column(name)
    check_no_nulls(column, name)
    if pa.types.is_dictionary(column.type):
        return np.asarray(column.to_numpy())
    return _to_numpy(column, name)


def _to_numpy(column: Any, name: str) -> Array:
    import pyarrow as pa

    try:
        joined = column
        if isinstance(column, pa.ChunkedArray):  # one chunk is not copied
            one = column.num_chunks == 1
            joined = column.chunk(0) if one else column.combine_chunks()
        if isinstance(joined, pa.ChunkedArray):
            joined = pa.concat_arrays(joined.chunks)
        if _is_number(joined.type) and not joined.null_count:
            return np.from_dlpack(joined)  # to_numpy would import pandas, which takes a while
        return np.asarray(joined.to_numpy(zero_copy_only=False))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, TypeError) as error:
        raise InputError(f"The column {name!r} can't be read: {error}") from error


def check_no_nulls(column: Any, name: str) -> None:
    """Refuse a column with an empty place."""
    if column.null_count:
        raise InputError(f"The column {name!r} has no value in row {_first_null(column)}.")


def _first_null(column: Any) -> int:
    return int(np.flatnonzero(np.asarray(column.is_null()))[0])


def _first_text(column: Any) -> tuple[int, str]:
    for row, value in enumerate(column.to_pylist()):
        try:
            float(value)
        except (TypeError, ValueError):
            return row, str(value)
    return 0, str(column[0].as_py())
