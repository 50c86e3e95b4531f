"""Noise in images: Gaussian, shot, impulse and speckle; and smooth noise, to make clouds of.

Images are uint8 (n, height, width) or (n, height, width, 3). After Hendrycks & Dietterich, ICLR
2019. A row's noise comes from the row's own stream, and the same one at every severity.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from oodometer.core.array_types import Array, Floats, Ints
from oodometer.core.random_streams import RowStreams

Images = npt.NDArray[np.uint8]


def to_uint8(values: Array) -> Images:
    """The nearest whole values of 0 … 255.

    >>> to_uint8(np.array([-3.0, 1.6, 270.0]))
    array([  0,   2, 255], dtype=uint8)
    """
    if values.dtype == np.uint8:
        return values
    result: Images = np.rint(values).clip(0, 255).astype(np.uint8)
    return result


def map_images(
    images: Images, function: Callable[..., Array], *per_image_args: Iterable[Any]
) -> Images:
    """The change of every image and of what is its own, rounded, in a new array."""
    changed = np.empty_like(images)
    for row, image, *parts in zip(changed, images, *per_image_args, strict=True):
        row[...] = to_uint8(function(image, *parts))
    return changed


def gaussian(images: Images, deviation: float, draws: RowStreams) -> Images:
    """x + 255 · deviation · N(0, 1), every value by itself."""

    def noisy(image: Images, rng: np.random.Generator) -> Array:
        return image + 255 * deviation * rng.standard_normal(image.shape, dtype=np.float32)

    return map_images(images, noisy, draws.generators())


def speckle(images: Images, deviation: float, draws: RowStreams) -> Images:
    """x + x · deviation · N(0, 1): black stays black."""

    def noisy(image: Images, rng: np.random.Generator) -> Array:
        return image + image * (deviation * rng.standard_normal(image.shape, dtype=np.float32))

    return map_images(images, noisy, draws.generators())


def shot(images: Images, photons: float, draws: RowStreams) -> Images:
    """Light comes in grains: Poisson(photons · x / 255) · 255 / photons.

    The mean is x, the variance 255 x / photons. `photons` is what a white pixel gets.
    """
    # The mean number for each of the 256 values a pixel can have.
    means = np.arange(256) * (photons / 255)

    def noisy(image: Images, rng: np.random.Generator) -> Array:
        return rng.poisson(means[image]) * (255 / photons)

    return map_images(images, noisy, draws.generators())


def impulse(images: Images, share: float, draws: RowStreams) -> Images:
    """A share of the values becomes 0 or 255, at even odds: salt and pepper."""

    def noisy(image: Images, rng: np.random.Generator) -> Array:
        u = rng.random(image.shape, dtype=np.float32)
        return np.where(u < share, np.where(u < share / 2, np.uint8(0), np.uint8(255)), image)

    return map_images(images, noisy, draws.generators())


def smooth_noise(draws: RowStreams, shape: tuple[int, ...], *, cells: int) -> Floats:
    """Noise in 0 … 1 of (n, height, width) that is smooth over cells, so many a shorter side.

    Uniform numbers at the corners of the cells, and 3 t² − 2 t³ on the way from one to the next.
    """
    side = min(shape)
    counts = [max(round(cells * size / side), 1) for size in shape]
    knots = draws.uniforms((counts[0] + 1) * (counts[1] + 1)).astype(np.float32)
    rows = _interpolate(knots.reshape(-1, counts[0] + 1, counts[1] + 1), shape[0])
    return _interpolate(rows.swapaxes(1, 2), shape[1]).swapaxes(1, 2)


def _interpolate(knots: Floats, size: int) -> Floats:
    """(n, knots, m) read at the centres of `size` pixels that lie over the middle axis."""
    # No matrix product: its rounding may hang on the batch and on the machine's cores.
    place = (np.arange(size, dtype=np.float32) + 0.5) * ((knots.shape[1] - 1) / size)
    first: Ints = place.astype(np.int64)
    t = (place - first)[:, None].astype(np.float32)
    low = knots[:, first]
    result: Floats = low + (3 - 2 * t) * t * t * (knots[:, first + 1] - low)
    return result
