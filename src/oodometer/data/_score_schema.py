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
from oodometer.core.frames import Places
from oodometer.core.predictions import Predictions
from oodometer.core.softmax_kernels import Array
from oodometer.data._partitions import Part
from oodometer.data.batch_reader import Wanted, batches, schema_of
from oodometer.data.prediction_files import Columns, ending_of

# A batch of rows is at most this large, were its scores of eight bytes, and this long.
BATCH_BYTES, BATCH_ROWS = 1 << 25, 1 << 18


@dataclass(frozen=True)
class Taken:
    """Which columns hold what, alike in all files; `order` is that of the source's classes."""

    places: Places
    class_names: tuple[str, ...] | None
    label: str | None
    by: str | None
    types: tuple[tuple[str, Any], ...]
    order: tuple[int, ...] | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """All that is read."""
        others = (name for name in (self.label, self.by) if name is not None)
        return tuple(dict.fromkeys((*self.places.columns, *others)))

    def in_order(self, names: tuple[str, ...] | None) -> Taken:
        """The same with the classes in the order of these names, as `Predictions` has it."""
        own = self.class_names
        if names is None or own is None or names == own:
            return self
        order = tuple(own.index(name) for name in names)
        return replace(self, order=order, class_names=names)

    def scores(self, table: Any, room: Array | None = None) -> Array:
        """The scores of some rows; with `room`, in it where they are of many columns."""
        if self.order is None:
            return frames.scores_at(table, self.places, room).values
        if self.places.alone:
            return frames.scores_at(table, self.places).values[:, list(self.order)]
        columns = tuple(self.places.columns[j] for j in self.order)
        return frames.scores_at(table, replace(self.places, columns=columns), room).values

    def predictions(self, scores: Array, labels: Array | None = None) -> Predictions:
        """Rows of scores, by the usual door."""
        door = Predictions.from_probs if self.places.form == "probs" else Predictions.from_logits
        return door(scores, labels=labels, class_names=self.class_names)


def take_from(
    files: Sequence[Path], columns: Columns, *, labelled: bool, by: str | None = None
) -> Taken:
    """What the first file has, after a look at all others: they must have the same."""
    first = _found(files[0], columns, labelled, by)
    for path in files[1:]:
        _alike(files[0], first, path, _found(path, columns, labelled, by))
    return first


def _found(path: Path, columns: Columns, labelled: bool, by: str | None) -> Taken:
    schema = schema_of(path)
    with said_of(path):
        table = frames.as_table(schema.empty_table())
        label = columns.labels or ("label" if "label" in table.column_names else None)
        if label is not None and label not in table.column_names and not labelled:
            label = None
        _are_there(table, [name for name in (label, by) if name is not None])
        scored = table
        if not labelled:  # labels of the target are no scores, whatever they are called
            hidden = [name for name in table.column_names if name in ("label", columns.labels)]
            scored = table.drop_columns(hidden)
        places = frames.places_of(scored, probs=columns.probs, logits=columns.logits)
        names = columns.classes if columns.classes is not None else places.class_names
        return Taken(places, names, label, by, _types(path, table, places, (label, by)))


def _are_there(table: Any, names: Sequence[str]) -> None:
    for name in names:
        if name not in table.column_names:
            there, hint = ", ".join(table.column_names[:12]), did_you_mean(name, table.column_names)
            raise InputError(f"No column is called {name!r}.{hint} There are: {there}.")


def _types(
    path: Path, table: Any, places: Places, others: Sequence[str | None]
) -> tuple[tuple[str, Any], ...]:
    """What columns hold; of text, scores are numbers even where the first ones are whole."""
    import pyarrow as pa

    text = ending_of(path).startswith(".csv")
    found = {name: table.schema.field(name).type for name in others if name is not None}
    for name in places.columns:
        found[name] = pa.float64() if text else table.schema.field(name).type
    return tuple(found.items())


def _alike(first_path: Path, first: Taken, path: Path, other: Taken) -> None:
    """Refuse a file that has other columns than the first."""
    own, theirs = first.places, other.places
    lacking = sorted(set(own.columns) ^ set(theirs.columns))
    if lacking or own.form != theirs.form or own.alone != theirs.alone:
        what = f"the column {lacking[0]!r}" if lacking else "scores of another form"
        where = path if not lacking or lacking[0] in theirs.columns else first_path
        raise InputError(
            f"{path.name} and {first_path.name} have different columns: {what} is in {where.name} "
            "alone. All files must have the same."
        )
    known = dict(first.types)
    for name, kind in other.types:
        sorts = {_sort(kind), _sort(known.get(name, kind))}
        if len(sorts) > 1 and "blanks" not in sorts:
            raise InputError(
                f"The column {name!r} of {path.name} holds {kind}, that of {first_path.name} "
                f"{known[name]}. All files must have the same."
            )
    if (first.label is None) != (other.label is None):
        raise InputError(
            f"Of {path.name} and {first_path.name} one has labels and the other has none. All "
            "files must have the same columns."
        )


def _sort(kind: Any) -> str:
    """Numbers are numbers, however wide; lists are lists."""
    from pyarrow import types

    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return "numbers"
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return "lists"
    if types.is_string(kind) or types.is_large_string(kind) or types.is_dictionary(kind):
        return "text"
    return "blanks" if types.is_null(kind) else str(kind)


def batch_rows(k: int) -> int:
    """How many rows of k classes are read at a time.

    >>> batch_rows(10), batch_rows(1000)
    (262144, 4194)
    """
    return max(min(BATCH_ROWS, BATCH_BYTES // (8 * k)), 64)


def tables(taken: Taken, part: Part, rows: int) -> Iterator[tuple[int, Any]]:
    """Batches of a part as tables, each with how many rows of the part come before it."""
    import pyarrow as pa

    types: tuple[tuple[str, Any], ...] = ()
    if ending_of(part.path).startswith(".csv"):
        # A column that begins with blanks may hold anything later on.
        kinds = ((n, pa.string() if pa.types.is_null(kind) else kind) for n, kind in taken.types)
        types = tuple(kinds)
    before = 0
    for batch in batches(part.path, part.groups, Wanted(taken.columns, rows, types)):
        yield before, pa.Table.from_batches([batch])
        before += batch.num_rows


@contextmanager
def said_of(path: Path, row: int = 0) -> Iterator[None]:
    """Errors say which file they are of, and from where on its rows are counted."""
    try:
        yield
    except InputError as error:
        where = f" (rows counted from row {row} on)" if row else ""
        raise InputError(f"{path.name}{where}: {error}") from error


def label_values(table: Any, name: str, index: Array | None = None) -> Array:
    """Labels as they are in the files: numbers or text."""
    column = table.column(name)
    values = column.to_pylist() if index is None else column.take(index).to_pylist()
    made = np.empty(len(values), dtype=object)
    made[:] = values
    return made
