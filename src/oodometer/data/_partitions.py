"""Rows in many files: which files, what they hold, and how they are parted for workers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from glob import glob, has_magic
from pathlib import Path

from oodometer.core.errors import InputError
from oodometer.data import batch_reader as batches
from oodometer.data.prediction_files import file_extension

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
    known = (*batches.FILE_FORMATS, ".npz")
    return [
        path
        for path in files
        if not any(part.startswith((".", "_")) for part in path.relative_to(folder).parts)
        and file_extension(path) in known
    ]


def _check_readable(files: Sequence[Path], description: str) -> tuple[Path, ...]:
    if not files:
        raise InputError(
            f"{description} has no file to read. Files end in: {', '.join(batches.FILE_FORMATS)}."
        )
    for path in files:
        if file_extension(path) == ".npz":
            raise InputError(
                f"{path.name} is .npz, which can't be read in pieces. Save it as Parquet."
            )
        if file_extension(path) not in batches.FILE_FORMATS:
            raise InputError(
                f"{path.name} has an ending that can't be read in pieces. There are: "
                f"{', '.join(batches.FILE_FORMATS)}."
            )
    return tuple(sorted(set(files)))


def make_partitions(files: Sequence[Path]) -> tuple[tuple[FilePartition, ...], int | None]:
    """Parts in the order of rows, and how many rows there are in all, where that is known.

    They hang on the files alone, not on who works: sums of them are the same for all.
    """
    counts = [batches.row_group_sizes(path) for path in files]
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
