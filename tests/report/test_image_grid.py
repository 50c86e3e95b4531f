"""Pictures of neighborhoods: pixels, frames, captions, sizes."""

from __future__ import annotations

import importlib
from typing import Any

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oodometer.core.errors import MissingExtra
from oodometer.report.image_grid import (
    FRAME_PIXELS,
    GAP_PIXELS,
    LINE_PIXELS,
    MAX_SIDE_PIXELS,
    THUMBNAIL_SIDE_PIXELS,
    ImageCaption,
    draw_image_grid,
    resize_for_display,
    thumbnail,
)

VERMILION = (213, 94, 0)
PLAIN, FRAMED = ImageCaption("cat", "original", False), ImageCaption("!= dog", "draw 1", True)
sides = st.integers(1, 400)


def drawn(images: Any, *captions: ImageCaption) -> Any:
    """Return the picture in RGB order."""
    data = np.frombuffer(draw_image_grid(images, captions), dtype=np.uint8)
    decoded = cv2.imdecode(data, cv2.IMREAD_COLOR)
    assert decoded is not None
    return decoded[..., ::-1]


def inside(picture: Any, shape: tuple[int, ...], number: int = 0) -> Any:
    """Return the image in a cell of the first row."""
    height, width = shape[:2]
    left = GAP_PIXELS + FRAME_PIXELS + number * (width + 2 * FRAME_PIXELS + GAP_PIXELS)
    return picture[
        GAP_PIXELS + FRAME_PIXELS : GAP_PIXELS + FRAME_PIXELS + height, left : left + width
    ]


@given(height=sides, width=sides)
def test_display_size_is_bounded(height: int, width: int) -> None:
    shape = resize_for_display(np.zeros((height, width), dtype=np.uint8)).shape
    assert 64 <= max(shape) <= MAX_SIDE_PIXELS
    if max(height, width) <= MAX_SIDE_PIXELS:
        factor = shape[0] // height
        assert shape == (factor * height, factor * width)
    else:
        assert shape[0] == pytest.approx(height * MAX_SIDE_PIXELS / max(height, width), abs=1)


def test_enlarging_repeats_pixels() -> None:
    image = np.arange(64, dtype=np.uint8).reshape(8, 8)
    assert np.array_equal(
        resize_for_display(image), np.kron(image, np.ones((16, 16), dtype=np.uint8))
    )


def test_reducing_averages_pixels() -> None:
    image = np.zeros((320, 320), dtype=np.uint8)
    image[:, ::2] = 100
    assert (resize_for_display(image) == 50).all()


@pytest.mark.parametrize("side", [8, 100])
def test_colors_are_preserved(side: int) -> None:
    image = np.zeros((1, side, side, 3), dtype=np.uint8)
    image[:, : side // 2] = (250, 20, 10)
    seen = drawn(image, PLAIN)
    expected = resize_for_display(image[0])
    assert np.array_equal(inside(seen, expected.shape), expected)


@pytest.mark.parametrize("shape", [(2, 16, 16), (2, 16, 16, 1), (2, 300, 200), (2, 300, 200, 1)])
def test_grey_images_stay_grey(shape: tuple[int, ...]) -> None:
    images = np.random.default_rng(0).integers(0, 256, size=shape, dtype=np.uint8)
    seen = drawn(images, PLAIN, PLAIN)
    second = resize_for_display(images[1])
    expected = np.broadcast_to(second.reshape(*second.shape[:2], 1), (*second.shape[:2], 3))
    assert np.array_equal(inside(seen, second.shape, number=1), expected)


def test_only_marked_images_are_framed() -> None:
    images = np.zeros((2, 64, 64), dtype=np.uint8)
    seen = drawn(images, PLAIN, FRAMED)
    width = 128 + 2 * FRAME_PIXELS
    assert (
        seen[GAP_PIXELS : GAP_PIXELS + FRAME_PIXELS, GAP_PIXELS : GAP_PIXELS + width] == 255
    ).all()
    second = GAP_PIXELS + width + GAP_PIXELS
    assert (
        seen[GAP_PIXELS : GAP_PIXELS + FRAME_PIXELS, second : second + width] == VERMILION
    ).all()
    assert (
        seen[GAP_PIXELS : GAP_PIXELS + width, second : second + FRAME_PIXELS] == VERMILION
    ).all()


def test_captions_are_below_images_and_cut_at_the_cell() -> None:
    image = np.full((1, 64, 64), 255, dtype=np.uint8)
    seen = drawn(image, ImageCaption("class " * 1000, "", False))
    below = seen[GAP_PIXELS + 128 + 2 * FRAME_PIXELS :]
    assert below[:LINE_PIXELS].min() < 100
    assert below[LINE_PIXELS : 2 * LINE_PIXELS].min() == 255
    assert (below[:, -GAP_PIXELS:] == 255).all()


def test_many_images_are_arranged_in_rows() -> None:
    images = np.zeros((13, 160, 160), dtype=np.uint8)
    height, width, _ = drawn(images, *[PLAIN] * 13).shape
    cell = 160 + 2 * FRAME_PIXELS + GAP_PIXELS
    assert (height, width) == (GAP_PIXELS + 3 * (cell + 2 * LINE_PIXELS), GAP_PIXELS + 5 * cell)


def test_thin_image_is_drawn() -> None:
    seen = drawn(np.zeros((1, 1, 2000), dtype=np.uint8), PLAIN)
    assert seen.shape[1] == 160 + 2 * FRAME_PIXELS + 2 * GAP_PIXELS


@pytest.mark.parametrize("shape", [(8, 6), (8, 6, 1), (96, 20, 3)])
def test_small_image_is_its_own_thumbnail(shape: tuple[int, ...]) -> None:
    image = np.random.default_rng(0).integers(0, 256, size=shape, dtype=np.uint8)
    seen = cv2.imdecode(np.frombuffer(thumbnail(image), dtype=np.uint8), cv2.IMREAD_COLOR)
    assert seen is not None
    expected = np.broadcast_to(image.reshape(*shape[:2], -1), (*shape[:2], 3))
    assert np.array_equal(seen[..., ::-1], expected)


@given(height=sides, width=sides)
def test_thumbnails_have_a_maximum_size(height: int, width: int) -> None:
    made = thumbnail(np.full((height, width, 3), 7, dtype=np.uint8))
    seen = cv2.imdecode(np.frombuffer(made, dtype=np.uint8), cv2.IMREAD_COLOR)
    assert seen is not None
    assert max(seen.shape[:2]) == min(THUMBNAIL_SIDE_PIXELS, max(height, width))
    assert (seen == 7).all()


def test_missing_opencv_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> Any:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    monkeypatch.setattr(importlib, "import_module", absent)
    with pytest.raises(MissingExtra, match=r"'cv2'.*oodometer\[images\]"):
        draw_image_grid(np.zeros((1, 8, 8), dtype=np.uint8), [PLAIN])
