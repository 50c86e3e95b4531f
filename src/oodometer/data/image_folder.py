"""A folder of images, or of one folder of images a class.

On opening, every file is read once: its bytes give the row's key, and what can't be decoded is
found. After that only the images that are asked for are decoded; none are kept.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from oodometer.core.array_types import Array
from oodometer.core.errors import InputError
from oodometer.core.inputs import InputKind, RowHashes
from oodometer.core.labels import normalize_labels
from oodometer.core.optional_imports import opencv
from oodometer.data.dataset import BaseDataset, RowSelection, fingerprint_rows, to_row_numbers
from oodometer.data.options import DatasetOptions, check_bad_rows

Pixels = npt.NDArray[np.uint8]


@contextmanager
def silence_opencv() -> Iterator[None]:
    """OpenCV writes nothing of a broken file on the screen: we say it ourselves."""
    log = opencv().utils.logging
    before = log.getLogLevel()
    log.setLogLevel(log.LOG_LEVEL_SILENT)
    try:
        yield
    finally:
        log.setLogLevel(before)


def decode_image(content: bytes) -> Pixels | None:
    """(height, width) of a grey image, (height, width, RGB) of any other; None if it is broken.

    The camera's orientation is followed, 16 bits become 8, transparency is dropped.
    """
    cv2 = opencv()
    if not content:
        return None
    try:
        pixels = cv2.imdecode(np.frombuffer(content, dtype=np.uint8), cv2.IMREAD_ANYCOLOR)
    except cv2.error:
        return None
    if pixels is None or pixels.ndim == 2:
        return pixels  # type: ignore[no-any-return]
    return cv2.cvtColor(pixels, cv2.COLOR_BGR2RGB)  # type: ignore[no-any-return]


def to_rgb(pixels: Pixels) -> Pixels:
    """(height, width, 3), grey three times over if it has no colour."""
    return pixels if pixels.ndim == 3 else np.repeat(pixels[:, :, None], 3, axis=2)


def resize_and_crop(pixels: Pixels, size: tuple[int, int]) -> Pixels:
    """Scaled until it just covers the size, and cut around the centre."""
    cv2 = opencv()
    height, width = pixels.shape[:2]
    scale = max(size[0] / height, size[1] / width)
    if scale != 1.0:
        covering = [max(round(scale * n), m) for n, m in zip((height, width), size, strict=True)]
        how = cv2.INTER_AREA if scale < 1.0 else cv2.INTER_LINEAR
        pixels = cv2.resize(pixels, covering[::-1], interpolation=how)
    top, left = (pixels.shape[0] - size[0]) // 2, (pixels.shape[1] - size[1]) // 2
    return pixels[top : top + size[0], left : left + size[1]]


IMAGE_EXTENSIONS = (".jpg", ".jpeg", ".png", ".bmp", ".webp", ".tif", ".tiff")


@dataclass(frozen=True, eq=False, repr=False)
class ImageFolder(BaseDataset):
    """Images in files, in the order of their names, decoded when they are asked for.

    `shape` is (height, width), or (height, width, 3) if any of the images has colour; `skipped`
    names the files that could not be read and were left out because `skip_bad` was asked for.
    """

    kind: ClassVar[InputKind] = "images"

    name: str
    folder: Path
    files: tuple[str, ...]
    keys: RowHashes
    shape: tuple[int, ...]
    labels: Array | None = None
    skipped: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.files)

    def __repr__(self) -> str:
        labelled = "unlabelled" if self.labels is None else "labelled"
        return f"ImageFolder({self.name!r}, {len(self)} images {self.shape}, {labelled})"

    def __getstate__(self) -> dict[str, Any]:
        # A worker may be started in another folder.
        return {**vars(self), "folder": self.folder.absolute()}

    @cached_property
    def fingerprint(self) -> str:
        """A hash of all files' bytes, in order, and of the shape they are brought to."""
        return fingerprint_rows(f"files {self.shape}", self.keys)

    def take(self, index: RowSelection) -> Pixels:
        """Some images, in that order: uint8 (n, *shape)."""
        chosen = np.arange(len(self))[to_row_numbers(index, len(self))]
        images = np.empty((len(chosen), *self.shape), dtype=np.uint8)
        with silence_opencv():
            for at, row in enumerate(chosen):
                images[at] = self._load_image(row)
        return images

    def rows(self, index: RowSelection) -> ImageFolder:
        """The dataset of some images, which keep their keys and labels."""
        chosen = np.arange(len(self))[to_row_numbers(index, len(self))]
        return replace(
            self,
            files=tuple(self.files[row] for row in chosen),
            keys=self.keys[chosen],
            labels=None if self.labels is None else self.labels[chosen],
        )

    def _load_image(self, row: int) -> Pixels:
        file = self.files[row]
        path = self.folder / file
        content = path.read_bytes() if path.is_file() else b""
        pixels = decode_image(content)
        if pixels is None:
            raise InputError(f"{file} can't be read any more. Open {self.folder} again.")
        if _hash_content(content) != self.keys[row].tobytes():
            raise InputError(
                f"{file} is not what it was when {self.folder} was opened. Open it again, and give "
                "every worker the same files."
            )
        return resize_and_crop(to_rgb(pixels) if len(self.shape) == 3 else pixels, self.shape[:2])  # type: ignore[arg-type]


@dataclass(frozen=True)
class ImageFileInfo:
    """What the first reading of a file found; no shape if it can't be decoded."""

    key: bytes
    shape: tuple[int, ...] | None


def read_image_folder(folder: Path, options: DatasetOptions) -> ImageFolder:
    """The images of a folder, the names of its sub-folders being their labels."""
    name = options.name or folder.resolve().name
    files, labels = _list_images(folder)
    labels = labels if options.labels is None else normalize_labels(options.labels, len(files))
    seen = [_inspect_file(folder / file) for file in files]
    bad = np.array([one.shape is None for one in seen])
    broken = [file for file, one in zip(files, seen, strict=True) if one.shape is None]
    check_bad_rows(f"{name}: {''.join(broken[:1])} can't be read", "images", bad, options.skip_bad)
    good = {file: one for file, one in zip(files, seen, strict=True) if one.shape is not None}
    return ImageFolder(
        name=name,
        folder=folder,
        files=tuple(good),
        keys=np.frombuffer(b"".join(one.key for one in good.values()), dtype=np.uint64),
        shape=_common_shape(good, options.size),
        labels=None if labels is None else labels[~bad],
        skipped=tuple(broken),
    )


def _list_images(folder: Path) -> tuple[list[str], Array | None]:
    """The image files in the order of their names, and their sub-folders if they are in such."""
    found = [path for pattern in ("*", "*/*") for path in folder.glob(pattern) if _is_image(path)]
    parts = sorted(path.relative_to(folder).parts for path in found)
    files, deep = ["/".join(part) for part in parts], [part for part in parts if len(part) == 2]
    if not files:
        raise InputError(
            f"{folder} has no images, nor have the folders in it. Files with these endings are "
            f"read: {', '.join(IMAGE_EXTENSIONS)}. Give the folder that holds the images."
        )
    if not deep:
        return files, None
    if len(deep) < len(files):
        loose = next(part[0] for part in parts if len(part) == 1)
        raise InputError(
            f"{folder} has images beside its sub-folders ({loose}) and in them ({'/'.join(deep[0])}"
            "). Put all into sub-folders, one a class, or none."
        )
    return files, np.array([part[0] for part in deep])


def _is_image(path: Path) -> bool:
    hidden = path.name.startswith(".") or path.parent.name.startswith(".")
    return path.suffix.lower() in IMAGE_EXTENSIONS and not hidden and path.is_file()


def _inspect_file(path: Path) -> ImageFileInfo:
    try:
        content = path.read_bytes()
    except OSError:
        content = b""
    with silence_opencv():
        pixels = decode_image(content)
    return ImageFileInfo(_hash_content(content), None if pixels is None else pixels.shape)


def _hash_content(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=8).digest()


def _common_shape(
    infos: dict[str, ImageFileInfo], size: int | Sequence[int] | None
) -> tuple[int, ...]:
    """The shape that all images are brought to: the size asked for, or the one they all have."""
    shapes = {file: one.shape or () for file, one in infos.items()}
    color = (3,) if any(len(shape) == 3 for shape in shapes.values()) else ()
    if size is not None:
        return (*_validate_size(size), *color)
    first, shape = next(iter(shapes.items()))
    for file, other in shapes.items():
        if other[:2] != shape[:2]:
            raise InputError(
                f"Images differ in size: {first} is {shape[0]}×{shape[1]}, {file} is "
                f"{other[0]}×{other[1]}. Bring them to one: size={min(shape[:2])} (--size {min(shape[:2])}), say."
            )
    return (*shape[:2], *color)


def _validate_size(size: int | Sequence[int]) -> tuple[int, int]:
    sides = tuple(size) if isinstance(size, Sequence) else (size, size)
    if len(sides) != 2 or not all(isinstance(n, int | np.integer) and n > 0 for n in sides):
        raise InputError(
            f"size must be a whole number of pixels or (height, width), above 0; got {size!r}. "
            "Give one such as size=224."
        )
    return int(sides[0]), int(sides[1])
