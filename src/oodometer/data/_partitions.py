"""Rows in many files: which files, what they hold, and how they are parted for workers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from glob import glob, has_magic
from pathlib import Path

from oodometer.core.errors import InputError
from oodometer.data import batch_reader as batches
from oodometer.data.prediction_files import ending_of

# A part is made of row groups that lie side by side and have about so many rows together.
PART_ROWS = 1 << 20
# Where rows can't be counted beforehand, the rows of each file have places from a multiple of this.
FAR = 1 << 40


@dataclass(frozen=True)
class Part:
    """Rows that one worker reads: some row groups of a file, or all of it.

    `place` is the place of the first one among all rows, `start` that within its file; `rows` is
    how many there are, None where only reading tells.
    """

    number: int
    path: Path
    groups: tuple[int, ...] | None
    place: int
    start: int
    rows: int | None


def is_many(where: str | Path) -> bool:
    """Whether it is a folder or a pattern, not a single file.

    >>> is_many("scores/*.parquet"), is_many("scores.parquet")
    (True, False)
    """
    return Path(where).is_dir() or (has_magic(str(where)) and not Path(where).exists())


def located(where: str | Path) -> tuple[Path, ...]:
    """The files of a path, a folder or a pattern, in the order of their names."""
    path = Path(where)
    if path.is_dir():
        return _readable(_within(path), f"The folder {str(path)!r}")
    if not is_many(where):
        if not path.is_file():
            raise InputError(f"There is no file {str(path)!r}.")
        return _readable([path], "")
    found = [Path(name) for name in glob(str(where), recursive=True)]
    if not found:
        raise InputError(
            f"No file is called {str(where)!r}. Put a pattern between quotes, and see that its "
            "folder is right."
        )
    files = [one for match in found for one in (_within(match) if match.is_dir() else [match])]
    return _readable(files, f"The pattern {str(where)!r}")


def _within(folder: Path) -> list[Path]:
    """Files of a folder and of those in it; hidden ones and marks such as _SUCCESS are no data."""
    files = (path for path in folder.rglob("*") if path.is_file())
    known = (*batches.KINDS, ".npz")
    return [
        path
        for path in files
        if not any(part.startswith((".", "_")) for part in path.relative_to(folder).parts)
        and ending_of(path) in known
    ]


def _readable(files: Sequence[Path], what: str) -> tuple[Path, ...]:
    if not files:
        raise InputError(f"{what} has no file to read. Files end in: {', '.join(batches.KINDS)}.")
    for path in files:
        if ending_of(path) == ".npz":
            raise InputError(
                f"{path.name} is .npz, which can't be read in pieces. Save it as Parquet."
            )
        if ending_of(path) not in batches.KINDS:
            raise InputError(
                f"{path.name} has an ending that can't be read in pieces. There are: "
                f"{', '.join(batches.KINDS)}."
            )
    return tuple(sorted(set(files)))


def parted(files: Sequence[Path]) -> tuple[tuple[Part, ...], int | None]:
    """Parts in the order of rows, and how many rows there are in all, where that is known.

    They hang on the files alone, not on who works: sums of them are the same for all.
    """
    counts = [batches.group_rows(path) for path in files]
    known = all(rows is not None for rows in counts)
    parts: list[Part] = []
    place = 0
    for number, (path, rows) in enumerate(zip(files, counts, strict=True)):
        first = place if known else number * FAR
        for groups, start, many in _grouped(rows):
            parts.append(Part(len(parts), path, groups, first + start, start, many))
        place += sum(rows or ())
    return tuple(parts), place if known else None


def _grouped(
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
        if held >= PART_ROWS or number == len(rows) - 1:
            yield tuple(groups), start, held
            start, held, groups = start + held, 0, []
