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
from oodometer.data.prediction_files import check_signs, ending_of, unreadable

# Bytes of text that are parsed together.
BLOCK = 1 << 21
# Bytes of a compressed column that are read at a time.
BUFFER = 1 << 20


@dataclass(frozen=True)
class Wanted:
    """Which columns to read, how many rows at a time, and of text what the columns hold."""

    columns: tuple[str, ...]
    rows: int
    types: tuple[tuple[str, Any], ...] = ()


def schema_of(path: Path) -> Any:
    """The Arrow schema of a file."""
    with _told(path):
        found = _kind(path).schema(path)
        _ = found.names  # names that are not UTF-8 are found out only here
        return found


def group_rows(path: Path) -> tuple[int, ...] | None:
    """Rows of each row group; None where only reading tells."""
    with _told(path):
        return _kind(path).group_rows(path)


def batches(path: Path, groups: Sequence[int] | None, wanted: Wanted) -> Iterator[Any]:
    """Record batches of some row groups (None for all), none of more rows than wanted."""
    with _told(path):
        for batch in _kind(path).read(path, groups, wanted):
            for start in range(0, batch.num_rows, wanted.rows):
                yield batch.slice(start, wanted.rows)


@contextmanager
def _told(path: Path) -> Iterator[None]:
    """Whatever is wrong with a file is said in one line."""
    import pyarrow as pa

    try:
        yield
    except InputError:
        raise
    except (pa.ArrowException, OSError, EOFError, UnicodeDecodeError) as error:
        if not path.exists():
            raise InputError(f"There is no file {str(path)!r}.") from error
        raise unreadable(path, _kind(path).name, error) from error


# Parquet ----------------------------------------------------------------------------------------


def _parquet(path: Path) -> Any:
    import pyarrow.parquet as pq

    # Not memory-mapped, for what is mapped counts as memory of this process.
    return pq.ParquetFile(path, memory_map=False, buffer_size=BUFFER, pre_buffer=False)


def _parquet_schema(path: Path) -> Any:
    with _parquet(path) as file:
        return file.schema_arrow


def _parquet_rows(path: Path) -> tuple[int, ...] | None:
    with _parquet(path) as file:
        facts = file.metadata
        return tuple(facts.row_group(number).num_rows for number in range(facts.num_row_groups))


def _read_parquet(path: Path, groups: Sequence[int] | None, wanted: Wanted) -> Iterator[Any]:
    with _parquet(path) as file:
        yield from file.iter_batches(
            batch_size=wanted.rows,
            row_groups=None if groups is None else list(groups),
            columns=list(wanted.columns),
            use_threads=False,
        )


# Arrow ------------------------------------------------------------------------------------------


@contextmanager
def _ipc(path: Path, options: Any = None) -> Iterator[Any]:
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
    with _ipc(path) as reader:
        return reader.schema


def _ipc_rows(path: Path) -> tuple[int, ...] | None:
    import pyarrow as pa
    from pyarrow import dataset

    with _ipc(path) as reader:
        if not isinstance(reader, pa.ipc.RecordBatchFileReader):
            return None
    # One part a file: where its batches begin is not written down.
    return (dataset.dataset(path, format="ipc").count_rows(),)


def _read_ipc(path: Path, groups: Sequence[int] | None, wanted: Wanted) -> Iterator[Any]:
    import pyarrow as pa

    names = _ipc_schema(path).names
    places = sorted(names.index(name) for name in wanted.columns)
    options = pa.ipc.IpcReadOptions(use_threads=False, included_fields=places)
    with _ipc(path, options) as reader:
        if isinstance(reader, pa.ipc.RecordBatchFileReader):
            yield from (reader.get_batch(number) for number in range(reader.num_record_batches))
        else:
            yield from reader


# CSV --------------------------------------------------------------------------------------------


def _csv(path: Path, wanted: Wanted | None = None) -> Any:
    from pyarrow import csv

    check_signs(path)
    chosen = None if wanted is None else list(wanted.columns)
    types = {} if wanted is None else dict(wanted.types)
    return csv.open_csv(
        path,
        read_options=csv.ReadOptions(block_size=BLOCK, use_threads=False),
        # Texts in quotes may run over several lines.
        parse_options=csv.ParseOptions(newlines_in_values=True),
        convert_options=csv.ConvertOptions(include_columns=chosen, column_types=types),
    )


def _csv_schema(path: Path) -> Any:
    with _csv(path) as reader:
        return reader.schema


def _no_rows(path: Path) -> None:
    """Of text nobody has counted the rows."""


def _read_csv(path: Path, groups: Sequence[int] | None, wanted: Wanted) -> Iterator[Any]:
    with _csv(path, wanted) as reader:
        yield from reader


# Which is which ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Kind:
    """How one kind of file is read."""

    name: str
    schema: Callable[[Path], Any]
    group_rows: Callable[[Path], tuple[int, ...] | None]
    read: Callable[[Path, Sequence[int] | None, Wanted], Iterator[Any]]


_PARQUET = _Kind("Parquet", _parquet_schema, _parquet_rows, _read_parquet)
_ARROW = _Kind("Arrow", _ipc_schema, _ipc_rows, _read_ipc)
_CSV = _Kind("CSV", _csv_schema, _no_rows, _read_csv)
KINDS: dict[str, _Kind] = {
    ".parquet": _PARQUET,
    ".csv": _CSV,
    ".csv.gz": _CSV,
    ".arrow": _ARROW,
    ".feather": _ARROW,
}


def _kind(path: Path) -> _Kind:
    return KINDS[ending_of(path)]
