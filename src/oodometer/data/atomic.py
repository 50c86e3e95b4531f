"""Atomic file writes (write to a temporary file, then rename) and folder locks."""

from __future__ import annotations

import os
import platform
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from oodometer.core.errors import InputError, format_error

# Suffix of temporary files, which a killed process may leave behind.
PARTIAL_SUFFIX = ".partial"
# A hidden name, so that the pattern pool/* matches only models.
LOCK_FILE_NAME = ".lock"
# On Windows, a locked byte cannot be read by other processes. The locked byte is therefore far
# behind the text of the file, which other processes read.
_LOCK_BYTE_OFFSET = 2**30


@contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """Yield a temporary path to write to; rename it to `path` unless the block raises.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with atomic_write(Path(folder) / "report.txt") as partial:
    ...         _ = partial.write_text("complete")
    ...     [file.name for file in Path(folder).iterdir()]
    ['report.txt']
    """
    # Files of the module tempfile can be read only by their owner, but reports are shared.
    partial = path.with_name(f".oodometer-{secrets.token_hex(8)}{PARTIAL_SUFFIX}")
    try:
        yield partial
        os.replace(partial, path)
    finally:
        # The temporary file does not exist if it was renamed or was never written.
        with suppress(OSError):
            partial.unlink()


def fsync_folder(folder: Path) -> None:
    """Flush the list of files in a folder to disk, on systems that support it."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextmanager
def lock_folder(folder: Path, noun: str = "pool", activity: str = "trained") -> Iterator[None]:
    """Create and lock a folder; raise an error that names the process if another one locked it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / LOCK_FILE_NAME).open("a+", encoding="utf-8")
    except OSError as error:
        raise InputError(
            f"The {noun}'s folder {str(folder)!r} cannot be written: "
            f"{format_error(error, first_line=True)}. Use another folder."
        ) from error
    with file:
        try:
            _lock(file)
        except OSError as error:
            file.seek(0)
            raise InputError(
                f"The {noun} {str(folder)!r} is being {activity} by {file.read() or 'another process'}."
                " Only one process may write to it: wait until it ends, or use another folder."
            ) from error
        file.truncate(0)
        file.write(f"process {os.getpid()} on {platform.node()}")
        file.flush()
        # The file is never removed; otherwise one process could lock the removed file while another
        # process locks a new one.
        yield


if sys.platform == "win32":
    import msvcrt

    def _lock(file: IO[str]) -> None:
        file.seek(_LOCK_BYTE_OFFSET)
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)

else:
    import fcntl

    def _lock(file: IO[str]) -> None:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def write_table(table: Any, path: Path) -> None:
    """Write a table atomically as Parquet or CSV, depending on the extension of the file."""
    from pyarrow import csv, parquet

    writers = {".parquet": parquet.write_table, ".csv": csv.write_csv}
    writer = writers.get(path.suffix.lower())
    if writer is None:
        raise InputError(
            f"Cannot write rows to {path.name!r}. Use a name that ends in {' or '.join(writers)}."
        )
    try:
        with atomic_write(path) as partial:
            writer(table, partial)
    except OSError as error:
        raise InputError(
            f"Cannot write rows to {str(path)!r}: {error.strerror or error}. Free disk space or "
            "change the permissions, or choose another file."
        ) from error
