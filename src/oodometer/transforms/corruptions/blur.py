"""Blur of images: Gaussian, defocus, motion and zoom. After Hendrycks & Dietterich, ICLR 2019.

A blur is the mean of moved copies of the image, read bilinearly between the pixels: so a blur of
less than a pixel blurs too, and small images are no exception. Sizes are shares of the shorter
side. Beyond its edges the image is mirrored.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from oodometer.core.array_types import Array, Floats, Ints
from oodometer.core.optional_imports import opencv
from oodometer.core.random_streams import RowStreams
from oodometer.transforms.corruptions.noise import Images, map_images

# Points of a disk or a line, a pixel: more change no kernel by a thousandth.
POINTS_PER_PIXEL = 8
# So many enlargements at most: an image of thousands of pixels would take a minute.
MAX_ZOOM_STEPS = 128
# However small it is, a disk has this many points across.
MIN_DISK_POINTS = 128


def shorter_side(images: Images) -> int:
    """The shorter side of the images, in pixels."""
    return int(min(images.shape[1:3]))


def gaussian(images: Images, share: float) -> Images:
    """Gaussian blur, its standard deviation a share of the side."""
    cv = opencv()
    kernel = gaussian_kernel(share * shorter_side(images))
    return map_images(
        images,
        lambda image: cv.sepFilter2D(
            image, cv.CV_32F, kernel, kernel, borderType=cv.BORDER_REFLECT
        ),
    )


def defocus(images: Images, share: float) -> Images:
    """Every point becomes a disk, its radius a share of the side."""
    kernel = disk_kernel(share * shorter_side(images))
    return map_images(images, lambda image: filter_image(image, kernel))


def motion(images: Images, share: float, draws: RowStreams) -> Images:
    """Moved in a line while it was taken, by a share of the side, at any angle."""
    length = share * shorter_side(images)
    angles = math.pi * draws.uniforms(1)[:, 0]
    kernels = (line_kernel(length, angle) for angle in angles.tolist())
    return map_images(images, filter_image, kernels)


def zoom(images: Images, share: float) -> Images:
    """Brought nearer while it was taken: the mean of enlargements by 1 … 1 + share."""
    # At the edges, a step moves the image by half a pixel or less; in very large ones, by more.
    steps = min(2 + math.ceil(share * max(images.shape[1:3])), MAX_ZOOM_STEPS)
    factors = np.linspace(1, 1 + share, steps).tolist()

    def zoomed(image: Images) -> Floats:
        exact = image.astype(np.float32)
        total: Floats = sum((enlarge(exact, factor) for factor in factors), np.zeros_like(exact))
        return total / len(factors)

    return map_images(images, zoomed)


def enlarge(image: Floats, factor: float) -> Floats:
    """The middle of an image, read bilinearly at the image's own size."""
    cv = opencv()
    height, width = image.shape[:2]
    x, y = ((size - 1) / 2 * (1 - 1 / factor) for size in (width, height))
    matrix = np.array([[1 / factor, 0, x], [0, 1 / factor, y]])
    flags = cv.INTER_LINEAR | cv.WARP_INVERSE_MAP
    result: Floats = cv.warpAffine(
        image, matrix, (width, height), flags=flags, borderMode=cv.BORDER_REFLECT
    )
    return result


def filter_image(image: Array, kernel: Floats) -> Floats:
    """Every pixel the sum of its neighbors, weighted by the kernel; not rounded."""
    cv = opencv()
    result: Floats = cv.filter2D(image, cv.CV_32F, kernel, borderType=cv.BORDER_REFLECT)
    return result


@lru_cache(maxsize=32)
def gaussian_kernel(deviation: float) -> Floats:
    """The weights E max(0, 1 − |j − X|) of the pixels j, X ~ N(0, deviation²).

    They are G(j + 1) − 2 G(j) + G(j − 1) of G(x) = E max(0, x − X); cut off at four deviations.
    """
    reach = math.ceil(4 * deviation) + 1
    above = [_mean_positive_part(j / deviation) * deviation for j in range(-reach - 1, reach + 2)]
    weights = np.diff(above, n=2)
    result: Floats = (weights / weights.sum()).astype(np.float32)
    return result


def _mean_positive_part(x: float) -> float:
    """E max(0, x − Z) = x Φ(x) + φ(x) of a standard normal Z."""
    density = math.exp(-x * x / 2) / math.sqrt(2 * math.pi)
    return x * math.erfc(-x / math.sqrt(2)) / 2 + density


@lru_cache(maxsize=32)
def disk_kernel(radius: float) -> Floats:
    """The weights of a disk."""
    across = max(MIN_DISK_POINTS, POINTS_PER_PIXEL * math.ceil(2 * radius))
    places = radius * ((np.arange(across) + 0.5) * 2 / across - 1)
    points = np.stack(np.meshgrid(places, places), axis=-1).reshape(-1, 2)
    return bilinear_kernel(points[(points**2).sum(axis=1) <= radius**2])


def line_kernel(length: float, angle: float) -> Floats:
    """The weights of a line through the middle, at an angle in radians."""
    count = POINTS_PER_PIXEL * math.ceil(length)
    places = length * ((np.arange(count) + 0.5) / count - 0.5)
    return bilinear_kernel(np.outer(places, [math.cos(angle), math.sin(angle)]))


def bilinear_kernel(points: Floats) -> Floats:
    """The mean of bilinear readings at points (m, 2), x and y, as weights of whole pixels.

    >>> bilinear_kernel(np.array([[0.25, 0.0]]))[1]
    array([0.  , 0.75, 0.25], dtype=float32)
    """
    reach = int(np.abs(points).max()) + 1
    size = 2 * reach + 1
    low: Ints = np.floor(points).astype(np.int64)
    part = points - low
    kernel = np.zeros(size * size)
    for x, y in ((0, 0), (1, 0), (0, 1), (1, 1)):
        weights = np.abs(1 - x - part[:, 0]) * np.abs(1 - y - part[:, 1])
        where = (low[:, 1] + y + reach) * size + low[:, 0] + x + reach
        kernel += np.bincount(where, weights, minlength=len(kernel))
    result: Floats = (kernel / len(points)).reshape(size, size).astype(np.float32)
    return result
