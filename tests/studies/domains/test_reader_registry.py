"""Registry of readers, and the reader of image folders."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from oodometer.core.errors import InputError
from oodometer.core.inputs import INPUT_KINDS
from oodometer.studies.domains._reader import DomainReader
from oodometer.studies.domains.reader_registry import READERS, ImageFolderReader


@pytest.mark.parametrize("name", READERS)
def test_readers_are_hashable_and_list_their_files(name: str) -> None:
    member = READERS[name]
    assert is_dataclass(member)
    needed = {"path": "a", "labels": "b", "annotations": "c", "subclasses": "source"}
    needed["dataset"] = {"wilds": "fmow"}.get(name, "living-17")
    reader = member(**{one.name: needed[one.name] for one in fields(member) if one.name in needed})
    assert isinstance(reader, DomainReader)
    assert reader.kind in INPUT_KINDS
    assert all(file.split("/")[0] in ("a", "b", "c") for file in reader.files)
    assert hash(reader) == hash(reader)
    assert member.__doc__


def pictures(folder: Path) -> None:
    for name in ("cat", "dog"):
        (folder / name).mkdir(parents=True)
        Image.fromarray(np.full((6, 7, 3), 9, dtype=np.uint8)).save(folder / name / "0.png")


def test_own_size_overrides_that_of_the_group(tmp_path: Path) -> None:
    pictures(tmp_path / "a")
    data = ImageFolderReader("a").read(tmp_path, None)
    assert data.take(slice(None)).shape == (2, 6, 7, 3)
    assert data.labels is not None
    assert data.labels.tolist() == ["cat", "dog"]
    assert ImageFolderReader("a").read(tmp_path, (3, 4)).take(slice(None)).shape == (2, 3, 4, 3)
    assert ImageFolderReader("a", size=5).read(tmp_path, (3, 4)).take(slice(None)).shape == (
        2,
        5,
        5,
        3,
    )


def test_broken_images_are_errors_unless_skipped(tmp_path: Path) -> None:
    pictures(tmp_path / "a")
    (tmp_path / "a" / "dog" / "1.png").write_bytes(b"no image")
    with pytest.raises(InputError, match=r"dog/1\.png cannot be read"):
        ImageFolderReader("a").read(tmp_path, None)
    assert len(ImageFolderReader("a", skip_bad=True).read(tmp_path, None)) == 2


def test_file_in_place_of_a_folder_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("")
    with pytest.raises(InputError, match="a is a file; expected a folder"):
        ImageFolderReader("a").read(tmp_path, None)
