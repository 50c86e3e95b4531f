"""Datasets of image files in one folder, or in one subfolder per class.

When a folder is opened, every file is read once to hash its bytes and to find files that cannot be
decoded. Later, only the requested images are decoded, and no decoded image is kept in memory.
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
IMAGE_EXTENSIONS = (".jpg", ".jpeg", ".png", ".bmp", ".webp", ".tif", ".tiff")


@contextmanager
def silence_opencv() -> Iterator[None]:
    """Disable OpenCV's messages about broken files, because this package reports such files."""
    logging = opencv().utils.logging
    level = logging.getLogLevel()
    logging.setLogLevel(logging.LOG_LEVEL_SILENT)
    try:
        yield
    finally:
        logging.setLogLevel(level)


def decode_image(content: bytes) -> Pixels | None:
    """Return the pixels of an encoded image; None if it cannot be decoded.

    The shape is (height, width) for a gray image and (height, width, 3) for a color image. The
    orientation that the camera stored is applied, 16-bit values become 8-bit values, and
    transparency is dropped.
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
    """Return (height, width, 3) pixels; the values of a gray image are used in all channels."""
    return pixels if pixels.ndim == 3 else np.repeat(pixels[:, :, None], 3, axis=2)


def resize_image(pixels: Pixels, size: tuple[int, int]) -> Pixels:
    """Resize an image to `size`; its proportions can change."""
    cv2 = opencv()
    if pixels.shape[:2] == size:
        return pixels
    smaller = size[0] * size[1] < pixels.shape[0] * pixels.shape[1]
    interpolation = cv2.INTER_AREA if smaller else cv2.INTER_LINEAR
    resized: Pixels = cv2.resize(pixels, size[::-1], interpolation=interpolation)
    return resized


def resize_and_crop(pixels: Pixels, size: tuple[int, int]) -> Pixels:
    """Scale an image to the smallest size that covers `size`, then crop it around the center."""
    cv2 = opencv()
    height, width = pixels.shape[:2]
    scale = max(size[0] / height, size[1] / width)
    if scale != 1.0:
        covering = [max(round(scale * n), m) for n, m in zip((height, width), size, strict=True)]
        interpolation = cv2.INTER_AREA if scale < 1.0 else cv2.INTER_LINEAR
        pixels = cv2.resize(pixels, covering[::-1], interpolation=interpolation)
    top = (pixels.shape[0] - size[0]) // 2
    left = (pixels.shape[1] - size[1]) // 2
    return pixels[top : top + size[0], left : left + size[1]]


@dataclass(frozen=True, eq=False, repr=False)
class ImageFolder(BaseDataset):
    """Dataset of image files, sorted by name and decoded when they are read.

    Create one with `as_dataset(folder)`.

    Parameters
    ----------
    name : str
        Name that tables and reports show.
    folder : Path
        Folder of the images.
    files : tuple of str
        Paths of the images, relative to the folder.
    keys : array of uint64 of shape (n,)
        Hash of each file's bytes.
    shape : tuple of int
        Shape of every image: (height, width) if all images are gray, otherwise (height, width, 3).
    labels : array of shape (n,), optional
        True class of each image.
    skipped : tuple of str
        Files that cannot be decoded and were left out.
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
        # The path is absolute because a worker may have another working directory.
        return {**vars(self), "folder": self.folder.absolute()}

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the bytes of all files, in order, and of the shape of the images."""
        return fingerprint_rows(f"files {self.shape}", self.keys)

    def take(self, index: RowSelection) -> Pixels:
        """Return the selected images as a uint8 array (n, *shape), in the order of the index."""
        rows = np.arange(len(self))[to_row_numbers(index, len(self))]
        images = np.empty((len(rows), *self.shape), dtype=np.uint8)
        with silence_opencv():
            for image, row in zip(images, rows, strict=True):
                image[...] = self._load_image(row)
        return images

    def rows(self, index: RowSelection) -> ImageFolder:
        rows = np.arange(len(self))[to_row_numbers(index, len(self))]
        return replace(
            self,
            files=tuple(self.files[row] for row in rows),
            keys=self.keys[rows],
            labels=None if self.labels is None else self.labels[rows],
        )

    def _load_image(self, row: int) -> Pixels:
        file = self.files[row]
        path = self.folder / file
        content = path.read_bytes() if path.is_file() else b""
        pixels = decode_image(content)
        if pixels is None:
            raise InputError(f"{file} can no longer be read. Open {self.folder} again.")
        if _hash_content(content) != self.keys[row].tobytes():
            raise InputError(
                f"{file} has changed since {self.folder} was opened. Open it again, and give every "
                "worker the same files."
            )
        return resize_and_crop(to_rgb(pixels) if len(self.shape) == 3 else pixels, self.shape[:2])  # type: ignore[arg-type]


def read_image_folder(folder: Path, options: DatasetOptions) -> ImageFolder:
    """Return the dataset of a folder of images; names of subfolders become labels."""
    name = options.name or folder.resolve().name
    files, labels = _list_images(folder)
    if options.labels is not None:
        labels = normalize_labels(options.labels, len(files))
    keys: list[bytes] = []
    shapes: dict[str, tuple[int, ...]] = {}
    broken: list[str] = []
    for file in files:
        key, shape = _inspect_file(folder / file)
        if shape is None:
            broken.append(file)
        else:
            keys.append(key)
            shapes[file] = shape
    bad = np.array([file not in shapes for file in files])
    check_bad_rows(f"{name}: {''.join(broken[:1])} cannot be read", "images", bad, options.skip_bad)
    return ImageFolder(
        name=name,
        folder=folder,
        files=tuple(shapes),
        keys=np.frombuffer(b"".join(keys), dtype=np.uint64),
        shape=_common_shape(shapes, options.size),
        labels=None if labels is None else labels[~bad],
        skipped=tuple(broken),
    )


def _list_images(folder: Path) -> tuple[list[str], Array | None]:
    """Return the image files sorted by name and, if there are subfolders, the one of each file."""
    paths = [path for pattern in ("*", "*/*") for path in folder.glob(pattern) if _is_image(path)]
    parts = sorted(path.relative_to(folder).parts for path in paths)
    if not parts:
        raise InputError(
            f"{folder} and its subfolders have no images. Known extensions: "
            f"{', '.join(IMAGE_EXTENSIONS)}. Pass the folder that holds the images."
        )
    files = ["/".join(part) for part in parts]
    direct = [part[0] for part in parts if len(part) == 1]
    nested = [part for part in parts if len(part) == 2]
    if not nested:
        return files, None
    if direct:
        raise InputError(
            f"{folder} has images beside its subfolders ({direct[0]}) and in them "
            f"({'/'.join(nested[0])}). Put all images into one subfolder per class, or none."
        )
    return files, np.array([subfolder for subfolder, _ in nested])


def _is_image(path: Path) -> bool:
    is_hidden = path.name.startswith(".") or path.parent.name.startswith(".")
    return path.suffix.lower() in IMAGE_EXTENSIONS and not is_hidden and path.is_file()


def _inspect_file(path: Path) -> tuple[bytes, tuple[int, ...] | None]:
    """Return the hash of a file and the shape of its image; None if the image cannot be decoded."""
    try:
        content = path.read_bytes()
    except OSError:
        content = b""
    with silence_opencv():
        pixels = decode_image(content)
    return _hash_content(content), None if pixels is None else pixels.shape


def _hash_content(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=8).digest()


def _common_shape(
    shapes: dict[str, tuple[int, ...]], size: int | Sequence[int] | None
) -> tuple[int, ...]:
    """Return the shape of all images: the requested size, or the size that all files have."""
    channels = (3,) if any(len(shape) == 3 for shape in shapes.values()) else ()
    if size is not None:
        return (*_validate_size(size), *channels)
    first, shape = next(iter(shapes.items()))
    for file, other in shapes.items():
        if other[:2] != shape[:2]:
            shorter = min(shape[:2])
            raise InputError(
                f"Images differ in size: {first} is {shape[0]}×{shape[1]}, {file} is "
                f"{other[0]}×{other[1]}. Resize them, for example with size={shorter} "
                f"(--size {shorter})."
            )
    return (*shape[:2], *channels)


def _validate_size(size: int | Sequence[int]) -> tuple[int, int]:
    sides = tuple(size) if isinstance(size, Sequence) else (size, size)
    if len(sides) != 2 or not all(isinstance(n, int | np.integer) and n > 0 for n in sides):
        raise InputError(
            f"size must be a positive integer or (height, width) in pixels; got {size!r}. "
            "For example, pass size=224."
        )
    return int(sides[0]), int(sides[1])
