"""What happens to images in computers: contrast, pixelate, jpeg and elastic changes.

After Hendrycks & Dietterich, ICLR 2019. Sizes are shares of the shorter side.
"""

from __future__ import annotations

import math

import numpy as np

from oodometer.core.random_streams import Draws
from oodometer.core.softmax_kernels import Floats, Ints
from oodometer.transforms.corruptions.blur import opencv, side_of
from oodometer.transforms.corruptions.noise import Images, each, rounded, smooth

# Elastic changes are smooth over cells, so many a side.
CELLS = 6
# From this side on, JPEG is no coarser: there are so few qualities that severities would meet.
LARGE = 224


def contrast(images: Images, factor: float) -> Images:
    """mean + factor · (x − mean), the mean that of the image's own channel.

    >>> contrast(np.array([[[0, 100, 200]]], dtype=np.uint8), 0.5)
    array([[[ 50, 100, 150]]], dtype=uint8)
    """
    # Sums of whole numbers are exact, in whatever order they are added up.
    sums = images.sum(axis=(1, 2), keepdims=True, dtype=np.int64)
    means = sums / (images.shape[1] * images.shape[2])
    return rounded(means + factor * (images - means))


def pixelate(images: Images, share: float) -> Images:
    """Blocks of one value each, their mean.

    A block's side b is a share s of the image's, and a pixel is a block already: b² = 1 + (s side)².
    Whole blocks fill the image, as many as there is room for: at 8 × 8 the severities are alike.
    """
    cv = opencv()
    block = math.hypot(1, share * side_of(images))
    height, width = (max(int(size / block), 1) for size in images.shape[1:3])
    rows, columns = _owners(images.shape[1], height), _owners(images.shape[2], width)

    def blocked(image: Images) -> Floats:
        exact = image.astype(np.float32)
        means: Floats = cv.resize(exact, (width, height), interpolation=cv.INTER_AREA)
        return means[rows[:, None], columns]

    return each(images, blocked)


def _owners(size: int, count: int) -> Ints:
    """The block, of so many, that each pixel's centre lies in."""
    return (2 * np.arange(size) + 1) * count // (2 * size)


def jpeg(images: Images, percent: float) -> Images:
    """Written as JPEG, and read again.

    Its blocks have eight pixels in any image, so that one quality does more harm to a small one.
    So the encoder's steps, in percent of its usual ones, are `percent` for every pixel of the side.
    """
    cv = opencv()
    steps = percent * min(side_of(images), LARGE)
    settings = [cv.IMWRITE_JPEG_QUALITY, jpeg_quality(steps)]

    def read_again(image: Images) -> Images:
        # OpenCV takes the first channel for blue, and JPEG keeps blue worst.
        _, written = cv.imencode(".jpg", image[..., ::-1] if image.ndim == 3 else image, settings)
        read: Images = cv.imdecode(written, cv.IMREAD_UNCHANGED)
        return read[..., ::-1] if image.ndim == 3 else read

    return each(images, read_again)


def jpeg_quality(steps: float) -> int:
    """The quality, 1 … 100, at which the encoder's steps are so many percent of its usual ones.

    >>> [jpeg_quality(steps) for steps in (0, 20, 100, 200, 9_000)]
    [100, 90, 50, 25, 1]
    """
    return max(round(5000 / steps if steps > 100 else 100 - steps / 2), 1)


def elastic(images: Images, share: float, draws: Draws) -> Images:
    """Every pixel moved by up to a share of the side in x and in y, and its neighbors much alike."""
    cv = opencv()
    height, width = shape = images.shape[1:3]
    reach = share * side_of(images)
    across, down = (reach * (2 * smooth(draws.of(way), shape, cells=CELLS) - 1) for way in "xy")
    across += np.arange(width, dtype=np.float32)
    down += np.arange(height, dtype=np.float32)[:, None]

    def moved(image: Images, x: Floats, y: Floats) -> Images:
        result: Images = cv.remap(image, x, y, cv.INTER_LINEAR, borderMode=cv.BORDER_REFLECT)
        return result

    return each(images, moved, across, down)
