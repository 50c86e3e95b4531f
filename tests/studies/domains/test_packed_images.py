"""Packed images: decoding, resizing, and broken packs."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from oodometer.core.array_types import Array
from oodometer.core.errors import InputError
from oodometer.core.protocols import Dataset
from oodometer.studies.domains.packed_images import PackedImagesReader


def pictures(n: int = 3, side: int = 6) -> list[Array]:
    random = np.random.default_rng(0)
    return [random.integers(0, 256, (side, side, 3), dtype=np.uint8) for _ in range(n)]


def png(pixels: Array) -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "png")
    return file.getvalue()


def arrays(files: list[bytes], prefix: str = "", **other: Any) -> dict[str, Any]:
    sizes = [len(file) for file in files]
    made = {
        "bytes": np.frombuffer(b"".join(files), dtype=np.uint8),
        "off": np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        "y": np.arange(len(files)) % 2,
    }
    return {f"{prefix}{name}": array for name, array in {**made, **other}.items()}


def opened(folder: Path, prefix: str = "", **given: Any) -> Dataset:
    np.savez(folder / "pack.npz", **given)
    return PackedImagesReader("pack.npz", prefix).read(folder, None)


def test_images_equal_their_decoded_files(tmp_path: Path) -> None:
    files = [png(image) for image in pictures()]
    data = opened(tmp_path, "test_", **arrays(files[:1], "train_"), **arrays(files, "test_"))
    assert isinstance(data, Dataset)
    assert np.array_equal(data.take(slice(None)), pictures())
    assert np.array_equal(data.take(np.array([2, 0])), [pictures()[2], pictures()[0]])
    some = data.rows(np.array([2, 1]))
    assert np.array_equal(some.take(slice(None)), [pictures()[2], pictures()[1]])
    assert np.array_equal(some.keys, data.keys[[2, 1]])
    assert some.labels is not None
    assert some.labels.tolist() == [0, 1]
    assert len({data.fingerprint, some.fingerprint}) == 2


def test_images_are_resized(tmp_path: Path) -> None:
    files = [png(pictures(side=6)[0]), png(pictures(side=9)[0][:, :, 0])]
    np.savez(tmp_path / "pack.npz", **arrays(files))
    assert PackedImagesReader("pack.npz").read(tmp_path, None).take(slice(None)).shape == (
        2,
        6,
        6,
        3,
    )
    assert PackedImagesReader("pack.npz").read(tmp_path, (4, 5)).take(slice(None)).shape == (
        2,
        4,
        5,
        3,
    )


def test_broken_image_is_named_by_its_row(tmp_path: Path) -> None:
    data = opened(tmp_path, **arrays([png(pictures()[0]), b"no image"]))
    with pytest.raises(InputError, match="Cannot decode row 1: its 8 bytes are not an image"):
        data.take(slice(None))


@pytest.mark.parametrize(
    ("other", "why"),
    [
        ({"y": np.zeros(2)}, "there are 3 inputs and 2 labels"),
        ({"off": np.array([0, 9, 5, 20])}, "the offsets must increase"),
        ({"off": np.array([0, 9, 20, 10**6])}, "the offsets must increase"),
        ({"off": np.array([], dtype=np.int64)}, "a list of offsets"),
        ({"bytes": np.zeros(900)}, "must be uint8"),
    ],
)
def test_inconsistent_packs_are_rejected(tmp_path: Path, other: dict[str, Any], why: str) -> None:
    with pytest.raises(InputError, match=why):
        opened(tmp_path, **arrays([png(image) for image in pictures()], **other))


def test_wrong_prefix_lists_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"there is no array 'bytes'.*train_bytes.*prefix"):
        opened(tmp_path, **arrays([png(pictures()[0])], "train_"))


def test_conditions_select_rows(tmp_path: Path) -> None:
    domain: dict[str, Any] = {"domain": np.array([1, 0, 1]), "domains": np.array(["art", "photo"])}
    np.savez(tmp_path / "pack.npz", **arrays([png(image) for image in pictures()]), **domain)
    photos = PackedImagesReader("pack.npz", where=(("domain", "photo"),)).read(tmp_path, None)
    assert np.array_equal(photos.take(slice(None)), [pictures()[0], pictures()[2]])
    assert photos.labels is not None
    assert photos.labels.tolist() == [0, 0]
    with pytest.raises(InputError, match=r"No row has domain = 'sketch'\. Values: art, photo"):
        PackedImagesReader("pack.npz", where=(("domain", "sketch"),)).read(tmp_path, None)


def test_subclasses_are_merged_and_other_classes_left_out(tmp_path: Path) -> None:
    pack = arrays([png(image) for image in pictures()], y=np.array([0, 1, 2]))
    np.savez(tmp_path / "pack.npz", **pack, wnids=np.array(["n01", "n02", "n03"]))
    animals = PackedImagesReader("pack.npz", subclasses=(("dog", ("n03", "n01")),))
    data = animals.read(tmp_path, None)
    assert np.array_equal(data.take(slice(None)), [pictures()[0], pictures()[2]])
    assert data.labels is not None
    assert data.labels.tolist() == ["dog", "dog"]
    with pytest.raises(InputError, match="no class has the WordNet id 'n09', a subclass of 'cat'"):
        PackedImagesReader("pack.npz", subclasses=(("cat", ("n09",)),)).read(tmp_path, None)
    np.savez(tmp_path / "pack.npz", **pack)
    with pytest.raises(InputError, match="there is no array 'wnids'"):
        animals.read(tmp_path, None)


def test_pack_without_images_is_rejected(tmp_path: Path) -> None:
    empty: dict[str, Any] = {
        "bytes": np.zeros(0, np.uint8),
        "off": np.zeros(1, np.int64),
        "y": np.zeros(0),
    }
    with pytest.raises(InputError, match="has no images"):
        opened(tmp_path, **empty)
