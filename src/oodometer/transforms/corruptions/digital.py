"""Contrast, pixelation, JPEG and elastic corruptions (after Hendrycks & Dietterich, ICLR 2019).

Sizes are fractions of the shorter side.
"""

from __future__ import annotations

import math

import numpy as np

from oodometer.core.array_types import Floats, Ints
from oodometer.core.optional_imports import opencv
from oodometer.core.random_streams import RowStreams
from oodometer.transforms.corruptions.blur import shorter_side
from oodometer.transforms.corruptions.noise import Images, map_images, smooth_noise, to_uint8

# Cells of smooth noise per shorter side.
ELASTIC_CELLS = 6
# JPEG gets no coarser beyond this side: the lowest qualities are too few to separate severities.
MAX_JPEG_SIDE_PIXELS = 224


def contrast(images: Images, factor: float) -> Images:
    """Return mean + factor · (x − mean), with the mean of the image's channel.

    >>> contrast(np.array([[[0, 100, 200]]], dtype=np.uint8), 0.5)
    array([[[ 50, 100, 150]]], dtype=uint8)
    """
    # Sums of integers are exact in any order.
    sums = images.sum(axis=(1, 2), keepdims=True, dtype=np.int64)
    means = sums / (images.shape[1] * images.shape[2])
    return to_uint8(means + factor * (images - means))


def pixelate(images: Images, share: float) -> Images:
    """Replace blocks by their mean.

    The side b of a block is at least one pixel: b² = 1 + (share · side)². The image is filled with
    as many whole blocks as fit, so that at 8 × 8 pixels all severities are alike.
    """
    cv = opencv()
    block = math.hypot(1, share * shorter_side(images))
    height, width = (max(int(size / block), 1) for size in images.shape[1:3])
    rows = _block_indices(images.shape[1], height)
    columns = _block_indices(images.shape[2], width)

    def block_means(image: Images) -> Floats:
        exact = image.astype(np.float32)
        means: Floats = cv.resize(exact, (width, height), interpolation=cv.INTER_AREA)
        return means[rows[:, None], columns]

    return map_images(images, block_means)


def _block_indices(size: int, n_blocks: int) -> Ints:
    """Return the index of the block that contains each pixel's centre."""
    return (2 * np.arange(size) + 1) * n_blocks // (2 * size)


def jpeg(images: Images, percent: float) -> Images:
    """Compress as JPEG and decompress.

    JPEG blocks have eight pixels at any image size, so one quality harms small images more.
    Therefore the quantization steps, in percent of the standard ones, are `percent` per pixel of
    the shorter side.
    """
    cv = opencv()
    steps = percent * min(shorter_side(images), MAX_JPEG_SIDE_PIXELS)
    settings = [cv.IMWRITE_JPEG_QUALITY, jpeg_quality(steps)]

    def recompress(image: Images) -> Images:
        # OpenCV expects blue first; the order matters because JPEG preserves blue worst.
        _, encoded = cv.imencode(".jpg", image[..., ::-1] if image.ndim == 3 else image, settings)
        decoded: Images = cv.imdecode(encoded, cv.IMREAD_UNCHANGED)
        return decoded[..., ::-1] if image.ndim == 3 else decoded

    return map_images(images, recompress)


def jpeg_quality(step_percent: float) -> int:
    """Return the quality (1 … 100) for quantization steps of a percentage of the standard ones.

    >>> [jpeg_quality(steps) for steps in (0, 20, 100, 200, 9_000)]
    [100, 90, 50, 25, 1]
    """
    return max(round(5000 / step_percent if step_percent > 100 else 100 - step_percent / 2), 1)


def elastic(images: Images, share: float, draws: RowStreams) -> Images:
    """Displace pixels smoothly by up to `share` of the shorter side in x and y."""
    cv = opencv()
    height, width = shape = images.shape[1:3]
    reach = share * shorter_side(images)
    across, down = (
        reach * (2 * smooth_noise(draws.substream(axis), shape, cells=ELASTIC_CELLS) - 1)
        for axis in "xy"
    )
    across += np.arange(width, dtype=np.float32)
    down += np.arange(height, dtype=np.float32)[:, None]

    def displace(image: Images, x: Floats, y: Floats) -> Images:
        result: Images = cv.remap(image, x, y, cv.INTER_LINEAR, borderMode=cv.BORDER_REFLECT)
        return result

    return map_images(images, displace, across, down)
