"""Content-addressed arrays on disk: the name of a file is a hash of its bytes.

Files are written atomically. An array that is already stored is not written again.
"""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Collection, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from oodometer.core.array_types import Array
from oodometer.core.errors import InputError, format_error
from oodometer.data.atomic import PARTIAL_SUFFIX, atomic_write, fsync_folder

NPY_EXTENSION = ".npy"


@dataclass(frozen=True)
class ArrayStore:
    """Folder of arrays."""

    folder: Path

    def put(self, arrays: Sequence[Array]) -> list[str]:
        """Store arrays and return their names."""
        contents = [_to_npy_bytes(array) for array in arrays]
        names = [_content_hash(content) for content in contents]
        new = {
            name: content
            for name, content in zip(names, contents, strict=True)
            if not self._path(name).exists()
        }
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            if new:
                self._write_all(new)
                fsync_folder(self.folder)
        except OSError as error:
            raise self._write_error(new, error) from error
        return names

    def get(self, name: str) -> Array:
        """Read an array without unpickling, which could execute code."""
        path = self._path(name)
        try:
            array: Array = np.load(path, allow_pickle=False)
        except (OSError, ValueError, EOFError) as error:
            reason = format_error(error, first_line=True)
            raise InputError(
                f"Cannot read the array {str(path)!r}: {reason}. Remove the file and run the study "
                "again."
            ) from error
        return array

    def names(self) -> set[str]:
        return {path.stem for path in self.folder.glob(f"*{NPY_EXTENSION}")}

    def remove_unreferenced(self, referenced_names: Collection[str]) -> None:
        """Remove arrays that are not referenced, and incomplete files left by killed processes."""
        for partial in self.folder.glob(f"*{PARTIAL_SUFFIX}"):
            partial.unlink(missing_ok=True)
        for name in self.names() - set(referenced_names):
            self._path(name).unlink(missing_ok=True)

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}{NPY_EXTENSION}"

    def _write_all(self, contents: dict[str, bytes]) -> None:
        """Write files, flush all of them to disk, and only then rename them.

        Flushing the first file usually flushes the others as well, so that this takes much less time
        than writing, flushing and renaming each file in turn.
        """
        with ExitStack() as stack:
            partials = [stack.enter_context(atomic_write(self._path(name))) for name in contents]
            for partial, content in zip(partials, contents.values(), strict=True):
                partial.write_bytes(content)
            for partial in partials:
                _fsync_file(partial)

    def _write_error(self, new: dict[str, bytes], error: OSError) -> InputError:
        size = sum(map(len, new.values())) / 2**20
        return InputError(
            f"Cannot write {len(new)} arrays ({size:.1f} MB) to {str(self.folder)!r}: "
            f"{error.strerror or error}. Free disk space or change the permissions, and run again; "
            "stored results are kept."
        )


def _fsync_file(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())


def _to_npy_bytes(array: Array) -> bytes:
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.ascontiguousarray(array), allow_pickle=False)
    return buffer.getvalue()


def _content_hash(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=16).hexdigest()
