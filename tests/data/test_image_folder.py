"""Image folders: order, labels, color, size and broken files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from PIL import Image

from oodometer.core.array_types import Array
from oodometer.core.errors import InputError, MissingExtra
from oodometer.core.protocols import Dataset
from oodometer.data import ImageFolder, as_dataset
from oodometer.data.image_folder import Pixels, decode_image, resize_and_crop, silence_opencv


def picture(seed: int, *, height: int = 6, width: int = 8, grey: bool = False) -> Pixels:
    shape = (height, width) if grey else (height, width, 3)
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def written(path: Path, pixels: Array, **options: Any) -> Path:
    """Write images with Pillow, to detect a wrong channel order of OpenCV."""
    path.parent.mkdir(exist_ok=True)
    Image.fromarray(pixels).save(path, **options)
    return path


def opened(folder: Path, **options: Any) -> ImageFolder:
    data = as_dataset(folder, **options)
    assert isinstance(data, ImageFolder)
    return data


@pytest.mark.parametrize("ending", ["png", "bmp", "tif", "TIFF", "PNG"])
def test_lossless_images_round_trip(tmp_path: Path, ending: str) -> None:
    for name, seed in (("b", 1), ("a", 0), ("c", 2)):
        written(tmp_path / f"{name}.{ending}", picture(seed))
    (tmp_path / "notes.txt").write_text("no image")
    written(tmp_path / f".hidden.{ending}", picture(9))
    data = opened(tmp_path)
    assert isinstance(data, Dataset)
    assert (len(data), data.shape, data.labels, data.name) == (3, (6, 8, 3), None, tmp_path.name)
    assert np.array_equal(data.take(slice(None)), [picture(seed) for seed in range(3)])
    assert np.array_equal(data.take(np.array([2, 0])), [picture(2), picture(0)])
    assert [len(batch) for batch in data.batches(2)] == [2, 1]


@pytest.mark.parametrize("ending", ["jpg", "JPEG", "webp"])
def test_lossy_images_keep_their_colors(tmp_path: Path, ending: str) -> None:
    red = np.zeros((16, 16, 3), dtype=np.uint8)
    red[..., 0] = 200
    written(tmp_path / f"red.{ending}", red)
    assert np.abs(opened(tmp_path).take(slice(None))[0].astype(int) - red).max() < 12


def test_subfolders_are_classes(tmp_path: Path) -> None:
    for seed, name in enumerate(["dog/2.png", "cat/9.png", "dog/1.png"]):
        written(tmp_path / name, picture(seed))
    written(tmp_path / ".cache" / "1.png", picture(7))
    data = opened(tmp_path)
    assert data.files == ("cat/9.png", "dog/1.png", "dog/2.png")
    assert data.labels is not None
    assert data.labels.tolist() == ["cat", "dog", "dog"]
    some = data.rows(np.array([2, 0]))
    assert some.labels is not None
    assert (some.files, some.labels.tolist()) == (("dog/2.png", "cat/9.png"), ["dog", "cat"])
    assert some.keys.tolist() == data.keys[[2, 0]].tolist()
    assert np.array_equal(some.take(slice(0, 1))[0], picture(0))


def test_labels_can_be_passed(tmp_path: Path) -> None:
    written(tmp_path / "a.png", picture(0))
    data = opened(tmp_path, labels=[3], name="mine")
    assert data.labels is not None
    assert (data.labels.tolist(), data.name) == ([3], "mine")


def test_images_beside_class_folders_raise(tmp_path: Path) -> None:
    written(tmp_path / "loose.png", picture(0))
    written(tmp_path / "cat" / "1.png", picture(1))
    with pytest.raises(InputError, match=r"\(loose\.png\) and in them \(cat/1\.png\)"):
        as_dataset(tmp_path)


def test_gray_images_become_rgb_if_any_has_color(tmp_path: Path) -> None:
    grey = picture(0, grey=True)
    written(tmp_path / "a.png", grey)
    assert np.array_equal(opened(tmp_path).take(slice(None)), grey[None])
    written(tmp_path / "b.png", picture(1))
    both = opened(tmp_path).take(slice(None))
    assert np.array_equal(both, [np.stack([grey] * 3, axis=2), picture(1)])


def test_16_bit_and_transparent_images_are_converted(tmp_path: Path) -> None:
    deep = np.full((4, 4), 0xAB12, dtype=np.uint16)
    written(tmp_path / "deep.png", deep)
    assert (opened(tmp_path).take(slice(None)) == 0xAB).all()
    (tmp_path / "deep.png").unlink()
    clear = np.dstack([picture(0), np.full((6, 8), 9, dtype=np.uint8)])
    written(tmp_path / "clear.png", clear)
    assert np.array_equal(opened(tmp_path).take(slice(None))[0], picture(0))


def test_camera_orientation_is_applied(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[274] = 6
    written(tmp_path / "turned.jpg", picture(0, height=8, width=24), exif=exif)
    assert opened(tmp_path).shape == (24, 8, 3)


def test_images_of_different_sizes_need_a_size(tmp_path: Path) -> None:
    written(tmp_path / "a.png", picture(0))
    written(tmp_path / "b.png", picture(1, height=20, width=10))
    with pytest.raises(InputError, match=r"a\.png is 6×8, b\.png is 20×10\..*size=6"):
        as_dataset(tmp_path)
    assert opened(tmp_path, size=5).take(slice(None)).shape == (2, 5, 5, 3)
    assert opened(tmp_path, size=(4, 7)).take(slice(None)).shape == (2, 4, 7, 3)
    assert opened(tmp_path, size=5).fingerprint != opened(tmp_path, size=4).fingerprint
    assert np.array_equal(opened(tmp_path, size=5).keys, opened(tmp_path, size=4).keys)


@pytest.mark.parametrize("size", [0, -3, (4,), (4, 0), 2.5, (1, 2, 3)])
def test_invalid_sizes_raise(tmp_path: Path, size: Any) -> None:
    written(tmp_path / "a.png", picture(0))
    with pytest.raises(InputError, match="size must be a positive integer"):
        as_dataset(tmp_path, size=size)


def test_resizing_fits_the_shorter_side_and_keeps_the_center() -> None:
    stripes = np.repeat(np.arange(4, dtype=np.uint8) * 60, 10)[None].repeat(10, axis=0)
    assert resize_and_crop(stripes, (10, 20))[0].tolist() == [60] * 10 + [120] * 10
    assert resize_and_crop(stripes, (5, 10))[0].tolist() == [60] * 5 + [120] * 5
    same = resize_and_crop(stripes, (10, 40))
    assert np.array_equal(same, stripes)
    assert resize_and_crop(stripes, (30, 7)).shape == (30, 7)


def broken(folder: Path) -> None:
    """Write two valid images, a truncated one, an empty file and a text file."""
    for seed, name in enumerate(["a.png", "c.png"]):
        written(folder / name, picture(seed))
    whole = written(folder / "b.png", picture(2)).read_bytes()
    (folder / "b.png").write_bytes(whole[: len(whole) // 2])
    (folder / "d.jpg").write_bytes(b"")
    (folder / "e.jpg").write_bytes(b"this is no image at all" * 9)


def test_broken_images_raise_or_are_skipped(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    broken(tmp_path)
    level = cv2.utils.logging.getLogLevel()
    with pytest.raises(
        InputError, match=r"b\.png cannot be read \(3 of 5 images are invalid\).*skip_bad"
    ):
        as_dataset(tmp_path)
    data = opened(tmp_path, skip_bad=True, labels=[0, 1, 2, 3, 4])
    assert (data.files, data.skipped) == (("a.png", "c.png"), ("b.png", "d.jpg", "e.jpg"))
    assert data.labels is not None
    assert data.labels.tolist() == [0, 2]
    assert np.array_equal(data.take(slice(None)), [picture(0), picture(1)])
    assert capfd.readouterr() == ("", "")
    assert cv2.utils.logging.getLogLevel() == level


def test_opencv_log_level_is_restored_after_an_error() -> None:
    level = cv2.utils.logging.getLogLevel()
    with pytest.raises(ZeroDivisionError), silence_opencv():
        raise ZeroDivisionError
    assert cv2.utils.logging.getLogLevel() == level


def test_deleted_file_is_reported(tmp_path: Path) -> None:
    path = written(tmp_path / "a.png", picture(0))
    data = opened(tmp_path)
    path.unlink()
    with pytest.raises(InputError, match=r"a\.png can no longer be read"):
        data.take(slice(None))


def test_folder_without_images_raises(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("no image")
    written(tmp_path / "deep" / "a.png", picture(0)).rename(tmp_path / "moved.gif")
    with pytest.raises(InputError, match=r"and its subfolders have no images.*\.jpg"):
        as_dataset(tmp_path)


def test_fingerprint_depends_on_content_not_on_location(tmp_path: Path) -> None:
    for folder, names in (("one", "ab"), ("two", "xy"), ("three", "ba")):
        for seed, name in enumerate(names):
            written(tmp_path / folder / f"{name}.png", picture(seed))
    one, two, three = (opened(tmp_path / name) for name in ("one", "two", "three"))
    assert one.fingerprint == two.fingerprint != three.fingerprint
    assert one.keys.tolist() == three.keys.tolist()[::-1]


def test_only_requested_images_are_decoded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(4):
        written(tmp_path / f"{seed}.png", picture(seed))
    data, calls = opened(tmp_path), []

    def counting(content: bytes) -> Pixels | None:
        calls.append(content)
        return decode_image(content)

    monkeypatch.setattr("oodometer.data.image_folder.decode_image", counting)
    data.take(np.array([2]))
    assert calls == [(tmp_path / "2.png").read_bytes()]


def test_missing_opencv_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path / "a.png", picture(0))
    monkeypatch.setitem(__import__("sys").modules, "cv2", None)
    with pytest.raises(MissingExtra, match=r"oodometer\[images\]"):
        as_dataset(tmp_path)
