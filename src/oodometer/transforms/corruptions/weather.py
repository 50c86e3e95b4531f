"""Weather in images: brightness, fog, frost and snow. After Hendrycks & Dietterich, ICLR 2019.

What is laid over an image is made of smooth noise alone, and looks so: there are no photographs.
Clouds, crystals and flakes are shares of the shorter side.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from oodometer.core.random_streams import Draws
from oodometer.core.softmax_kernels import Array, Floats
from oodometer.transforms.corruptions.blur import filtered, line_kernel, side_of
from oodometer.transforms.corruptions.noise import Images, rounded, smooth

# Clouds and ice are sums of noises, of so many cells a side; each is weaker than the one before.
CLOUD, CLOUD_FADES = (2, 4, 8, 16, 32), 0.6
ICE, ICE_FADES = (4, 8, 16, 32), 0.8
# Fog is a light grey; clear ice is darker than its crystals, which are white.
FOG, CLEAR_ICE, WHITE = 235.0, 180.0, 255.0
# Where fog is thinnest it has this share of its thickness.
THINNEST = 0.4
# Flakes a side, how far they fall while the picture is taken, and how slanted, in radians.
FLAKES, FALL, SLANT = 22, 0.06, math.pi / 4


def brightness(images: Images, share: float) -> Images:
    """x + 255 · share, cut off at white.

    >>> brightness(np.array([[[0, 100, 200]]], dtype=np.uint8), 0.4)
    array([[[102, 202, 255]]], dtype=uint8)
    """
    return rounded(images + np.float32(255 * share))


def fog(images: Images, thickness: float, draws: Draws) -> Images:
    """x + t · (fog − x), with t from 40 % of the thickness to all of it, as a cloud has it."""
    cloud = layered(draws, images.shape[1:3], np.asarray, cells=CLOUD, fades=CLOUD_FADES)
    return over(images, thickness * (THINNEST + (1 - THINNEST) * cloud), FOG)


def frost(images: Images, thickness: float, draws: Draws) -> Images:
    """Frost-like: x + t · (ice − x), with ice that grows from the edges in crystals.

    The crystals are the ridges of noise, not photographs of frost: neither so sharp nor so manifold.
    """
    ice = layered(draws, images.shape[1:3], _ridges, cells=ICE, fades=ICE_FADES)
    grown = (1.2 * ice + 0.9 * _nearness_to_edge(images.shape[1:3]) - 0.6).clip(0, 1)
    return over(images, thickness * grown, CLEAR_ICE + (WHITE - CLEAR_ICE) * ice)


def snow(images: Images, share: float, draws: Draws) -> Images:
    """Falling flakes, where noise is in the uppermost share of its range: more, and larger ones."""
    shape = images.shape[1:3]
    flakes = 4 * (smooth(draws.of("flakes"), shape, cells=FLAKES) - (1 - share)).clip(0, 0.25)
    angles = math.pi / 2 + SLANT * (2 * draws.of("slant").uniforms(1)[:, 0] - 1)
    for flake, angle in zip(flakes, angles.tolist(), strict=True):
        flake[...] = filtered(flake, line_kernel(FALL * side_of(images), angle))
    return over(images, flakes, WHITE)


def layered(
    draws: Draws,
    shape: tuple[int, ...],
    form: Callable[[Floats], Floats],
    *,
    cells: tuple[int, ...],
    fades: float,
) -> Floats:
    """Sum of noises that grow finer and fade, (n, height, width), from 0 to 1 in every image."""
    total = np.zeros((len(draws), *shape), dtype=np.float32)
    for layer, count in enumerate(cells):
        total += np.float32(fades**layer) * form(smooth(draws.of(str(count)), shape, cells=count))
    total -= total.min(axis=(1, 2), keepdims=True)
    # An image of one pixel has no range.
    total /= np.maximum(total.max(axis=(1, 2), keepdims=True), np.float32(1e-6))
    return total


def _ridges(noise: Floats) -> Floats:
    """Sharp where the noise passes its middle."""
    result: Floats = (1 - np.abs(2 * noise - 1)) ** 2
    return result


def _nearness_to_edge(shape: tuple[int, ...]) -> Floats:
    """0 in the middle, 1 at the edges."""
    down, across = (np.abs((np.arange(size) + 0.5) * 2 / size - 1) for size in shape)
    return np.maximum(down[:, None], across).astype(np.float32)


def over(images: Images, opacity: Floats, shade: Array | float) -> Images:
    """x + opacity · (shade − x); both (n, height, width), the same for all channels."""
    shades = np.broadcast_to(np.asarray(shade, dtype=np.float32), opacity.shape)
    if images.ndim == 4:
        opacity, shades = opacity[..., None], shades[..., None]
    return rounded(images + opacity * (shades - images))
