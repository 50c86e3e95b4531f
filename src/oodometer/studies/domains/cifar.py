"""The binary batches of CIFAR-10 and CIFAR-100: a label, then 3 × 32 × 32 bytes, row after row."""

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
    """One or several batches, mapped: images are read from the disk when they are asked for.

    `label_bytes` is 1 for CIFAR-10 and 2 for CIFAR-100, whose second byte is the class. The
    version for Python is pickled: it is refused, unless `trust_pickle` says where it is from.
    """

    kind: ClassVar[InputKind] = "images"

    path: str | tuple[str, ...]
    label_bytes: int = 1
    trust_pickle: bool = False

    @property
    def files(self) -> tuple[str, ...]:
        """The batches."""
        return (self.path,) if isinstance(self.path, str) else self.path

    def read(self, root: Path, size: ImageSize) -> Dataset:
        """All batches, one after the other."""
        parts = tuple(self._read_batch(require_file(root, name)) for name in self.files)
        return parts[0] if len(parts) == 1 else ConcatDataset(self.files[0], parts)

    def _read_batch(self, path: Path) -> InMemoryDataset:
        if _is_pickle(path):
            return _load_pickle(path, self.trust_pickle)
        width = self.label_bytes + IMAGE_BYTES
        length = path.stat().st_size
        if length == 0 or length % width:
            raise InputError(
                f"{path.name} has {length} bytes, which is no whole number of rows of {width}. "
                "Was it cut? Fetch it again; CIFAR-100 has label_bytes = 2."
            )
        rows = np.memmap(path, dtype=np.uint8, mode="r").reshape(-1, width)
        labels = np.array(rows[:, self.label_bytes - 1], dtype=np.int64)
        return InMemoryDataset(path.name, _to_channels_last(rows[:, self.label_bytes :]), labels)


def _to_channels_last(rows: Array) -> Array:
    """Colour after colour in the file; (n, height, width, 3) here."""
    return rows.reshape(-1, 3, SIDE_PIXELS, SIDE_PIXELS).transpose(0, 2, 3, 1)


def _is_pickle(path: Path) -> bool:
    with path.open("rb") as file:
        head = file.read(2)
    return path.suffix != ".bin" and head[:1] == b"\x80"


def _load_pickle(path: Path, trusted: bool) -> InMemoryDataset:
    if not trusted:
        raise InputError(
            f"{path.name} is a pickle, and loading it can run any code. Take the binary version "
            "of CIFAR (cifar-10-binary.tar.gz: data_batch_1.bin, …); or, if you trust where it "
            "comes from, say trust_pickle = true."
        )
    with path.open("rb") as file:
        found = pickle.load(file, encoding="latin1")
    labels = np.asarray(found["labels"] if "labels" in found else found["fine_labels"])
    return InMemoryDataset(path.name, _to_channels_last(np.asarray(found["data"])), labels)
