"""Color operations of RandAugment on one image (Cubuk et al., CVPRW 2020).

The results equal those of Pillow bit for bit, and are computed faster. An image is a uint8 array
of shape (height, width) or (height, width, 3). Operations that change each pixel value on its own
use a lookup table of 256 values. `color`, `contrast`, `brightness` and `sharpness` interpolate
between a base image (gray, black or smoothed) at factor 0 and the original image at factor 1. At
factors above 1, they extrapolate.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from oodometer.core.array_types import Array, Bools, Floats
from oodometer.core.optional_imports import opencv

Image = npt.NDArray[np.uint8]

PIXEL_VALUES: Image = np.arange(256, dtype=np.uint8)
# Weights of red, green and blue in the luma of ITU-R 601, as multiples of 1/65536, and 1/2 for
# rounding. The products have at most 24 bits, so they are exact in float32.
LUMA_WEIGHTS = np.array([[19595, 38470, 7471, 32768]]) / 65536
# Weighted mean of 3 × 3 pixels; the center has weight 5.
SMOOTHING_KERNEL = np.array([[1, 1, 1], [1, 5, 1], [1, 1, 1]], dtype=np.float32) / 13


def apply_lookup_table(image: Image, table: Image) -> Image:
    """Replace every pixel value by its entry in a lookup table.

    The table has shape (256,), or (1, 256, 3) with one column per channel.
    """
    result: Image = opencv().LUT(image, table)
    return result


def blend(base: Image | int, image: Image, factor: float) -> Image:
    """Return base + factor · (image − base), clipped to 0 … 255 and truncated to integers.

    >>> blend(100, np.array([110, 250, 90], dtype=np.uint8), 2.5)
    array([125, 255,  75], dtype=uint8)
    """
    mixed: Floats = np.subtract(image, base, dtype=np.float32)
    mixed *= np.float32(factor)
    mixed += base
    return mixed.clip(0, 255, out=mixed).astype(np.uint8)


def to_grayscale(image: Image) -> Image:
    """Return the luma (299 R + 587 G + 114 B) / 1000; gray images are returned unchanged.

    >>> to_grayscale(np.array([[[255, 0, 0], [0, 255, 0]]], dtype=np.uint8))
    array([[ 76, 150]], dtype=uint8)
    """
    if image.ndim == 2:
        return image
    luma: Floats = opencv().transform(image.astype(np.float32), LUMA_WEIGHTS)
    return luma.astype(np.uint8)


def map_channels(image: Image, values: Array, *, unchanged: Bools) -> Image:
    """Replace the pixel values of each channel by the entries of its row in `values`.

    `values` has shape (channels, 256) and is clipped to 0 … 255. `unchanged` marks channels that
    keep their pixel values.
    """
    tables: Image = values.clip(0, 255).astype(np.uint8)
    tables[unchanged] = PIXEL_VALUES
    return apply_lookup_table(image, tables[0] if image.ndim == 2 else tables.T[None].copy())


def autocontrast(image: Image) -> Image:
    """Stretch each channel so that its darkest value becomes 0 and its brightest becomes 255."""
    cv = opencv()
    ends = np.array([cv.minMaxLoc(channel)[:2] for channel in cv.split(image)])
    low, high = ends[:, :1], ends[:, 1:]
    scale = 255.0 / np.maximum(high - low, 1)
    return map_channels(
        image, PIXEL_VALUES * scale - low * scale, unchanged=ends[:, 0] == ends[:, 1]
    )


def equalize(image: Image) -> Image:
    """Equalize the histogram of each channel.

    A channel with fewer than 255 pixels darker than its brightest value is not changed.
    """
    channels = range(1 if image.ndim == 2 else image.shape[2])
    counts = [opencv().calcHist([image], [c], None, [256], [0, 256]) for c in channels]
    # Counts are far below 2^53, so counts and the integer parts of their ratios are exact floats.
    histogram = np.array(counts, dtype=np.float64).reshape(-1, 256)
    up_to = histogram.cumsum(axis=1)
    below = up_to - histogram
    step = below[channels, up_to.argmax(axis=1), None] // 255
    return map_channels(image, (step // 2 + below) / np.maximum(step, 1), unchanged=step[:, 0] == 0)


def solarize(image: Image, threshold: float) -> Image:
    """Invert the pixel values at or above the threshold: v becomes 255 − v.

    >>> solarize(np.array([[10, 200]], dtype=np.uint8), 128)
    array([[10, 55]], dtype=uint8)
    """
    return apply_lookup_table(
        image, np.where(threshold > PIXEL_VALUES, PIXEL_VALUES, 255 - PIXEL_VALUES)
    )


def posterize(image: Image, bits: float) -> Image:
    """Keep the upper `bits` bits of every pixel value and set the lower bits to 0.

    `bits` is rounded to a whole number.

    >>> posterize(np.array([[15, 201]], dtype=np.uint8), 4)
    array([[  0, 192]], dtype=uint8)
    """
    return apply_lookup_table(image, PIXEL_VALUES & np.uint8(256 - 2 ** (8 - round(bits))))


def color(image: Image, factor: float) -> Image:
    """Scale the saturation: factor 0 gives a gray image, and factor 1 the image itself.

    Gray images are not changed.
    """
    if image.ndim == 2:
        return image
    cv = opencv()
    return blend(cv.cvtColor(to_grayscale(image), cv.COLOR_GRAY2RGB), image, factor)


def contrast(image: Image, factor: float) -> Image:
    """Scale the contrast: factor 0 gives the mean gray value, and factor 1 the image itself."""
    gray = to_grayscale(image)
    mean = int(opencv().sumElems(gray)[0] / gray.size + 0.5)
    return apply_lookup_table(image, blend(mean, PIXEL_VALUES, factor))


def brightness(image: Image, factor: float) -> Image:
    """Scale the brightness: factor 0 gives a black image, and factor 1 the image itself.

    >>> brightness(np.array([[10, 200]], dtype=np.uint8), 1.5)
    array([[ 15, 255]], dtype=uint8)
    """
    return apply_lookup_table(image, blend(0, PIXEL_VALUES, factor))


def sharpness(image: Image, factor: float) -> Image:
    """Scale the sharpness: factor 0 gives a smoothed image, and factor 1 the image itself.

    Pixels at the border are not changed.
    """
    smooth = image.copy()
    smooth[1:-1, 1:-1] = opencv().filter2D(image, -1, SMOOTHING_KERNEL)[1:-1, 1:-1]
    return blend(smooth, image, factor)
