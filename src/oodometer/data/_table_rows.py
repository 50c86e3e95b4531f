"""Texts, pairs and tables from the columns of data frames and of CSV, Parquet and Arrow files."""

from __future__ import annotations

from typing import Any

import numpy as np

from oodometer.core import frames
from oodometer.core.errors import InputError, did_you_mean
from oodometer.core.softmax_kernels import Array, Bools
from oodometer.data._text_rows import read_texts
from oodometer.data.options import (
    ColumnNames,
    DatasetOptions,
    RawRows,
    normalize_labels,
    validate_labels,
)

PAIR_COLUMNS = ("premise", "hypothesis")


def read_frame(frame: Any, options: DatasetOptions) -> RawRows:
    """The text, the pair of texts or the table that a data frame holds, and its labels.

    Without `text` or `inputs`: the columns `premise` and `hypothesis`, or the column `text`, or
    the only column if that holds text; else all columns are a table. The label is no input.
    """
    table = frames.drop_pandas_index(frames.as_table(frame))
    label, labels = _find_labels(table, options.labels)
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


def _find_labels(table: Any, labels: Any) -> tuple[str | None, Array | None]:
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
        missing = _find_nonfinite_rows(table.column(name))
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


def _find_nonfinite_rows(column: Any) -> Bools:
    """Where a column of numbers has none; categories may be missing."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not _is_number(column.type):
        return np.zeros(len(column), dtype=np.bool_)
    if pa.types.is_integer(column.type):
        return np.asarray(column.is_null())
    return np.asarray(pc.invert(pc.fill_null(pc.is_finite(column), False)))
