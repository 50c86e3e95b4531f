"""Digital corruptions: contrast, pixelation, JPEG, elastic (after Hendrycks & Dietterich, 2019).

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

# Number of cells of smooth noise along the shorter side.
ELASTIC_CELLS = 6
# Images with a larger shorter side are compressed as if it had this many pixels. There are too few
# low JPEG qualities to distinguish the severities otherwise.
MAX_JPEG_SIDE_PIXELS = 224


def contrast(images: Images, factor: float) -> Images:
    """Return mean + factor · (x − mean) for every pixel value x.

    The mean is taken over the image's channel.

    >>> contrast(np.array([[[0, 100, 200]]], dtype=np.uint8), 0.5)
    array([[[ 50, 100, 150]]], dtype=uint8)
    """
    # Integers are summed, because their sum is exact and does not depend on the order.
    sums = images.sum(axis=(1, 2), keepdims=True, dtype=np.int64)
    means = sums / (images.shape[1] * images.shape[2])
    return to_uint8(means + factor * (images - means))


def pixelate(images: Images, share: float) -> Images:
    """Replace each block of pixels by its mean.

    The side b of a block follows from b² = 1 + (share · s)², where s is the shorter side of the
    image, so b is at least one pixel. The image is then divided into whole blocks of about this
    size. At 8 × 8 pixels, this gives the same blocks for all severities.
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
    """Return the index of the block that contains each pixel's center."""
    return (2 * np.arange(size) + 1) * n_blocks // (2 * size)


def jpeg(images: Images, percent: float) -> Images:
    """Compress images as JPEG and decompress them.

    JPEG blocks are eight pixels wide at any image size, so the same quality harms small images more
    than large ones. Therefore the quantization steps grow with the image: they are `percent` times
    the shorter side in pixels, in percent of the standard steps.
    """
    cv = opencv()
    steps = percent * min(shorter_side(images), MAX_JPEG_SIDE_PIXELS)
    settings = [cv.IMWRITE_JPEG_QUALITY, jpeg_quality(steps)]

    def recompress(image: Images) -> Images:
        # OpenCV expects the channels in the order blue, green, red. The order matters, because JPEG
        # preserves blue worst.
        _, encoded = cv.imencode(".jpg", image[..., ::-1] if image.ndim == 3 else image, settings)
        decoded: Images = cv.imdecode(encoded, cv.IMREAD_UNCHANGED)
        return decoded[..., ::-1] if image.ndim == 3 else decoded

    return map_images(images, recompress)


def jpeg_quality(step_percent: float) -> int:
    """Return the JPEG quality (1 … 100) that has quantization steps of a given size.

    The size is given in percent of the standard steps.

    >>> [jpeg_quality(steps) for steps in (0, 20, 100, 200, 9_000)]
    [100, 90, 50, 25, 1]
    """
    return max(round(5000 / step_percent if step_percent > 100 else 100 - step_percent / 2), 1)


def elastic(images: Images, share: float, draws: RowStreams) -> Images:
    """Displace pixels by a smooth random field.

    The displacement in x and in y is at most `share` times the shorter side.
    """
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
