"""Moves of the pixels of one image, uint8 (height, width) or (height, width, 3).

The operations of RandAugment take the nearest pixel, as its authors did: no new values arise,
and the result is Pillow's, bit for bit. Where a draw must count at any size, even at 8 × 8,
`shift_bilinear` and `crop_bilinear` read between the pixels. What comes from outside is 0.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from oodometer.core.array_types import Floats, Ints
from oodometer.core.optional_imports import opencv
from oodometer.transforms.color_ops import Image

# Pillow walks over the image in steps of 1/65536 pixel.
FIXED_POINT_SCALE = 65536


def rotate(image: Image, degrees: float) -> Image:
    """Turned about its middle, against the clock."""
    height, width = image.shape[:2]
    cos, sin = (round(turn(math.radians(-degrees)), 15) for turn in (math.cos, math.sin))
    x, y = width / 2, height / 2
    places = np.empty((height, width, 2), dtype=np.int16)
    places[:, :, 0] = _source_coordinates(width, height, (cos, sin, -cos * x - sin * y + x))
    places[:, :, 1] = _source_coordinates(width, height, (-sin, cos, sin * x - cos * y + y))
    return _remap_nearest(image, places)


def shear_x(image: Image, slope: float) -> Image:
    """Every row moved left by its distance from the top, times the slope."""
    height, width = image.shape[:2]
    places = _pixel_grid(width, height).copy()
    places[:, :, 0] += _source_coordinates(1, height, (1, slope, 0))
    return _remap_nearest(image, places)


def shear_y(image: Image, slope: float) -> Image:
    """Every column moved up by its distance from the left, times the slope."""
    height, width = image.shape[:2]
    places = _pixel_grid(width, height).copy()
    places[:, :, 1] += _source_coordinates(width, 1, (slope, 1, 0))
    return _remap_nearest(image, places)


def _source_coordinates(width: int, height: int, coefficients: tuple[float, float, float]) -> Ints:
    """The whole part of a x + b y + c at the centre of every pixel, (height, width)."""
    a, b, c = coefficients
    across = np.arange(width, dtype=np.int32) * _to_fixed_point(a)
    down = np.arange(height, dtype=np.int32) * _to_fixed_point(b) + _to_fixed_point(
        c + 0.5 * (a + b)
    )
    places: Ints = across + down[:, None]
    places >>= 16
    return places.astype(np.int16)


def _to_fixed_point(value: float) -> int:
    return math.floor(value * FIXED_POINT_SCALE + 0.5)


@lru_cache(maxsize=4)
def _pixel_grid(width: int, height: int) -> Ints:
    """Every pixel's own x and y."""
    return np.stack(np.meshgrid(*(np.arange(size, dtype=np.int16) for size in (width, height))), 2)


def _remap_nearest(image: Image, coordinates: Ints) -> Image:
    cv = opencv()
    result: Image = cv.remap(
        image, coordinates, None, cv.INTER_NEAREST, borderMode=cv.BORDER_CONSTANT
    )
    return result


def translate_x(image: Image, share: float) -> Image:
    """Moved left by a share of the width, rounded to whole pixels.

    >>> translate_x(np.array([[1, 2, 3, 4]], dtype=np.uint8), 0.25)
    array([[2, 3, 4, 0]], dtype=uint8)
    """
    width = image.shape[1]
    pixels = math.floor(share * width + 0.5)
    moved = np.zeros_like(image)
    moved[:, max(-pixels, 0) : max(width - pixels, 0)] = image[
        :, max(pixels, 0) : max(width + pixels, 0)
    ]
    return moved


def translate_y(image: Image, share: float) -> Image:
    """Moved up by a share of the height, rounded to whole pixels."""
    return translate_x(image.swapaxes(0, 1), share).swapaxes(0, 1)


def shift_bilinear(image: Image, right: float, down: float) -> Image:
    """Moved by any part of a pixel, read bilinearly (by OpenCV 4 at 32nds of a pixel)."""
    matrix = np.array([[1, 0, -right], [0, 1, -down]], dtype=np.float64)
    return _warp_bilinear(image, matrix, opencv().BORDER_CONSTANT)


def crop_bilinear(image: Image, left: float, width: float, top: float, height: float) -> Image:
    """A window, in pixels, read bilinearly at the image's own size.

    A negative width flips. No window is larger than the image, so no pixel is passed over.
    """
    x, y = width / image.shape[1], height / image.shape[0]
    matrix = np.array([[x, 0, left + x / 2 - 0.5], [0, y, top + y / 2 - 0.5]], dtype=np.float64)
    return _warp_bilinear(image, matrix, opencv().BORDER_REPLICATE)


def _warp_bilinear(image: Image, matrix: Floats, border: int) -> Image:
    cv = opencv()
    flags = cv.INTER_LINEAR | cv.WARP_INVERSE_MAP
    result: Image = cv.warpAffine(image, matrix, image.shape[1::-1], flags=flags, borderMode=border)
    return result
