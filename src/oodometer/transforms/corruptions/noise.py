"""Noise corruptions: Gaussian, shot, impulse and speckle (after Hendrycks & Dietterich, 2019).

`smooth_noise` is used for clouds and displacements. Images are uint8 arrays of shape
(n, height, width) or (n, height, width, 3). The noise of a row comes from the row's own random
stream, which is the same at every severity.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from oodometer.core.array_types import Array, Floats, Ints
from oodometer.core.random_streams import RowStreams

Images = npt.NDArray[np.uint8]
ToPixels = Callable[[Array], Images]


def to_uint8(values: Array) -> Images:
    """Round values to the nearest integers from 0 to 255.

    >>> to_uint8(np.array([-3.0, 1.6, 270.0]))
    array([  0,   2, 255], dtype=uint8)
    """
    if values.dtype == np.uint8:
        return values
    result: Images = np.rint(values).clip(0, 255).astype(np.uint8)
    return result


def map_images(
    images: Images,
    function: Callable[..., Array],
    *per_image_args: Iterable[Any],
    to_pixels: ToPixels = to_uint8,
) -> Images:
    """Return a new array with the result of `function` for each image.

    The function receives the image and its item of each iterable in `per_image_args`. `to_pixels`
    converts its result to whole pixel values.
    """
    changed = np.empty_like(images)
    for row, image, *parts in zip(changed, images, *per_image_args, strict=True):
        row[...] = to_pixels(function(image, *parts))
    return changed


def gaussian(
    images: Images, deviation: float, draws: RowStreams, *, to_pixels: ToPixels = to_uint8
) -> Images:
    """Return x + 255 · deviation · N(0, 1), with independent noise for every pixel value x."""

    def add_noise(image: Images, rng: np.random.Generator) -> Array:
        return image + 255 * deviation * rng.standard_normal(image.shape, dtype=np.float32)

    return map_images(images, add_noise, draws.generators(), to_pixels=to_pixels)


def speckle(
    images: Images, deviation: float, draws: RowStreams, *, to_pixels: ToPixels = to_uint8
) -> Images:
    """Return x + x · deviation · N(0, 1) for every pixel value x; black pixels are not changed."""

    def add_noise(image: Images, rng: np.random.Generator) -> Array:
        return image + image * (deviation * rng.standard_normal(image.shape, dtype=np.float32))

    return map_images(images, add_noise, draws.generators(), to_pixels=to_pixels)


def shot(
    images: Images, photons: float, draws: RowStreams, *, to_pixels: ToPixels = to_uint8
) -> Images:
    """Return Poisson(photons · x / 255) · 255 / photons for every pixel value x.

    `photons` is the mean number of photons on a white pixel. The result has mean x and variance
    255 x / photons.
    """
    # Mean number of photons for each of the 256 pixel values.
    means = np.arange(256) * (photons / 255)

    def add_noise(image: Images, rng: np.random.Generator) -> Array:
        return rng.poisson(means[image]) * (255 / photons)

    return map_images(images, add_noise, draws.generators(), to_pixels=to_pixels)


def impulse(images: Images, share: float, draws: RowStreams) -> Images:
    """Set a fraction of the values to 0 or 255, each with equal probability (salt and pepper).

    `share` is the expected fraction.
    """

    def add_noise(image: Images, rng: np.random.Generator) -> Array:
        u = rng.random(image.shape, dtype=np.float32)
        return np.where(u < share, np.where(u < share / 2, np.uint8(0), np.uint8(255)), image)

    return map_images(images, add_noise, draws.generators())


def smooth_noise(draws: RowStreams, shape: tuple[int, ...], *, cells: int) -> Floats:
    """Return smooth noise from 0 to 1, of shape (n, height, width).

    The image is divided into cells, with `cells` cells along its shorter side. The values at the
    corners of the cells are random and uniform. Between the corners, they are interpolated by
    3 t² − 2 t³.
    """
    side = min(shape)
    counts = [max(round(cells * size / side), 1) for size in shape]
    knots = draws.uniforms((counts[0] + 1) * (counts[1] + 1)).astype(np.float32)
    rows = _interpolate(knots.reshape(-1, counts[0] + 1, counts[1] + 1), shape[0])
    return _interpolate(rows.swapaxes(1, 2), shape[1]).swapaxes(1, 2)


def _interpolate(knots: Floats, size: int) -> Floats:
    """Interpolate knots (n, n_knots, m) along the middle axis, at the centers of `size` pixels."""
    # A matrix product is avoided, because its rounding may depend on the batch size and the CPU.
    position = (np.arange(size, dtype=np.float32) + 0.5) * ((knots.shape[1] - 1) / size)
    first: Ints = position.astype(np.int64)
    t = (position - first)[:, None].astype(np.float32)
    low = knots[:, first]
    result: Floats = low + (3 - 2 * t) * t * t * (knots[:, first + 1] - low)
    return result
