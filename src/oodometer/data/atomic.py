"""Files that are there whole or not at all: written aside, under another name, and then moved."""

from __future__ import annotations

import os
import platform
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from oodometer.core.errors import InputError

# What killed writers left ends so.
PARTIAL_SUFFIX = ".partial"


@contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """A name beside a file, to write to; it becomes the file's if all goes well, or is gone.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with atomic_write(Path(folder) / "told.txt") as partial:
    ...         _ = partial.write_text("all of it")
    ...     [file.name for file in Path(folder).iterdir()]
    ['told.txt']
    """
    # Not tempfile: its files are for their owner's eyes only, and a report is to be shared.
    partial = path.with_name(f".oodometer-{secrets.token_hex(8)}{PARTIAL_SUFFIX}")
    try:
        yield partial
        os.replace(partial, path)
    finally:
        # What went wrong before is to be told, not that there is nothing to remove.
        with suppress(OSError):
            partial.unlink()


def fsync_folder(folder: Path) -> None:
    """What names a folder has is on the disk, where the system can be asked for it."""
    if os.name == "posix":
        opened = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)


# Out of the way of pool/*, which names its models.
LOCK_FILE_NAME = ".lock"
# Windows locks bytes, which nobody can read then: one far behind the words.
_LOCK_BYTE_OFFSET = 2**30


@contextmanager
def lock_folder(folder: Path, noun: str = "pool", activity: str = "trained") -> Iterator[None]:
    """A folder for this process alone; another one is told who has it, and what is done there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / LOCK_FILE_NAME).open("a+", encoding="utf-8")
    except OSError as error:
        raise InputError(
            f"The {noun}'s folder {str(folder)!r} can't be written: {error.strerror}. Give another "
            "one."
        ) from error
    with file:
        try:
            _lock(file)
        except OSError as error:
            file.seek(0)
            raise InputError(
                f"The {noun} {str(folder)!r} is being {activity} by {file.read() or 'another process'}."
                " It has one writer at a time: wait for that one, or give another folder."
            ) from error
        file.truncate(0)
        file.write(f"process {os.getpid()} on {platform.node()}")
        file.flush()
        # The file stays: one that is removed may be locked by two, by its old and its new self.
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
