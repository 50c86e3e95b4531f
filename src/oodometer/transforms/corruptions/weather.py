"""Weather in images: brightness, fog, frost and snow. After Hendrycks & Dietterich, ICLR 2019.

What is laid over an image is made of smooth noise alone, and looks so: there are no photographs.
Clouds, crystals and flakes are shares of the shorter side.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from oodometer.core.array_types import Array, Floats
from oodometer.core.random_streams import RowStreams
from oodometer.transforms.corruptions.blur import filter_image, line_kernel, shorter_side
from oodometer.transforms.corruptions.noise import Images, smooth_noise, to_uint8

# Clouds and ice are sums of noises, of so many cells a side; each is weaker than the one before.
CLOUD_CELLS, CLOUD_DECAY = (2, 4, 8, 16, 32), 0.6
ICE_CELLS, ICE_DECAY = (4, 8, 16, 32), 0.8
# Fog is a light grey; clear ice is darker than its crystals, which are white.
FOG_SHADE, CLEAR_ICE_SHADE, WHITE_SHADE = 235.0, 180.0, 255.0
# Where fog is thinnest it has this share of its thickness.
MIN_FOG_SHARE = 0.4
# Flakes a side, how far they fall while the picture is taken, and how slanted, in radians.
FLAKES_PER_SIDE, FALL_SHARE, MAX_SLANT_RADIANS = 22, 0.06, math.pi / 4


def brightness(images: Images, share: float) -> Images:
    """x + 255 · share, cut off at white.

    >>> brightness(np.array([[[0, 100, 200]]], dtype=np.uint8), 0.4)
    array([[[102, 202, 255]]], dtype=uint8)
    """
    return to_uint8(images + np.float32(255 * share))


def fog(images: Images, thickness: float, draws: RowStreams) -> Images:
    """x + t · (fog − x), with t from 40 % of the thickness to all of it, as a cloud has it."""
    cloud = fractal_noise(
        draws, images.shape[1:3], np.asarray, cells=CLOUD_CELLS, decay=CLOUD_DECAY
    )
    return blend_shade(images, thickness * (MIN_FOG_SHARE + (1 - MIN_FOG_SHARE) * cloud), FOG_SHADE)


def frost(images: Images, thickness: float, draws: RowStreams) -> Images:
    """Frost-like: x + t · (ice − x), with ice that grows from the edges in crystals.

    The crystals are the ridges of noise, not photographs of frost: neither so sharp nor so manifold.
    """
    ice = fractal_noise(draws, images.shape[1:3], _ridges, cells=ICE_CELLS, decay=ICE_DECAY)
    grown = (1.2 * ice + 0.9 * _edge_proximity(images.shape[1:3]) - 0.6).clip(0, 1)
    return blend_shade(
        images, thickness * grown, CLEAR_ICE_SHADE + (WHITE_SHADE - CLEAR_ICE_SHADE) * ice
    )


def snow(images: Images, share: float, draws: RowStreams) -> Images:
    """Falling flakes, where noise is in the uppermost share of its range: more, and larger ones."""
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
    """Sum of noises that grow finer and fade, (n, height, width), from 0 to 1 in every image."""
    total = np.zeros((len(draws), *shape), dtype=np.float32)
    for layer, count in enumerate(cells):
        total += np.float32(decay**layer) * shape_noise(
            smooth_noise(draws.substream(str(count)), shape, cells=count)
        )
    total -= total.min(axis=(1, 2), keepdims=True)
    # An image of one pixel has no range.
    total /= np.maximum(total.max(axis=(1, 2), keepdims=True), np.float32(1e-6))
    return total


def _ridges(noise: Floats) -> Floats:
    """Sharp where the noise passes its middle."""
    result: Floats = (1 - np.abs(2 * noise - 1)) ** 2
    return result


def _edge_proximity(shape: tuple[int, ...]) -> Floats:
    """0 in the middle, 1 at the edges."""
    down, across = (np.abs((np.arange(size) + 0.5) * 2 / size - 1) for size in shape)
    return np.maximum(down[:, None], across).astype(np.float32)


def blend_shade(images: Images, opacity: Floats, shade: Array | float) -> Images:
    """x + opacity · (shade − x); both (n, height, width), the same for all channels."""
    shades = np.broadcast_to(np.asarray(shade, dtype=np.float32), opacity.shape)
    if images.ndim == 4:
        opacity, shades = opacity[..., None], shades[..., None]
    return to_uint8(images + opacity * (shades - images))
