"""Reader of the binary files of CIFAR-10 and CIFAR-100.

Each row of a binary file consists of the label and the 3 × 32 × 32 bytes of the image.
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from oodometer.core.array_types import Array
from oodometer.core.errors import InputError
from oodometer.core.inputs import InputKind
from oodometer.core.protocols import Dataset
from oodometer.data.dataset import ConcatDataset, InMemoryDataset
from oodometer.studies.domains._reader import ImageSize, require_file

SIDE_PIXELS = 32
IMAGE_BYTES = 3 * SIDE_PIXELS * SIDE_PIXELS


@dataclass(frozen=True)
class CifarReader:
    """Reader of one or more CIFAR files, which are memory-mapped.

    `label_bytes` is the number of label bytes per row: 1 for CIFAR-10, and 2 for CIFAR-100, where
    the second byte is the class. Files of the Python version of CIFAR are pickles, which can run
    any code, and are read only if `trust_pickle` is true.
    """

    kind: ClassVar[InputKind] = "images"

    path: str | tuple[str, ...]
    label_bytes: int = 1
    trust_pickle: bool = False

    @property
    def files(self) -> tuple[str, ...]:
        return (self.path,) if isinstance(self.path, str) else self.path

    def read(self, root: Path, size: ImageSize) -> Dataset:
        """Return the rows of all files; binary files are read from disk on access."""
        parts = tuple(self._read_batch(require_file(root, name)) for name in self.files)
        return parts[0] if len(parts) == 1 else ConcatDataset(self.files[0], parts)

    def _read_batch(self, path: Path) -> InMemoryDataset:
        if _is_pickle(path):
            return _load_pickle(path, self.trust_pickle)
        width = self.label_bytes + IMAGE_BYTES
        length = path.stat().st_size
        if length == 0 or length % width:
            raise InputError(
                f"{path.name} has {length} bytes, not a multiple of the {width} bytes per row. "
                "Download it again if it is truncated; CIFAR-100 needs label_bytes = 2."
            )
        rows = np.memmap(path, dtype=np.uint8, mode="r").reshape(-1, width)
        labels = np.array(rows[:, self.label_bytes - 1], dtype=np.int64)
        return InMemoryDataset(path.name, _to_channels_last(rows[:, self.label_bytes :]), labels)


def _to_channels_last(rows: Array) -> Array:
    """Reshape rows of red, green and blue planes to images of shape (n, height, width, 3)."""
    return rows.reshape(-1, 3, SIDE_PIXELS, SIDE_PIXELS).transpose(0, 2, 3, 1)


def _is_pickle(path: Path) -> bool:
    with path.open("rb") as file:
        head = file.read(2)
    return path.suffix != ".bin" and head[:1] == b"\x80"


def _load_pickle(path: Path, trusted: bool) -> InMemoryDataset:
    if not trusted:
        raise InputError(
            f"{path.name} is a pickle, and loading it can run any code. Use the binary version "
            "of CIFAR (cifar-10-binary.tar.gz: data_batch_1.bin, …), or set trust_pickle = true "
            "if you trust the source."
        )
    with path.open("rb") as file:
        content = pickle.load(file, encoding="latin1")
    labels = np.asarray(content["labels"] if "labels" in content else content["fine_labels"])
    return InMemoryDataset(path.name, _to_channels_last(np.asarray(content["data"])), labels)
