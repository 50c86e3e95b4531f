"""Labels of some target rows from a table, such as the file of a labeling plan."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from oodometer.core.array_types import Array, Ints
from oodometer.core.errors import InputError
from oodometer.core.labels import is_blank
from oodometer.core.predictions import Predictions
from oodometer.data.prediction_files import PredictionColumns, ScoreFile


def is_label_table(target_labels: Any) -> bool:
    """Return whether labels are a path or a data frame, and not one value per row.

    >>> is_label_table("to_label.csv"), is_label_table(["cat", None])
    (True, False)
    """
    if isinstance(target_labels, str | Path):
        return True
    has_columns = hasattr(target_labels, "columns") or hasattr(target_labels, "column_names")
    return has_columns and hasattr(target_labels, "__arrow_c_stream__")


def open_target_labels(target_labels: Any, target: Predictions) -> Any:
    """Return the labels of a path or a data frame, one per target row; others unchanged."""
    if not is_label_table(target_labels):
        return target_labels
    if isinstance(target_labels, str | Path):
        return read_target_labels(ScoreFile.open(target_labels), target)
    return read_target_labels(ScoreFile.from_frame(target_labels, "target_labels"), target)


def read_target_labels(
    table: ScoreFile, target: Predictions, *, label_column: str | None = None
) -> list[Any]:
    """Return one label per target row; the label is None for rows without a label.

    The table has the column `row`, counted from 0, or `id`, which is compared with the ids of the
    target, and a column `label`, or the label column that the user named. Rows of the table with a
    blank label are ignored.
    """
    name, names = table.path.name, table.column_names
    if label_column not in names:
        label_column = None
    labels = table.partial_labels(PredictionColumns(label_column))
    if labels is None:
        raise InputError(f"{name}: no row has a label. Fill in the column label.")
    if "row" in names:
        rows = _rows_by_number(table, target)
    elif "id" in names:
        rows = _rows_by_id(table, target)
    else:
        raise InputError(
            f"{name} has neither a column row nor a column id, so it is not known to which "
            f"target rows its labels belong. Columns: {', '.join(names)}. Add the column row, "
            "counted from 0, or start from the file of oodometer plan --output."
        )
    _check_unique(rows, name)
    target_labels: list[Any] = [None] * target.n
    for row, label in zip(rows.tolist(), labels, strict=True):
        target_labels[row] = None if is_blank(label) else label
    return target_labels


def missing_label_notes(target_labels: Any, label_column: str | None = None) -> tuple[str, ...]:
    """Return a note if some rows of a table of labels have none; empty for other inputs."""
    if not is_label_table(target_labels):
        return ()
    is_path = isinstance(target_labels, str | Path)
    table = (
        ScoreFile.open(target_labels)
        if is_path
        else ScoreFile.from_frame(target_labels, "target_labels")
    )
    known = label_column if label_column in table.column_names else None
    labels = table.partial_labels(PredictionColumns(known)) or []
    n_blank = sum(is_blank(label) for label in labels)
    if not n_blank:
        return ()
    verb = "has" if n_blank == 1 else "have"
    return (
        f"{n_blank:,} of {len(labels):,} rows of the plan {verb} no label; the interval is valid if "
        "the labelled rows are a random sample, such as the first rows of the plan.",
    )


def _rows_by_number(table: ScoreFile, target: Predictions) -> Ints:
    name = table.path.name
    rows = table.column("row")
    if rows.dtype.kind == "f" and (rows == np.floor(rows)).all():  # as some spreadsheets write them
        rows = rows.astype(np.int64)
    if rows.dtype.kind not in "iu":
        raise InputError(f"{name}: the column row must be whole numbers, counted from 0.")
    outside = rows[(rows < 0) | (rows >= target.n)]
    if len(outside):
        raise InputError(
            f"{name}: there is no row {outside[0]}; the target has rows 0 to {target.n - 1}."
        )
    if "id" in table.column_names and target.ids is not None:
        _check_ids(table.column("id"), target.ids[rows], rows, name)
    return np.asarray(rows)


def _check_ids(ids: Array, target_ids: Array, rows: Ints, name: str) -> None:
    """Raise if the ids of the labels are not those of the target rows."""
    differ = np.flatnonzero(ids.astype(str) != target_ids.astype(str))
    if differ.size:
        first = int(differ[0])
        raise InputError(
            f"{name}: row {rows[first]} has the id {str(ids[first])!r}, in the target it is "
            f"{str(target_ids[first])!r}. The target was changed or sorted after the rows were "
            "selected. Use the same file, or remove the column row to compare ids only."
        )


def _rows_by_id(table: ScoreFile, target: Predictions) -> Ints:
    name = table.path.name
    if target.ids is None:
        raise InputError(
            f"{name} identifies rows by id, but the target has no column id. Add the column to the "
            "target, or number the rows in a column row, counted from 0."
        )
    positions = {str(value): row for row, value in enumerate(target.ids.tolist())}
    if len(positions) < target.n:
        raise InputError("The ids of the target are not unique. Use the column row instead.")
    ids = [str(value) for value in table.column("id").tolist()]
    unknown = [value for value in ids if value not in positions]
    if unknown:
        raise InputError(f"{name}: no target row has the id {unknown[0]!r}.")
    return np.array([positions[value] for value in ids])


def _check_unique(rows: Ints, name: str) -> None:
    values, counts = np.unique(rows, return_counts=True)
    if len(values) < len(rows):
        raise InputError(f"{name}: row {values[counts > 1][0]} is listed more than once.")
