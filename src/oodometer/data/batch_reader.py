"""Files read batch by batch: Parquet, CSV and Arrow, never whole.

Parquet is read by row groups, of which only the pages that are needed are in memory at a time; Arrow
by its record batches; CSV by blocks of text, whose column types are those of the first block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from glob import glob, has_magic
from pathlib import Path
from typing import Any

import numpy as np

from oodometer.core import frames
from oodometer.core.array_types import Array
from oodometer.core.errors import InputError, did_you_mean
from oodometer.core.frames import ScoreColumns
from oodometer.core.predictions import Predictions
from oodometer.data.prediction_files import (
    PredictionColumns,
    check_delimiter,
    file_extension,
    unreadable_file_error,
)

# A part is made of row groups that lie side by side and have about so many rows together.
PARTITION_ROWS = 1 << 20
# Where rows can't be counted beforehand, the rows of each file have places from a multiple of this.
FILE_POSITION_STRIDE = 1 << 40


@dataclass(frozen=True)
class FilePartition:
    """Rows that one worker reads: some row groups of a file, or all of it.

    `first_position` is the place of the first one among all rows, `first_row_in_file` that within its file; `n_rows` is
    how many there are, None where only reading tells.
    """

    number: int
    path: Path
    row_groups: tuple[int, ...] | None
    first_position: int
    first_row_in_file: int
    n_rows: int | None


def is_multi_file(location: str | Path) -> bool:
    """Whether it is a folder or a pattern, not a single file.

    >>> is_multi_file("scores/*.parquet"), is_multi_file("scores.parquet")
    (True, False)
    """
    return Path(location).is_dir() or (has_magic(str(location)) and not Path(location).exists())


def find_files(location: str | Path) -> tuple[Path, ...]:
    """The files of a path, a folder or a pattern, in the order of their names."""
    path = Path(location)
    if path.is_dir():
        return _check_readable(_list_folder(path), f"The folder {str(path)!r}")
    if not is_multi_file(location):
        if not path.is_file():
            raise InputError(f"There is no file {str(path)!r}.")
        return _check_readable([path], "")
    found = [Path(name) for name in glob(str(location), recursive=True)]
    if not found:
        raise InputError(
            f"No file is called {str(location)!r}. Put a pattern between quotes, and see that its "
            "folder is right."
        )
    files = [one for match in found for one in (_list_folder(match) if match.is_dir() else [match])]
    return _check_readable(files, f"The pattern {str(location)!r}")


def _list_folder(folder: Path) -> list[Path]:
    """Files of a folder and of those in it; hidden ones and marks such as _SUCCESS are no data."""
    files = (path for path in folder.rglob("*") if path.is_file())
    known = (*FILE_FORMATS, ".npz")
    return [
        path
        for path in files
        if not any(part.startswith((".", "_")) for part in path.relative_to(folder).parts)
        and file_extension(path) in known
    ]


def _check_readable(files: Sequence[Path], description: str) -> tuple[Path, ...]:
    if not files:
        raise InputError(
            f"{description} has no file to read. Files end in: {', '.join(FILE_FORMATS)}."
        )
    for path in files:
        if file_extension(path) == ".npz":
            raise InputError(
                f"{path.name} is .npz, which can't be read in pieces. Save it as Parquet."
            )
        if file_extension(path) not in FILE_FORMATS:
            raise InputError(
                f"{path.name} has an ending that can't be read in pieces. There are: "
                f"{', '.join(FILE_FORMATS)}."
            )
    return tuple(sorted(set(files)))


def make_partitions(files: Sequence[Path]) -> tuple[tuple[FilePartition, ...], int | None]:
    """Parts in the order of rows, and how many rows there are in all, where that is known.

    They hang on the files alone, not on who works: sums of them are the same for all.
    """
    counts = [row_group_sizes(path) for path in files]
    known = all(rows is not None for rows in counts)
    parts: list[FilePartition] = []
    place = 0
    for number, (path, rows) in enumerate(zip(files, counts, strict=True)):
        first = place if known else number * FILE_POSITION_STRIDE
        for groups, start, many in _merge_row_groups(rows):
            parts.append(FilePartition(len(parts), path, groups, first + start, start, many))
        place += sum(rows or ())
    return tuple(parts), place if known else None


def _merge_row_groups(
    rows: Sequence[int] | None,
) -> Iterator[tuple[tuple[int, ...] | None, int, int | None]]:
    """Groups side by side, the row that they begin with, and how many rows they have."""
    if rows is None:
        yield None, 0, None
        return
    start, held, groups = 0, 0, []
    for number, many in enumerate(rows):
        groups.append(number)
        held += many
        if held >= PARTITION_ROWS or number == len(rows) - 1:
            yield tuple(groups), start, held
            start, held, groups = start + held, 0, []


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


# Bytes of text that are parsed together.
CSV_BLOCK_BYTES = 1 << 21
# Bytes of a compressed column that are read at a time.
PARQUET_BUFFER_BYTES = 1 << 20


@dataclass(frozen=True)
class BatchReadSpec:
    """Which columns to read, how many rows at a time, and of text what the columns hold."""

    columns: tuple[str, ...]
    max_rows: int
    column_types: tuple[tuple[str, Any], ...] = ()


def read_schema(path: Path) -> Any:
    """The Arrow schema of a file."""
    with _wrap_read_errors(path):
        found = _format_of(path).schema(path)
        _ = found.names  # names that are not UTF-8 are found out only here
        return found


def row_group_sizes(path: Path) -> tuple[int, ...] | None:
    """Rows of each row group; None where only reading tells."""
    with _wrap_read_errors(path):
        return _format_of(path).row_group_sizes(path)


def read_batches(
    path: Path, row_groups: Sequence[int] | None, spec: BatchReadSpec
) -> Iterator[Any]:
    """Record batches of some row groups (None for all), none of more rows than wanted."""
    with _wrap_read_errors(path):
        for batch in _format_of(path).read(path, row_groups, spec):
            for start in range(0, batch.num_rows, spec.max_rows):
                yield batch.slice(start, spec.max_rows)


@contextmanager
def _wrap_read_errors(path: Path) -> Iterator[None]:
    """Whatever is wrong with a file is said in one line."""
    import pyarrow as pa

    try:
        yield
    except InputError:
        raise
    except (pa.ArrowException, OSError, EOFError, UnicodeDecodeError) as error:
        if not path.exists():
            raise InputError(f"There is no file {str(path)!r}.") from error
        raise unreadable_file_error(path, _format_of(path).name, error) from error


# Parquet ----------------------------------------------------------------------------------------


def _open_parquet(path: Path) -> Any:
    import pyarrow.parquet as pq

    # Not memory-mapped, for what is mapped counts as memory of this process.
    return pq.ParquetFile(
        path, memory_map=False, buffer_size=PARQUET_BUFFER_BYTES, pre_buffer=False
    )


def _parquet_schema(path: Path) -> Any:
    with _open_parquet(path) as file:
        return file.schema_arrow


def _parquet_row_group_sizes(path: Path) -> tuple[int, ...] | None:
    with _open_parquet(path) as file:
        facts = file.metadata
        return tuple(facts.row_group(number).num_rows for number in range(facts.num_row_groups))


def _read_parquet(
    path: Path, row_groups: Sequence[int] | None, spec: BatchReadSpec
) -> Iterator[Any]:
    with _open_parquet(path) as file:
        yield from file.iter_batches(
            batch_size=spec.max_rows,
            row_groups=None if row_groups is None else list(row_groups),
            columns=list(spec.columns),
            use_threads=False,
        )


# Arrow ------------------------------------------------------------------------------------------


@contextmanager
def _open_ipc(path: Path, options: Any = None) -> Iterator[Any]:
    """A reader of either of the two formats of Arrow files."""
    import pyarrow as pa

    with pa.OSFile(str(path)) as file:
        try:
            reader = pa.ipc.open_file(file, options=options)
        except pa.ArrowInvalid:
            file.seek(0)
            reader = pa.ipc.open_stream(file, options=options)
        yield reader


def _ipc_schema(path: Path) -> Any:
    with _open_ipc(path) as reader:
        return reader.schema


def _ipc_row_counts(path: Path) -> tuple[int, ...] | None:
    import pyarrow as pa
    from pyarrow import dataset

    with _open_ipc(path) as reader:
        if not isinstance(reader, pa.ipc.RecordBatchFileReader):
            return None
    # One part a file: where its batches begin is not written down.
    return (dataset.dataset(path, format="ipc").count_rows(),)


def _read_ipc(path: Path, row_groups: Sequence[int] | None, spec: BatchReadSpec) -> Iterator[Any]:
    import pyarrow as pa

    names = _ipc_schema(path).names
    places = sorted(names.index(name) for name in spec.columns)
    options = pa.ipc.IpcReadOptions(use_threads=False, included_fields=places)
    with _open_ipc(path, options) as reader:
        if isinstance(reader, pa.ipc.RecordBatchFileReader):
            yield from (reader.get_batch(number) for number in range(reader.num_record_batches))
        else:
            yield from reader


# CSV --------------------------------------------------------------------------------------------


def _open_csv(path: Path, spec: BatchReadSpec | None = None) -> Any:
    from pyarrow import csv

    check_delimiter(path)
    chosen = None if spec is None else list(spec.columns)
    types = {} if spec is None else dict(spec.column_types)
    return csv.open_csv(
        path,
        read_options=csv.ReadOptions(block_size=CSV_BLOCK_BYTES, use_threads=False),
        # Texts in quotes may run over several lines.
        parse_options=csv.ParseOptions(newlines_in_values=True),
        convert_options=csv.ConvertOptions(include_columns=chosen, column_types=types),
    )


def _csv_schema(path: Path) -> Any:
    with _open_csv(path) as reader:
        return reader.schema


def _unknown_row_counts(path: Path) -> None:
    """Of text nobody has counted the rows."""


def _read_csv(path: Path, row_groups: Sequence[int] | None, spec: BatchReadSpec) -> Iterator[Any]:
    with _open_csv(path, spec) as reader:
        yield from reader


# Which is which ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class _FileFormat:
    """How one kind of file is read."""

    name: str
    schema: Callable[[Path], Any]
    row_group_sizes: Callable[[Path], tuple[int, ...] | None]
    read: Callable[[Path, Sequence[int] | None, BatchReadSpec], Iterator[Any]]


_PARQUET = _FileFormat("Parquet", _parquet_schema, _parquet_row_group_sizes, _read_parquet)
_ARROW = _FileFormat("Arrow", _ipc_schema, _ipc_row_counts, _read_ipc)
_CSV = _FileFormat("CSV", _csv_schema, _unknown_row_counts, _read_csv)
FILE_FORMATS: dict[str, _FileFormat] = {
    ".parquet": _PARQUET,
    ".csv": _CSV,
    ".csv.gz": _CSV,
    ".arrow": _ARROW,
    ".feather": _ARROW,
}


def _format_of(path: Path) -> _FileFormat:
    return FILE_FORMATS[file_extension(path)]
