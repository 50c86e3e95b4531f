"""Affine operations on one image: rotation, shear, translation and cropping.

An image is a uint8 array of shape (height, width) or (height, width, 3). The operations of
RandAugment (`rotate`, `shear_*`, `translate_*`) use the nearest pixel, as its authors did, and
their results equal those of Pillow bit for bit. `shift_bilinear` and `crop_bilinear` interpolate,
so that small shifts have an effect even at 8 × 8 pixels. Where the result shows an area outside of
the original image, pixels are 0.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from oodometer.core.array_types import Floats, Ints
from oodometer.core.optional_imports import opencv
from oodometer.transforms.color_ops import Image

# Pillow computes coordinates in multiples of 1/65536 pixel.
FIXED_POINT_SCALE = 65536


def rotate(image: Image, degrees: float) -> Image:
    """Rotate the image counterclockwise about its center."""
    height, width = image.shape[:2]
    radians = math.radians(-degrees)
    cos = round(math.cos(radians), 15)
    sin = round(math.sin(radians), 15)
    x = width / 2
    y = height / 2
    coordinates = np.empty((height, width, 2), dtype=np.int16)
    coordinates[:, :, 0] = _source_coordinates(width, height, (cos, sin, -cos * x - sin * y + x))
    coordinates[:, :, 1] = _source_coordinates(width, height, (-sin, cos, sin * x - cos * y + y))
    return _remap_nearest(image, coordinates)


def shear_x(image: Image, slope: float) -> Image:
    """Shift every row of pixels left by `slope` times its distance from the top."""
    height, width = image.shape[:2]
    coordinates = _pixel_grid(width, height).copy()
    coordinates[:, :, 0] += _source_coordinates(1, height, (1, slope, 0))
    return _remap_nearest(image, coordinates)


def shear_y(image: Image, slope: float) -> Image:
    """Shift every column of pixels up by `slope` times its distance from the left."""
    height, width = image.shape[:2]
    coordinates = _pixel_grid(width, height).copy()
    coordinates[:, :, 1] += _source_coordinates(width, 1, (slope, 1, 0))
    return _remap_nearest(image, coordinates)


def _source_coordinates(width: int, height: int, coefficients: tuple[float, float, float]) -> Ints:
    """Return ⌊a x + b y + c⌋ at the center (x, y) of every pixel, as an array (height, width)."""
    a, b, c = coefficients
    across = np.arange(width, dtype=np.int32) * _to_fixed_point(a)
    down = np.arange(height, dtype=np.int32) * _to_fixed_point(b) + _to_fixed_point(
        c + 0.5 * (a + b)
    )
    coordinates: Ints = across + down[:, None]
    coordinates >>= 16
    return coordinates.astype(np.int16)


def _to_fixed_point(value: float) -> int:
    return math.floor(value * FIXED_POINT_SCALE + 0.5)


@lru_cache(maxsize=4)
def _pixel_grid(width: int, height: int) -> Ints:
    """Return the x and y coordinates of every pixel."""
    return np.stack(np.meshgrid(*(np.arange(size, dtype=np.int16) for size in (width, height))), 2)


def _remap_nearest(image: Image, coordinates: Ints) -> Image:
    cv = opencv()
    result: Image = cv.remap(
        image, coordinates, None, cv.INTER_NEAREST, borderMode=cv.BORDER_CONSTANT
    )
    return result


def translate_x(image: Image, fraction: float) -> Image:
    """Shift the image left by a fraction of its width, rounded to whole pixels.

    >>> translate_x(np.array([[1, 2, 3, 4]], dtype=np.uint8), 0.25)
    array([[2, 3, 4, 0]], dtype=uint8)
    """
    width = image.shape[1]
    pixels = math.floor(fraction * width + 0.5)
    moved = np.zeros_like(image)
    moved[:, max(-pixels, 0) : max(width - pixels, 0)] = image[
        :, max(pixels, 0) : max(width + pixels, 0)
    ]
    return moved


def translate_y(image: Image, fraction: float) -> Image:
    """Shift the image up by a fraction of its height, rounded to whole pixels."""
    return translate_x(image.swapaxes(0, 1), fraction).swapaxes(0, 1)


def shift_bilinear(image: Image, right: float, down: float) -> Image:
    """Shift the image by any number of pixels with bilinear interpolation.

    OpenCV 4 rounds the shift to multiples of 1/32 pixel.
    """
    matrix = np.array([[1, 0, -right], [0, 1, -down]], dtype=np.float64)
    return _warp_bilinear(image, matrix, opencv().BORDER_CONSTANT)


def crop_bilinear(image: Image, left: float, width: float, top: float, height: float) -> Image:
    """Crop a window and resize it to the image's size with bilinear interpolation.

    The window is given in pixels. A negative width flips the image. A window is never larger than
    the image, so resizing never skips pixels.
    """
    x = width / image.shape[1]
    y = height / image.shape[0]
    matrix = np.array([[x, 0, left + x / 2 - 0.5], [0, y, top + y / 2 - 0.5]], dtype=np.float64)
    return _warp_bilinear(image, matrix, opencv().BORDER_REPLICATE)


def _warp_bilinear(image: Image, matrix: Floats, border: int) -> Image:
    cv = opencv()
    flags = cv.INTER_LINEAR | cv.WARP_INVERSE_MAP
    result: Image = cv.warpAffine(image, matrix, image.shape[1::-1], flags=flags, borderMode=border)
    return result
