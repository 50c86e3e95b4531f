"""What happens to images in computers: contrast, pixelate, jpeg and elastic changes.

After Hendrycks & Dietterich, ICLR 2019. Sizes are shares of the shorter side.
"""

from __future__ import annotations

import math

import numpy as np

from oodometer.core.array_types import Floats, Ints
from oodometer.core.optional_imports import opencv
from oodometer.core.random_streams import RowStreams
from oodometer.transforms.corruptions.blur import shorter_side
from oodometer.transforms.corruptions.noise import Images, map_images, smooth_noise, to_uint8

# Elastic changes are smooth over cells, so many a side.
ELASTIC_CELLS = 6
# From this side on, JPEG is no coarser: there are so few qualities that severities would meet.
MAX_JPEG_SIDE_PIXELS = 224


def contrast(images: Images, factor: float) -> Images:
    """mean + factor · (x − mean), the mean that of the image's own channel.

    >>> contrast(np.array([[[0, 100, 200]]], dtype=np.uint8), 0.5)
    array([[[ 50, 100, 150]]], dtype=uint8)
    """
    # Sums of whole numbers are exact, in whatever order they are added up.
    sums = images.sum(axis=(1, 2), keepdims=True, dtype=np.int64)
    means = sums / (images.shape[1] * images.shape[2])
    return to_uint8(means + factor * (images - means))


def pixelate(images: Images, share: float) -> Images:
    """Blocks of one value each, their mean.

    A block's side b is a share s of the image's, and a pixel is a block already: b² = 1 + (s side)².
    Whole blocks fill the image, as many as there is room for: at 8 × 8 the severities are alike.
    """
    cv = opencv()
    block = math.hypot(1, share * shorter_side(images))
    height, width = (max(int(size / block), 1) for size in images.shape[1:3])
    rows, columns = _block_indices(images.shape[1], height), _block_indices(images.shape[2], width)

    def blocked(image: Images) -> Floats:
        exact = image.astype(np.float32)
        means: Floats = cv.resize(exact, (width, height), interpolation=cv.INTER_AREA)
        return means[rows[:, None], columns]

    return map_images(images, blocked)


def _block_indices(size: int, n_blocks: int) -> Ints:
    """The block, of so many, that each pixel's centre lies in."""
    return (2 * np.arange(size) + 1) * n_blocks // (2 * size)


def jpeg(images: Images, percent: float) -> Images:
    """Written as JPEG, and read again.

    Its blocks have eight pixels in any image, so that one quality does more harm to a small one.
    So the encoder's steps, in percent of its usual ones, are `percent` for every pixel of the side.
    """
    cv = opencv()
    steps = percent * min(shorter_side(images), MAX_JPEG_SIDE_PIXELS)
    settings = [cv.IMWRITE_JPEG_QUALITY, jpeg_quality(steps)]

    def read_again(image: Images) -> Images:
        # OpenCV takes the first channel for blue, and JPEG keeps blue worst.
        _, written = cv.imencode(".jpg", image[..., ::-1] if image.ndim == 3 else image, settings)
        read: Images = cv.imdecode(written, cv.IMREAD_UNCHANGED)
        return read[..., ::-1] if image.ndim == 3 else read

    return map_images(images, read_again)


def jpeg_quality(step_percent: float) -> int:
    """The quality, 1 … 100, at which the encoder's steps are so many percent of its usual ones.

    >>> [jpeg_quality(steps) for steps in (0, 20, 100, 200, 9_000)]
    [100, 90, 50, 25, 1]
    """
    return max(round(5000 / step_percent if step_percent > 100 else 100 - step_percent / 2), 1)


def elastic(images: Images, share: float, draws: RowStreams) -> Images:
    """Every pixel moved by up to a share of the side in x and in y, and its neighbors much alike."""
    cv = opencv()
    height, width = shape = images.shape[1:3]
    reach = share * shorter_side(images)
    across, down = (
        reach * (2 * smooth_noise(draws.substream(way), shape, cells=ELASTIC_CELLS) - 1)
        for way in "xy"
    )
    across += np.arange(width, dtype=np.float32)
    down += np.arange(height, dtype=np.float32)[:, None]

    def moved(image: Images, x: Floats, y: Floats) -> Images:
        result: Images = cv.remap(image, x, y, cv.INTER_LINEAR, borderMode=cv.BORDER_REFLECT)
        return result

    return map_images(images, moved, across, down)
