"""Arrays on disk, each under a name that is a hash of its bytes: there whole or not at all.

A file is written under another name and gets its own when all of it has reached the disk. What is
there already is not written again.
"""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from oodometer.core.array_types import Array
from oodometer.core.errors import InputError, format_error
from oodometer.data.atomic import PARTIAL_SUFFIX, atomic_write, fsync_folder

NPY_EXTENSION = ".npy"


@dataclass(frozen=True)
class ArrayStore:
    """A folder of arrays."""

    folder: Path

    def put(self, arrays: Sequence[Array]) -> list[str]:
        """Their names, once all of them are on the disk."""
        contents = [_to_npy_bytes(array) for array in arrays]
        names = [_content_hash(content) for content in contents]
        all_of_them = dict(zip(names, contents, strict=True))
        new = {name: part for name, part in all_of_them.items() if not self._path(name).exists()}
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            for name, content in new.items():
                self._write(name, content)
            if new:
                fsync_folder(self.folder)
        except OSError as error:
            raise self._write_error(new, error) from error
        return names

    def get(self, name: str) -> Array:
        """The array of a name; nothing is unpickled."""
        path = self._path(name)
        try:
            found: Array = np.load(path, allow_pickle=False)
        except (OSError, ValueError, EOFError) as error:
            raise InputError(
                f"The array {str(path)!r} can't be read: {format_error(error, first_line=True)}. Remove the file, "
                "and run the study again."
            ) from error
        return found

    def names(self) -> set[str]:
        """Those of all arrays that are there."""
        return {path.stem for path in self.folder.glob(f"*{NPY_EXTENSION}")}

    def remove_unreferenced(self, referenced_names: Collection[str]) -> None:
        """Remove what no row names, and what killed writers left; only the writer may."""
        for left in self.folder.glob(f"*{PARTIAL_SUFFIX}"):
            left.unlink(missing_ok=True)
        for name in self.names() - set(referenced_names):
            self._path(name).unlink(missing_ok=True)

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}{NPY_EXTENSION}"

    def _write(self, name: str, content: bytes) -> None:
        with atomic_write(self._path(name)) as partial, partial.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())

    def _write_error(self, new: dict[str, bytes], error: OSError) -> InputError:
        size = sum(map(len, new.values())) / 2**20
        return InputError(
            f"{len(new)} arrays ({size:.1f} MB) can't be written to {str(self.folder)!r}: "
            f"{error.strerror or error}. Make room or allow writing there, and run again; what was "
            "stored stays."
        )


def _to_npy_bytes(array: Array) -> bytes:
    held = io.BytesIO()
    np.lib.format.write_array(held, np.ascontiguousarray(array), allow_pickle=False)
    return held.getvalue()


def _content_hash(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=16).hexdigest()
