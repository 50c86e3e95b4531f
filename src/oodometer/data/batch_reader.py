"""Files read batch by batch: Parquet, CSV and Arrow, never whole.

Parquet is read by row groups, of which only the pages that are needed are in memory at a time; Arrow
by its record batches; CSV by blocks of text, whose column types are those of the first block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from oodometer.core.errors import InputError
from oodometer.data.prediction_files import check_delimiter, file_extension, unreadable_file_error

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
