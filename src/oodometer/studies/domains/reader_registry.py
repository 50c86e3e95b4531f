"""Registry of the readers of domain files (npz, table, idx, cifar, folder, wilds, …) by name."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from oodometer.core.errors import InputError
from oodometer.core.inputs import InputKind
from oodometer.core.protocols import Dataset
from oodometer.data.image_folder import read_image_folder
from oodometer.data.options import DatasetOptions
from oodometer.studies.domains._reader import ImageSize, require_file
from oodometer.studies.domains.array_files import MatReader, NpyReader, NpzReader
from oodometer.studies.domains.breeds import BreedsReader
from oodometer.studies.domains.cifar import CifarReader
from oodometer.studies.domains.idx import IdxReader
from oodometer.studies.domains.imagenet_folders import ImagenetFolderReader, ObjectNetReader
from oodometer.studies.domains.packed_images import PackedImagesReader
from oodometer.studies.domains.table_files import TableReader
from oodometer.studies.domains.video_frames import VidRobustReader, YtbbRobustReader
from oodometer.studies.domains.wilds import WildsReader


@dataclass(frozen=True)
class ImageFolderReader:
    """Reader of a folder with one subfolder of images per class; images are decoded on access.

    `size` is the size to which all images are resized.
    """

    kind: ClassVar[InputKind] = "images"

    path: str
    size: int | tuple[int, int] | None = None
    skip_bad: bool = False

    @property
    def files(self) -> tuple[str, ...]:
        return (self.path,)

    def read(self, root: Path, size: ImageSize) -> Dataset:
        """Return the images, resized to one size; the label is the name of the subfolder."""
        folder = require_file(root, self.path)
        if not folder.is_dir():
            raise InputError(
                f"{self.path} is a file; expected a folder with one subfolder of images per class."
            )
        return read_image_folder(
            folder, DatasetOptions(size=self.size or size, skip_bad=self.skip_bad)
        )


READERS: dict[str, type] = {
    "folder": ImageFolderReader,
    "idx": IdxReader,
    "cifar": CifarReader,
    "packed": PackedImagesReader,
    "npz": NpzReader,
    "npy": NpyReader,
    "mat": MatReader,
    "table": TableReader,
    "imagenet": ImagenetFolderReader,
    "objectnet": ObjectNetReader,
    "vid-robust": VidRobustReader,
    "ytbb-robust": YtbbRobustReader,
    "breeds": BreedsReader,
    "wilds": WildsReader,
}
