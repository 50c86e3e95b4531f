"""Files that are there whole or not at all: written aside, under another name, and then moved."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

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
