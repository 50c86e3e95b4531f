"""Reader of packed images: many JPEG or PNG files in one array of an `.npz` archive.

The archive has the arrays `bytes` (all files, one after another), `off` (offsets) and `y` (labels).
The file of image i is bytes[off[i]:off[i + 1]]. An archive can hold several such sets of arrays if
their names have a prefix such as `train_`. Further arrays can describe the rows, such as `domain`.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import ClassVar

import numpy as np

from oodometer.core.array_types import Array, Ints
from oodometer.core.errors import InputError
from oodometer.core.inputs import InputKind, RowHashes
from oodometer.core.protocols import Dataset
from oodometer.data.dataset import BaseDataset, RowSelection, fingerprint_rows, to_row_numbers
from oodometer.data.image_folder import (
    Pixels,
    decode_image,
    resize_and_crop,
    silence_opencv,
    to_rgb,
)
from oodometer.data.prediction_files import ScoreFile
from oodometer.studies.domains._reader import ImageSize, check_row_counts, require_file
from oodometer.studies.domains.array_files import RowFilters, filter_rows

# Array of an archive with the WordNet id of each label.
WORDNET_IDS = "wnids"


@dataclass(frozen=True, eq=False, repr=False)
class PackedImageDataset(BaseDataset):
    """Dataset of images that are held as the bytes of their files and decoded on access."""

    kind: ClassVar[InputKind] = "images"

    name: str
    content: Pixels
    starts: Ints
    ends: Ints
    size: tuple[int, int]
    labels: Array | None = None

    def __len__(self) -> int:
        return len(self.starts)

    def __repr__(self) -> str:
        return f"PackedImageDataset({self.name!r}, {len(self)} images {self.size})"

    @cached_property
    def keys(self) -> RowHashes:
        """Hash of the file of each image."""
        digests = (
            hashlib.blake2b(self._file_bytes(row), digest_size=8).digest()
            for row in range(len(self))
        )
        return np.frombuffer(b"".join(digests), dtype=np.uint64)

    @cached_property
    def fingerprint(self) -> str:
        """Hash of all image files in their order and of the size of the decoded images."""
        return fingerprint_rows(f"packed {self.size}", self.keys)

    def take(self, index: RowSelection) -> Pixels:
        """Return the selected images: uint8 (n, height, width, 3)."""
        rows = np.arange(len(self))[to_row_numbers(index, len(self))]
        images = np.empty((len(rows), *self.size, 3), dtype=np.uint8)
        with silence_opencv():
            for position, row in enumerate(rows):
                images[position] = resize_and_crop(
                    to_rgb(_decode_image(self._file_bytes(row), int(row))), self.size
                )
        return images

    def rows(self, index: RowSelection) -> PackedImageDataset:
        """Return the dataset of the selected images; each image keeps its key and label."""
        rows = to_row_numbers(index, len(self))
        labels = None if self.labels is None else self.labels[rows]
        return replace(self, starts=self.starts[rows], ends=self.ends[rows], labels=labels)

    def _file_bytes(self, row: int) -> bytes:
        return self.content[self.starts[row] : self.ends[row]].tobytes()


def _decode_image(content: bytes, row: int) -> Pixels:
    pixels = decode_image(content)
    if pixels is None:
        raise InputError(
            f"Cannot decode row {row}: its {len(content)} bytes are not an image. Pack it again."
        )
    return pixels


@dataclass(frozen=True)
class PackedImagesReader:
    """Reader of packed images.

    prefix       prefix of the names of the three arrays
    where        conditions on further arrays, as for `.npz` archives (`NpzReader`)
    subclasses   WordNet ids of the subclasses of each class; the array `wnids` of the archive holds
                 the id of each label. Images of other classes are left out, and the label of an
                 image is the name of its superclass

    Images are resized to the shape of the group; without one, to the size of the first image.
    """

    kind: ClassVar[InputKind] = "images"

    path: str
    prefix: str = ""
    where: RowFilters = ()
    subclasses: RowFilters = ()

    @property
    def files(self) -> tuple[str, ...]:
        return (self.path,)

    def read(self, root: Path, size: ImageSize) -> Dataset:
        """Return a dataset that decodes each image when it is accessed."""
        arrays = ScoreFile.open(require_file(root, self.path)).content
        content, offsets, labels = self._get_arrays(arrays)
        check_row_counts(offsets[1:], labels, self.path)
        rows = filter_rows(arrays, self.where, labels, self.path)
        if self.subclasses:
            labels = self._superclasses(arrays, labels)
            rows &= labels != ""
        if np.any(np.diff(offsets) < 0) or offsets[0] < 0 or offsets[-1] > len(content):
            raise InputError(
                f"{self.path}: the offsets must increase from 0 to {len(content)}, the number of "
                f"bytes; got {offsets[0]} to {offsets[-1]}. Pack the images again."
            )
        if not rows.any():
            raise InputError(f"{self.path} has no images. Pack at least one.")
        starts, ends = offsets[:-1][rows], offsets[1:][rows]
        first = content[starts[0] : ends[0]].tobytes()
        with silence_opencv():
            height, width = size or _decode_image(first, 0).shape[:2]
        return PackedImageDataset(
            name=self.path,
            content=content,
            starts=starts,
            ends=ends,
            size=(height, width),
            labels=labels[rows],
        )

    def _superclasses(self, arrays: dict[str, Array], labels: Array) -> Array:
        """Return the name of the superclass of each image; an empty text if it has none."""
        if WORDNET_IDS not in arrays:
            raise InputError(
                f"{self.path}: subclasses are WordNet ids, but there is no array {WORDNET_IDS!r} with "
                f"the id of each label. Arrays: {', '.join(arrays)}."
            )
        names = {wnid: name for name, members in self.subclasses for wnid in members}
        ids = [str(wnid) for wnid in arrays[WORDNET_IDS]]
        unknown = sorted(set(names) - set(ids))
        if unknown:
            raise InputError(
                f"{self.path}: no class has the WordNet id {unknown[0]!r}, a subclass of "
                f"{names[unknown[0]]!r}. Remove or correct it."
            )
        return np.array([names.get(wnid, "") for wnid in ids])[labels]

    def _get_arrays(self, arrays: dict[str, Array]) -> tuple[Array, Array, Array]:
        names = [f"{self.prefix}{part}" for part in ("bytes", "off", "y")]
        missing = [name for name in names if name not in arrays]
        if missing:
            raise InputError(
                f"{self.path}: there is no array {missing[0]!r}. Arrays: {', '.join(arrays)}. Set "
                "the prefix of their names, such as prefix = 'train_'."
            )
        content, offsets, labels = (arrays[name] for name in names)
        if content.dtype != np.uint8 or offsets.ndim != 1 or not len(offsets):
            raise InputError(
                f"{self.path}: {names[0]} must be uint8 and {names[1]} a list of offsets; got "
                f"{content.dtype} and shape {offsets.shape}. Pack the images again."
            )
        return content, offsets, labels
