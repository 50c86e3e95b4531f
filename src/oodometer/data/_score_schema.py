"""What is taken of the columns of many files: scores, labels, and what segments are made of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from oodometer.core import frames
from oodometer.core.errors import InputError, did_you_mean
from oodometer.core.frames import ScoreColumns
from oodometer.core.predictions import Predictions
from oodometer.core.softmax_kernels import Array
from oodometer.data._partitions import FilePartition
from oodometer.data.batch_reader import BatchReadSpec, read_batches, read_schema
from oodometer.data.prediction_files import PredictionColumns, file_extension

# A batch of rows is at most this large, were its scores of eight bytes, and this long.
MAX_BATCH_BYTES, MAX_BATCH_ROWS = 1 << 25, 1 << 18


@dataclass(frozen=True)
class ScoreSchema:
    """Which columns hold what, alike in all files; `class_order` is that of the source's classes."""

    score_columns: ScoreColumns
    class_names: tuple[str, ...] | None
    label_column: str | None
    segment_by: str | None
    types: tuple[tuple[str, Any], ...]
    class_order: tuple[int, ...] | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """All that is read."""
        others = (name for name in (self.label_column, self.segment_by) if name is not None)
        return tuple(dict.fromkeys((*self.score_columns.columns, *others)))

    def reorder_classes(self, class_names: tuple[str, ...] | None) -> ScoreSchema:
        """The same with the classes in the order of these names, as `Predictions` has it."""
        own = self.class_names
        if class_names is None or own is None or class_names == own:
            return self
        order = tuple(own.index(name) for name in class_names)
        return replace(self, class_order=order, class_names=class_names)

    def scores(self, table: Any, out: Array | None = None) -> Array:
        """The scores of some rows; with `out`, in it where they are of many columns."""
        if self.class_order is None:
            return frames.read_scores(table, self.score_columns, out).values
        if self.score_columns.is_single_column:
            return frames.read_scores(table, self.score_columns).values[:, list(self.class_order)]
        columns = tuple(self.score_columns.columns[j] for j in self.class_order)
        return frames.read_scores(table, replace(self.score_columns, columns=columns), out).values

    def predictions(self, scores: Array, labels: Array | None = None) -> Predictions:
        """Rows of scores, by the usual door."""
        door = (
            Predictions.from_probs
            if self.score_columns.score_type == "probs"
            else Predictions.from_logits
        )
        return door(scores, labels=labels, class_names=self.class_names)


def infer_schema(
    files: Sequence[Path],
    columns: PredictionColumns,
    *,
    labelled: bool,
    segment_by: str | None = None,
) -> ScoreSchema:
    """What the first file has, after a look at all others: they must have the same."""
    first = _file_schema(files[0], columns, labelled, segment_by)
    for path in files[1:]:
        _check_same_schema(files[0], first, path, _file_schema(path, columns, labelled, segment_by))
    return first


def _file_schema(
    path: Path, columns: PredictionColumns, labelled: bool, segment_by: str | None
) -> ScoreSchema:
    schema = read_schema(path)
    with error_context(path):
        table = frames.as_table(schema.empty_table())
        label = columns.label_column or ("label" if "label" in table.column_names else None)
        if label is not None and label not in table.column_names and not labelled:
            label = None
        _check_columns_exist(table, [name for name in (label, segment_by) if name is not None])
        scored = table
        if not labelled:  # labels of the target are no scores, whatever they are called
            hidden = [
                name for name in table.column_names if name in ("label", columns.label_column)
            ]
            scored = table.drop_columns(hidden)
        places = frames.find_score_columns(
            scored, probs=columns.prob_columns, logits=columns.logit_columns
        )
        names = columns.class_names if columns.class_names is not None else places.class_names
        return ScoreSchema(
            places,
            names,
            label,
            segment_by,
            _column_types(path, table, places, (label, segment_by)),
        )


def _check_columns_exist(table: Any, names: Sequence[str]) -> None:
    for name in names:
        if name not in table.column_names:
            there, hint = ", ".join(table.column_names[:12]), did_you_mean(name, table.column_names)
            raise InputError(f"No column is called {name!r}.{hint} There are: {there}.")


def _column_types(
    path: Path, table: Any, score_columns: ScoreColumns, others: Sequence[str | None]
) -> tuple[tuple[str, Any], ...]:
    """What columns hold; of text, scores are numbers even where the first ones are whole."""
    import pyarrow as pa

    text = file_extension(path).startswith(".csv")
    found = {name: table.schema.field(name).type for name in others if name is not None}
    for name in score_columns.columns:
        found[name] = pa.float64() if text else table.schema.field(name).type
    return tuple(found.items())


def _check_same_schema(
    first_path: Path, first: ScoreSchema, path: Path, other: ScoreSchema
) -> None:
    """Refuse a file that has other columns than the first."""
    own, theirs = first.score_columns, other.score_columns
    lacking = sorted(set(own.columns) ^ set(theirs.columns))
    if (
        lacking
        or own.score_type != theirs.score_type
        or own.is_single_column != theirs.is_single_column
    ):
        what = f"the column {lacking[0]!r}" if lacking else "scores of another form"
        where = path if not lacking or lacking[0] in theirs.columns else first_path
        raise InputError(
            f"{path.name} and {first_path.name} have different columns: {what} is in {where.name} "
            "alone. All files must have the same."
        )
    known = dict(first.types)
    for name, kind in other.types:
        sorts = {_type_category(kind), _type_category(known.get(name, kind))}
        if len(sorts) > 1 and "blanks" not in sorts:
            raise InputError(
                f"The column {name!r} of {path.name} holds {kind}, that of {first_path.name} "
                f"{known[name]}. All files must have the same."
            )
    if (first.label_column is None) != (other.label_column is None):
        raise InputError(
            f"Of {path.name} and {first_path.name} one has labels and the other has none. All "
            "files must have the same columns."
        )


def _type_category(kind: Any) -> str:
    """Numbers are numbers, however wide; lists are lists."""
    from pyarrow import types

    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return "numbers"
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return "lists"
    if types.is_string(kind) or types.is_large_string(kind) or types.is_dictionary(kind):
        return "text"
    return "blanks" if types.is_null(kind) else str(kind)


def rows_per_batch(k: int) -> int:
    """How many rows of k classes are read at a time.

    >>> rows_per_batch(10), rows_per_batch(1000)
    (262144, 4194)
    """
    return max(min(MAX_BATCH_ROWS, MAX_BATCH_BYTES // (8 * k)), 64)


def read_tables(
    schema: ScoreSchema, partition: FilePartition, max_rows: int
) -> Iterator[tuple[int, Any]]:
    """Batches of a part as tables, each with how many rows of the part come before it."""
    import pyarrow as pa

    types: tuple[tuple[str, Any], ...] = ()
    if file_extension(partition.path).startswith(".csv"):
        # A column that begins with blanks may hold anything later on.
        kinds = ((n, pa.string() if pa.types.is_null(kind) else kind) for n, kind in schema.types)
        types = tuple(kinds)
    before = 0
    for batch in read_batches(
        partition.path, partition.row_groups, BatchReadSpec(schema.columns, max_rows, types)
    ):
        yield before, pa.Table.from_batches([batch])
        before += batch.num_rows


@contextmanager
def error_context(path: Path, first_row: int = 0) -> Iterator[None]:
    """Errors say which file they are of, and from where on its rows are counted."""
    try:
        yield
    except InputError as error:
        where = f" (rows counted from row {first_row} on)" if first_row else ""
        raise InputError(f"{path.name}{where}: {error}") from error


def read_labels(table: Any, name: str, index: Array | None = None) -> Array:
    """Labels as they are in the files: numbers or text."""
    column = table.column(name)
    values = column.to_pylist() if index is None else column.take(index).to_pylist()
    made = np.empty(len(values), dtype=object)
    made[:] = values
    return made
