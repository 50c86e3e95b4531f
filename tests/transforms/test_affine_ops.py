"""Affine operations against Pillow and against a loop over pixels."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from oodometer.core.optional_imports import opencv
from oodometer.transforms import affine_ops
from oodometer.transforms.color_ops import Image
from tests.support.cases import check_cases
from tests.support.pillow_twin import twin
from tests.support.small_images import SHAPES, pictures

NEAREST = {
    "rotate": (affine_ops.rotate, 180.0),
    "shear-x": (affine_ops.shear_x, 1.0),
    "shear-y": (affine_ops.shear_y, 1.0),
    "translate-x": (affine_ops.translate_x, 1.3),
    "translate-y": (affine_ops.translate_y, 1.3),
}


def test_nearest_neighbour_operations_match_pillow_exactly() -> None:
    def check(name: str, shape: tuple[int, ...]) -> None:
        warp, most = NEAREST[name]
        amounts = most * np.random.default_rng(0).uniform(-1, 1, 20)
        for image in pictures(shape).values():
            for amount in amounts:
                assert np.array_equal(warp(image, amount), twin(image, name, amount)), amount

    check_cases(check, itertools.product(NEAREST, SHAPES))


@pytest.mark.parametrize("degrees", [0, 90, 180, -90])
def test_rotations_by_right_angles_are_exact(degrees: int) -> None:
    image = pictures((9, 9, 3))["random"]
    assert np.array_equal(affine_ops.rotate(image, degrees), np.rot90(image, degrees // 90))


def interpolate(image: Image, x: float, y: float, *, repeat_edge: bool) -> float:
    """Return the bilinear interpolation at (x, y)."""
    height, width = image.shape
    total = 0.0
    for row in (math.floor(y), math.floor(y) + 1):
        for column in (math.floor(x), math.floor(x) + 1):
            weight = (1 - abs(y - row)) * (1 - abs(x - column))
            if repeat_edge:
                total += (
                    weight * image[min(max(row, 0), height - 1), min(max(column, 0), width - 1)]
                )
            elif 0 <= row < height and 0 <= column < width:
                total += weight * image[row, column]
    return total


# OpenCV 5 differs by rounding only; OpenCV 4 interpolates at 1/32 pixel, so that it is off by at
# most 1/64 pixel in x and y: 255 / 32 grey levels, plus rounding.
TOLERANCE = 0.51 if int(opencv().__version__.split(".")[0]) >= 5 else 8.5


@pytest.mark.parametrize("shape", SHAPES[:3])
@pytest.mark.parametrize(("right", "down"), [(0.4, -0.7), (-1.25, 0.0), (3.0, 2.0), (0.0, 0.01)])
def test_shifts_are_bilinear_with_zeros_outside(
    shape: tuple[int, int], right: float, down: float
) -> None:
    for image in pictures(shape).values():
        literal = [
            [interpolate(image, x - right, y - down, repeat_edge=False) for x in range(shape[1])]
            for y in range(shape[0])
        ]
        gap = np.abs(affine_ops.shift_bilinear(image, right, down) - np.array(literal))
        assert gap.max() <= TOLERANCE


@pytest.mark.parametrize("shape", SHAPES[:3])
@pytest.mark.parametrize("window", [(1.0, 4.0, 2.0, 4.0), (0.3, 7.7, 0.0, 5.5), (7.5, -6.0, 1, 3)])
def test_crops_are_bilinear_with_repeated_edges(
    shape: tuple[int, int], window: tuple[float, float, float, float]
) -> None:
    left, width, top, height = window
    for image in pictures(shape).values():
        literal = [
            [
                interpolate(
                    image,
                    left + (x + 0.5) * width / shape[1] - 0.5,
                    top + (y + 0.5) * height / shape[0] - 0.5,
                    repeat_edge=True,
                )
                for x in range(shape[1])
            ]
            for y in range(shape[0])
        ]
        assert (
            np.abs(affine_ops.crop_bilinear(image, *window) - np.array(literal)).max() <= TOLERANCE
        )


def test_full_window_is_the_image_or_its_mirror() -> None:
    def check(shape: tuple[int, ...]) -> None:
        height, width = shape[:2]
        for image in pictures(shape).values():
            assert np.array_equal(affine_ops.crop_bilinear(image, 0, width, 0, height), image)
            assert np.array_equal(
                affine_ops.crop_bilinear(image, width, -width, 0, height), image[:, ::-1]
            )

    check_cases(check, zip(SHAPES))


def test_whole_pixel_shifts_are_exact() -> None:
    def check(shape: tuple[int, ...]) -> None:
        image = pictures(shape)["random"]
        moved = np.zeros_like(image)
        moved[1:, 2:] = image[:-1, :-2]
        assert np.array_equal(affine_ops.shift_bilinear(image, 2, 1), moved)
        assert np.array_equal(affine_ops.shift_bilinear(image, 0, 0), image)

    check_cases(check, zip(SHAPES))
