"""Weather corruptions: brightness, fog, frost and snow (after Hendrycks & Dietterich, ICLR 2019).

Clouds, ice and flakes are generated from smooth noise, not from photographs, so they look less
natural than photographs. Their sizes are fractions of the shorter side.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from oodometer.core.array_types import Array, Floats
from oodometer.core.random_streams import RowStreams
from oodometer.transforms.corruptions.blur import filter_image, line_kernel, shorter_side
from oodometer.transforms.corruptions.noise import Images, smooth_noise, to_uint8

# Clouds and ice are sums of noise layers. CELLS are the numbers of cells per side, one per layer.
# Each layer is weaker than the one before by the factor DECAY.
CLOUD_CELLS = (2, 4, 8, 16, 32)
CLOUD_DECAY = 0.6
ICE_CELLS = (4, 8, 16, 32)
ICE_DECAY = 0.8
# Pixel values of fog, which is light gray, of clear ice, and of snow and ice crystals.
FOG_SHADE = 235.0
CLEAR_ICE_SHADE = 180.0
WHITE_SHADE = 255.0
# Opacity of the thinnest fog, relative to the thickest.
MIN_FOG_SHARE = 0.4
# Number of flakes along the shorter side, length of their motion blur as a fraction of the shorter
# side, and largest angle of their fall to the vertical.
FLAKES_PER_SIDE = 22
FALL_SHARE = 0.06
MAX_SLANT_RADIANS = math.pi / 4


def brightness(images: Images, share: float) -> Images:
    """Return x + 255 · share for every pixel value x, clipped to 255.

    >>> brightness(np.array([[[0, 100, 200]]], dtype=np.uint8), 0.4)
    array([[[102, 202, 255]]], dtype=uint8)
    """
    return to_uint8(images + np.float32(255 * share))


def fog(images: Images, thickness: float, draws: RowStreams) -> Images:
    """Return x + t · (fog − x) for every pixel value x.

    The opacity t varies like a cloud between 40% and 100% of the thickness.
    """
    cloud = fractal_noise(
        draws, images.shape[1:3], np.asarray, cells=CLOUD_CELLS, decay=CLOUD_DECAY
    )
    return blend_shade(images, thickness * (MIN_FOG_SHARE + (1 - MIN_FOG_SHARE) * cloud), FOG_SHADE)


def frost(images: Images, thickness: float, draws: RowStreams) -> Images:
    """Return x + t · (ice − x) for every pixel value x.

    The opacity t is highest on ice crystals that grow from the edges of the image. The crystals are
    ridges of noise, and are less sharp and less varied than photographs of frost.
    """
    ice = frost_texture(draws, images.shape[1:3])
    grown = (1.2 * ice + 0.9 * _edge_proximity(images.shape[1:3]) - 0.6).clip(0, 1)
    return blend_shade(
        images, thickness * grown, CLEAR_ICE_SHADE + (WHITE_SHADE - CLEAR_ICE_SHADE) * ice
    )


def frost_texture(draws: RowStreams, shape: tuple[int, ...]) -> Floats:
    """Return ridges of noise that resemble ice crystals, from 0 to 1, (n, height, width)."""
    return fractal_noise(draws, shape, _ridges, cells=ICE_CELLS, decay=ICE_DECAY)


def snow(images: Images, share: float, draws: RowStreams) -> Images:
    """Add falling flakes where smooth noise from 0 to 1 is above 1 − share."""
    shape = images.shape[1:3]
    flakes = 4 * (
        smooth_noise(draws.substream("flakes"), shape, cells=FLAKES_PER_SIDE) - (1 - share)
    ).clip(0, 0.25)
    angles = math.pi / 2 + MAX_SLANT_RADIANS * (2 * draws.substream("slant").uniforms(1)[:, 0] - 1)
    for flake, angle in zip(flakes, angles.tolist(), strict=True):
        flake[...] = filter_image(flake, line_kernel(FALL_SHARE * shorter_side(images), angle))
    return blend_shade(images, flakes, WHITE_SHADE)


def fractal_noise(
    draws: RowStreams,
    shape: tuple[int, ...],
    shape_noise: Callable[[Floats], Floats],
    *,
    cells: tuple[int, ...],
    decay: float,
) -> Floats:
    """Return a sum of noise layers that become finer and weaker, of shape (n, height, width).

    `shape_noise` is applied to each layer. The sum is scaled to 0 … 1 per image.
    """
    total = np.zeros((len(draws), *shape), dtype=np.float32)
    for layer, count in enumerate(cells):
        total += np.float32(decay**layer) * shape_noise(
            smooth_noise(draws.substream(str(count)), shape, cells=count)
        )
    total -= total.min(axis=(1, 2), keepdims=True)
    # The limit avoids a division by 0 for images of one pixel, in which all values are equal.
    total /= np.maximum(total.max(axis=(1, 2), keepdims=True), np.float32(1e-6))
    return total


def _ridges(noise: Floats) -> Floats:
    """Return values that are 1 where the noise is 1/2, and fall to 0 on both sides of it."""
    result: Floats = (1 - np.abs(2 * noise - 1)) ** 2
    return result


def _edge_proximity(shape: tuple[int, ...]) -> Floats:
    """Return an array (height, width) that is about 0 at the center and about 1 at the edges."""
    down, across = (np.abs((np.arange(size) + 0.5) * 2 / size - 1) for size in shape)
    return np.maximum(down[:, None], across).astype(np.float32)


def blend_shade(images: Images, opacity: Floats, shade: Array | float) -> Images:
    """Return x + opacity · (shade − x) for every pixel value x.

    `opacity` has shape (n, height, width). `shade` has the same shape, or is one number.
    """
    shades = np.broadcast_to(np.asarray(shade, dtype=np.float32), opacity.shape)
    if images.ndim == 4:
        opacity, shades = opacity[..., None], shades[..., None]
    return to_uint8(images + opacity * (shades - images))
