"""Labels of monitored rows from a table, a mapping, or the label column of a batch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from oodometer.assessment.prediction_inputs import is_frame
from oodometer.core.errors import InputError
from oodometer.core.labels import is_blank
from oodometer.data.prediction_files import PredictionColumns, ScoreFile


@dataclass(frozen=True)
class RowLabel:
    """Label of a row, which is identified by its id or its number; `batch` is None if unknown."""

    batch: int | None
    row: str
    label: Any


def read_labels(labels: Any, columns: PredictionColumns) -> list[RowLabel]:
    """Return the labels of a mapping from row to label, or of a table with a column row or id.

    Rows with a blank label are left out. A column batch has the numbers of the batches.
    """
    if isinstance(labels, Mapping):
        return [RowLabel(None, row_key(row), label) for row, label in labels.items()]
    is_path = isinstance(labels, str | Path)
    if not is_path and not is_frame(labels):
        raise InputError(
            "labels must be the path of a table, a data frame or a mapping from row to label; got "
            f"{type(labels).__name__}."
        )
    table = ScoreFile.open(labels) if is_path else ScoreFile.from_frame(labels, "labels")
    values = table.partial_labels(columns)
    if values is None:
        raise InputError(f"{table.path.name}: no row has a label. Fill in the column label.")
    names = table.column_names
    key = next((name for name in ("row", "id") if name in names), None)
    rows = range(len(values)) if key is None else table.column(key).tolist()
    batches = table.column("batch").tolist() if "batch" in names else [None] * len(values)
    return [
        RowLabel(None if batch is None else int(batch), row_key(row), label)
        for batch, row, label in zip(batches, rows, values, strict=True)
        if not is_blank(label)
    ]


def row_key(row: Any) -> str:
    """Return the id or number of a row as text; whole numbers have no decimals.

    >>> row_key(3), row_key(3.0), row_key("x3")
    ('3', '3', 'x3')
    """
    return str(int(row)) if isinstance(row, float) and row.is_integer() else str(row)
