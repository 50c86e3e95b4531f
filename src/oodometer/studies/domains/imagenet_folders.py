"""Reader of ImageNet folders restricted to some classes, and reader of ObjectNet."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, get_origin

import numpy as np

from oodometer.core.errors import InputError, format_error
from oodometer.core.inputs import InputKind
from oodometer.core.protocols import Dataset
from oodometer.studies._toml import validate_type
from oodometer.studies.domains._reader import ImageSize, require_file
from oodometer.studies.domains.class_lists import (
    IMAGENET,
    ClassList,
    get_class_list,
    imagenet_wnids,
)
from oodometer.studies.domains.image_files import ImageFiles, list_class_folders, open_image_files


@dataclass(frozen=True)
class ImagenetFolderReader:
    """Reader of a folder with one subfolder per class of ImageNet; images are read on access.

    path      folder whose subfolders are named by WordNet id, or by class number as in ImageNetV2
    classes   name of a built-in list of classes; subfolders of other classes are left out

    The label of an image is the class of the list to which its ImageNet class belongs.
    """

    kind: ClassVar[InputKind] = "images"

    path: str
    classes: str = IMAGENET

    @property
    def files(self) -> tuple[str, ...]:
        return (self.path,)

    def read(self, root: Path, size: ImageSize) -> Dataset:
        """Return the images of the listed classes, without reading them."""
        return read_imagenet_folder(root, self.path, get_class_list(self.classes), size)


def read_imagenet_folder(root: Path, path: str, classes: ClassList, size: ImageSize) -> ImageFiles:
    """Return the images of an ImageNet folder whose class belongs to a class of the list."""
    folder = require_folder(root, path)
    class_of_wnid = classes.class_of_wnid
    numbered = {
        str(number): class_of_wnid[wnid]
        for number, wnid in enumerate(imagenet_wnids())
        if wnid in class_of_wnid
    }
    files, labels = list_class_folders(folder, numbered | class_of_wnid)
    if not files:
        raise InputError(
            f"{path} has no images in subfolders of the expected classes, such as "
            f"{path}/{next(iter(class_of_wnid))}/image.JPEG. Expected one subfolder per class, "
            "named by WordNet id (or, in ImageNetV2, by class number)."
        )
    return open_image_files(path, folder, files, np.array(labels), size=size, listed_in=path)


def require_folder(root: Path, path: str) -> Path:
    """Return the path of a folder; raise if it is missing or a file."""
    folder = require_file(root, path)
    if not folder.is_dir():
        raise InputError(f"{path} is a file; expected a folder with subfolders of images.")
    return folder


@dataclass(frozen=True)
class ObjectNetReader:
    """Reader of the images of ObjectNet whose class ImageNet has; images are read on access.

    path      folder of ObjectNet, with the folders `images` and `mappings`
    border    number of pixels that are cut off on each side; ObjectNet has a red border of 2 pixels

    The label of an image is the name of its folder. `mappings/folder_to_objectnet_label.json` and
    `mappings/objectnet_to_imagenet_1k.json` say which folders have a class of ImageNet.
    """

    kind: ClassVar[InputKind] = "images"
    images: ClassVar[str] = "images"
    labels_file: ClassVar[str] = "mappings/folder_to_objectnet_label.json"
    mapping_file: ClassVar[str] = "mappings/objectnet_to_imagenet_1k.json"

    path: str
    border: int = 2

    @property
    def files(self) -> tuple[str, ...]:
        names = (self.images, self.labels_file, self.mapping_file)
        return tuple(f"{self.path}/{name}" for name in names)

    def read(self, root: Path, size: ImageSize) -> Dataset:
        """Return the images of the shared classes, without reading them."""
        images, labels_file, mapping_file = self.files
        label_of_folder = read_json(root, labels_file, dict[str, str])
        shared = read_json(root, mapping_file, dict[str, Any])
        unknown = sorted(shared.keys() - label_of_folder.values())
        if unknown:
            raise InputError(
                f"{mapping_file} has the class {unknown[0]!r}, which is not a value of "
                f"{labels_file}. Use the files of one release of ObjectNet."
            )
        kept = {folder: folder for folder, label in label_of_folder.items() if label in shared}
        folder = require_folder(root, images)
        files, labels = list_class_folders(folder, kept)
        if not files:
            raise InputError(
                f"{images} has no images in folders of shared classes, such as "
                f"{images}/{next(iter(kept), 'banana')}/image.png. Unpack ObjectNet there."
            )
        return open_image_files(
            self.path,
            folder,
            files,
            np.array(labels),
            size=size,
            listed_in=images,
            border=self.border,
        )


def read_json(root: Path, name: str, expected: Any) -> Any:
    """Return the content of a JSON file; raise if it is not valid or has another type.

    `expected` is the type of the content, such as ``dict[str, list[int]]``.
    """
    path = require_file(root, name)
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(
            f"Cannot read {name} as JSON: {format_error(error, first_line=True)}. Download it again."
        ) from error
    outer = get_origin(expected)
    if not isinstance(content, outer):
        noun = "a list" if outer is list else "an object of keys and values"
        raise InputError(f"{name} must contain {noun}; got {content!r:.60}.")
    return validate_type(expected, content, name)


def require_key(table: dict[str, Any], key: str, where: str) -> Any:
    """Return the value of a key of a JSON object; raise if it does not exist."""
    if key not in table:
        keys = ", ".join(list(table)[:12]) or "none"
        raise InputError(f"{where} has no key {key!r}; its keys are: {keys}.")
    return table[key]
