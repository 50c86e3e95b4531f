"""Dataset of listed image files, which are read from disk only when they are accessed."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar

import numpy as np

from oodometer.core.array_types import Array
from oodometer.core.errors import InputError
from oodometer.core.inputs import InputKind, RowHashes
from oodometer.data.dataset import BaseDataset, RowSelection, fingerprint_rows, to_row_numbers
from oodometer.data.image_folder import (
    IMAGE_EXTENSIONS,
    Pixels,
    decode_image,
    resize_and_crop,
    resize_image,
    silence_opencv,
    to_rgb,
)
from oodometer.studies.domains._reader import ImageSize


@dataclass(frozen=True, eq=False, repr=False)
class ImageFiles(BaseDataset):
    """Dataset of image files in a given order, decoded on access.

    Creating the dataset reads no file. The keys and the fingerprint read every file once, when they
    are first needed; no decoded image is kept in memory.

    name     name that tables and reports show
    folder   folder of the images
    files    paths of the images, relative to the folder
    size     height and width that the images are resized to
    labels   true class of each image
    border   number of pixels that are cut off on each side before the image is resized
    square   whether images are resized without keeping their proportions; otherwise they are scaled
             to cover the size and cropped around the center
    label_sets   classes of each image, of which any counts as correct; None if each has one label
    """

    kind: ClassVar[InputKind] = "images"

    name: str
    folder: Path
    files: tuple[str, ...]
    size: tuple[int, int]
    labels: Array | None = None
    border: int = 0
    square: bool = False
    label_sets: tuple[frozenset[str], ...] | None = None

    def __len__(self) -> int:
        return len(self.files)

    def __repr__(self) -> str:
        return f"ImageFiles({self.name!r}, {len(self)} images {self.size})"

    def __getstate__(self) -> dict[str, Any]:
        # The path is absolute because a worker may have another working directory.
        return {**vars(self), "folder": self.folder.absolute()}

    @cached_property
    def keys(self) -> RowHashes:
        """Hash of the bytes of each file."""
        digests = (
            hashlib.blake2b(_read_bytes(self.folder, file), digest_size=8).digest()
            for file in self.files
        )
        return np.frombuffer(b"".join(digests), dtype=np.uint64)

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the bytes of all files, in order, and of the size of the images."""
        cut = f" without {self.border}" if self.border else ""
        square = " square" if self.square else ""
        return fingerprint_rows(f"files {(*self.size, 3)}{cut}{square}", self.keys)

    def take(self, index: RowSelection) -> Pixels:
        """Return the selected images: uint8 (n, height, width, 3)."""
        rows = np.arange(len(self))[to_row_numbers(index, len(self))]
        images = np.empty((len(rows), *self.size, 3), dtype=np.uint8)
        with silence_opencv():
            for image, row in zip(images, rows, strict=True):
                pixels = load_image(self.folder, self.files[row], self.border)
                resize = resize_image if self.square else resize_and_crop
                image[...] = resize(pixels, self.size)
        return images

    def rows(self, index: RowSelection) -> ImageFiles:
        """Return the dataset of the selected images; each image keeps its key and label."""
        rows = np.arange(len(self))[to_row_numbers(index, len(self))]
        selected = replace(
            self,
            files=tuple(self.files[row] for row in rows),
            labels=None if self.labels is None else self.labels[rows],
            label_sets=self.label_sets and tuple(self.label_sets[row] for row in rows),
        )
        if "keys" in vars(self):
            vars(selected)["keys"] = self.keys[rows]
        return selected


def load_image(folder: Path, file: str, border: int = 0) -> Pixels:
    """Return the pixels of an image file, (height, width, 3), without its border."""
    pixels = decode_image(_read_bytes(folder, file))
    if pixels is None:
        raise InputError(f"{file} in {folder} cannot be decoded as an image. Download it again.")
    if min(pixels.shape[:2]) <= 2 * border:
        raise InputError(
            f"{file} in {folder} has {pixels.shape[0]} × {pixels.shape[1]} pixels, which leaves "
            f"nothing without a border of {border} pixels. Use a smaller border."
        )
    height, width = pixels.shape[:2]
    return to_rgb(pixels)[border : height - border, border : width - border]


def _read_bytes(folder: Path, file: str) -> bytes:
    try:
        return (folder / file).read_bytes()
    except OSError as error:
        raise InputError(
            f"{file} in {folder} cannot be read: {error.strerror}. Copy it there."
        ) from error


def open_image_files(
    name: str,
    folder: Path,
    files: Sequence[str],
    labels: Array,
    *,
    size: ImageSize,
    listed_in: str,
    border: int = 0,
    square: bool = False,
) -> ImageFiles:
    """Return the dataset of the files; raise if there are none or if one of them does not exist.

    `listed_in` names the file that lists the images. Without `size`, all images are resized to the
    size of the first one.
    """
    if not files:
        raise InputError(f"{listed_in} lists no images for {name}; expected at least one.")
    missing = _missing_files(folder, files)
    if missing:
        more = f" (and {len(missing) - 1} more of {len(files)} images)" if missing[1:] else ""
        raise InputError(
            f"There is no image {missing[0]!r}{more} in {folder}, although {listed_in} lists it. "
            "Copy the image there, or remove its row."
        )
    if size is None:
        with silence_opencv():
            height, width = load_image(folder, files[0], border).shape[:2]
        size = (height, width)
    return ImageFiles(name, folder, tuple(files), size, labels, border, square)


def _missing_files(folder: Path, files: Iterable[str]) -> list[str]:
    """Return the files that do not exist; each folder is listed once, no file is opened."""
    listed: dict[str, set[str]] = {}
    missing = []
    for file in files:
        parent, name = str(PurePosixPath(file).parent), PurePosixPath(file).name
        if parent not in listed:
            listed[parent] = set(_list_names(folder / parent))
        if name not in listed[parent]:
            missing.append(file)
    return missing


def _list_names(folder: Path) -> list[str]:
    """Return the names of the files and folders in a folder; none if it does not exist."""
    try:
        return sorted(entry.name for entry in os.scandir(folder) if not entry.name.startswith("."))
    except OSError:
        return []


def list_class_folders(folder: Path, classes: dict[str, str]) -> tuple[list[str], list[str]]:
    """Return the images in the subfolders named by `classes`, and the class of each image.

    `classes` maps the name of a subfolder to the class of its images; other subfolders are left
    out. Files are sorted by their paths.
    """
    files: list[str] = []
    labels: list[str] = []
    for subfolder in _list_names(folder):
        if subfolder in classes:
            images = [name for name in _list_names(folder / subfolder) if is_image_name(name)]
            files += [f"{subfolder}/{name}" for name in images]
            labels += [classes[subfolder]] * len(images)
    return files, labels


def is_image_name(name: str) -> bool:
    """Return whether a file name has the extension of an image."""
    return name.lower().endswith(IMAGE_EXTENSIONS)
