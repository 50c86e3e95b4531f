"""Every reader by its name, and the one of image folders."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from oodometer.core.errors import InputError
from oodometer.core.inputs import Kind
from oodometer.core.protocols import Dataset
from oodometer.data.image_folder import read_folder
from oodometer.data.options import Asked
from oodometer.studies.domains._reader import Size, existing
from oodometer.studies.domains.array_files import Mat, Npy, Npz
from oodometer.studies.domains.cifar import Cifar
from oodometer.studies.domains.idx import Idx
from oodometer.studies.domains.packed_images import Packed
from oodometer.studies.domains.table_files import Table


@dataclass(frozen=True)
class Folder:
    """A folder with one folder of images a class; images are decoded when they are asked for."""

    kind: ClassVar[Kind] = "images"

    path: str
    size: int | tuple[int, int] | None = None
    skip_bad: bool = False

    @property
    def files(self) -> tuple[str, ...]:
        """The folder."""
        return (self.path,)

    def read(self, root: Path, size: Size) -> Dataset:
        """The images, brought to one size; the names of their folders are the labels."""
        folder = existing(root, self.path)
        if not folder.is_dir():
            raise InputError(f"{self.path} is a file; a folder of folders of images was expected.")
        return read_folder(folder, Asked(size=self.size or size, skip_bad=self.skip_bad))


READERS: dict[str, type] = {
    "folder": Folder,
    "idx": Idx,
    "cifar": Cifar,
    "packed": Packed,
    "npz": Npz,
    "npy": Npy,
    "mat": Mat,
    "table": Table,
}
