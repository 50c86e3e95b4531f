"""Colour operations of RandAugment on one image (Cubuk et al., CVPRW 2020).

The results equal those of Pillow bit for bit, and are computed faster. An image is uint8 (height,
width) or (height, width, 3). Operations on single pixel values use a lookup table of 256 values.
Enhancers interpolate between a base image (black, grey, blurred) at factor 0 and the image at
factor 1, and extrapolate beyond.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from oodometer.core.array_types import Array, Bools, Floats
from oodometer.core.optional_imports import opencv

Image = npt.NDArray[np.uint8]

PIXEL_VALUES: Image = np.arange(256, dtype=np.uint8)
# Luma of ITU-R 601 in multiples of 1/65536, plus 1/2 for rounding: 24 bits, exact in float32.
LUMA_WEIGHTS = np.array([[19595, 38470, 7471, 32768]]) / 65536
# Mean over the 3 × 3 neighborhood with weight 5 at the centre.
SMOOTHING_KERNEL = np.array([[1, 1, 1], [1, 5, 1], [1, 1, 1]], dtype=np.float32) / 13


def apply_lookup_table(image: Image, table: Image) -> Image:
    """Map every value through a table of shape (256,), or (1, 256, 3) with one per channel."""
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
    """Return the luma (299 R + 587 G + 114 B) / 1000 of a colour image, or a grey image unchanged.

    >>> to_grayscale(np.array([[[255, 0, 0], [0, 255, 0]]], dtype=np.uint8))
    array([[ 76, 150]], dtype=uint8)
    """
    if image.ndim == 2:
        return image
    luma: Floats = opencv().transform(image.astype(np.float32), LUMA_WEIGHTS)
    return luma.astype(np.uint8)


def map_channels(image: Image, values: Array, *, unchanged: Bools) -> Image:
    """Map each channel by its row of `values` (channels, 256), clipped to 0 … 255."""
    tables: Image = values.clip(0, 255).astype(np.uint8)
    tables[unchanged] = PIXEL_VALUES
    return apply_lookup_table(image, tables[0] if image.ndim == 2 else tables.T[None].copy())


def autocontrast(image: Image) -> Image:
    """Stretch each channel so that its darkest value is 0 and its brightest 255."""
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
    # Counts are far below 2^53, so they and the integer parts of their ratios are exact as floats.
    histogram = np.array(counts, dtype=np.float64).reshape(-1, 256)
    up_to = histogram.cumsum(axis=1)
    below = up_to - histogram
    step = below[channels, up_to.argmax(axis=1), None] // 255
    return map_channels(image, (step // 2 + below) / np.maximum(step, 1), unchanged=step[:, 0] == 0)


def solarize(image: Image, threshold: float) -> Image:
    """Invert the values at or above the threshold.

    >>> solarize(np.array([[10, 200]], dtype=np.uint8), 128)
    array([[10, 55]], dtype=uint8)
    """
    return apply_lookup_table(
        image, np.where(threshold > PIXEL_VALUES, PIXEL_VALUES, 255 - PIXEL_VALUES)
    )


def posterize(image: Image, bits: float) -> Image:
    """Keep the upper `bits` bits of every value, rounded to a whole number of bits.

    >>> posterize(np.array([[15, 201]], dtype=np.uint8), 4)
    array([[  0, 192]], dtype=uint8)
    """
    return apply_lookup_table(image, PIXEL_VALUES & np.uint8(256 - 2 ** (8 - round(bits))))


def color(image: Image, factor: float) -> Image:
    """Scale the saturation: 0 is grey, 1 the image. Grey images are not changed."""
    if image.ndim == 2:
        return image
    cv = opencv()
    return blend(cv.cvtColor(to_grayscale(image), cv.COLOR_GRAY2RGB), image, factor)


def contrast(image: Image, factor: float) -> Image:
    """Scale the contrast: 0 is the mean grey value, 1 the image."""
    gray = to_grayscale(image)
    mean = int(opencv().sumElems(gray)[0] / gray.size + 0.5)
    return apply_lookup_table(image, blend(mean, PIXEL_VALUES, factor))


def brightness(image: Image, factor: float) -> Image:
    """Scale the brightness: 0 is black, 1 the image.

    >>> brightness(np.array([[10, 200]], dtype=np.uint8), 1.5)
    array([[ 15, 255]], dtype=uint8)
    """
    return apply_lookup_table(image, blend(0, PIXEL_VALUES, factor))


def sharpness(image: Image, factor: float) -> Image:
    """Scale the sharpness: 0 is smoothed, 1 the image. Border pixels are not changed."""
    smooth = image.copy()
    smooth[1:-1, 1:-1] = opencv().filter2D(image, -1, SMOOTHING_KERNEL)[1:-1, 1:-1]
    return blend(smooth, image, factor)
