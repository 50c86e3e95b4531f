"""Blur corruptions: Gaussian, defocus, motion and zoom blur (after Hendrycks & Dietterich, 2019).

A blur is the mean of shifted copies of the image. Shifts use bilinear interpolation, so that a
blur of less than a pixel, which is common on small images, also has an effect. Sizes are fractions
of the shorter side. Beyond its edges, the image is continued by its mirror image.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from oodometer.core.array_types import Array, Floats, Ints
from oodometer.core.optional_imports import opencv
from oodometer.core.random_streams import RowStreams
from oodometer.transforms.corruptions.noise import Images, map_images

# Number of sampling points of a disk or line per pixel. More points change no entry of a kernel by
# 0.001.
POINTS_PER_PIXEL = 8
# Maximum number of enlarged copies of which a zoom blur is the mean. Without this limit, an image
# with sides of thousands of pixels takes a minute.
MAX_ZOOM_STEPS = 128
# Minimum number of sampling points along the diameter of a disk.
MIN_DISK_POINTS = 128


def shorter_side(images: Images) -> int:
    """Return the shorter side of the images in pixels."""
    return int(min(images.shape[1:3]))


def gaussian(images: Images, share: float) -> Images:
    """Apply Gaussian blur with a standard deviation of `share` times the shorter side."""
    cv = opencv()
    kernel = gaussian_kernel(share * shorter_side(images))
    return map_images(
        images,
        lambda image: cv.sepFilter2D(
            image, cv.CV_32F, kernel, kernel, borderType=cv.BORDER_REFLECT
        ),
    )


def defocus(images: Images, share: float) -> Images:
    """Spread every pixel over a disk with a radius of `share` times the shorter side."""
    kernel = disk_kernel(share * shorter_side(images))
    return map_images(images, lambda image: filter_image(image, kernel))


def motion(images: Images, share: float, draws: RowStreams) -> Images:
    """Blur along a line at a random angle; its length is `share` times the shorter side."""
    length = share * shorter_side(images)
    angles = math.pi * draws.uniforms(1)[:, 0]
    kernels = (line_kernel(length, angle) for angle in angles.tolist())
    return map_images(images, filter_image, kernels)


def zoom(images: Images, share: float) -> Images:
    """Return the mean of copies enlarged by factors from 1 to 1 + share."""
    # From one copy to the next, pixels at the edges move by at most half a pixel, unless the number
    # of copies is limited by MAX_ZOOM_STEPS.
    steps = min(2 + math.ceil(share * max(images.shape[1:3])), MAX_ZOOM_STEPS)
    factors = np.linspace(1, 1 + share, steps).tolist()

    def mean_enlargement(image: Images) -> Floats:
        exact = image.astype(np.float32)
        total: Floats = sum((enlarge(exact, factor) for factor in factors), np.zeros_like(exact))
        return total / len(factors)

    return map_images(images, mean_enlargement)


def enlarge(image: Floats, factor: float) -> Floats:
    """Enlarge an image about its center by bilinear interpolation, and crop it to its old size."""
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
    """Return the correlation of an image with a kernel as floats, without rounding."""
    cv = opencv()
    result: Floats = cv.filter2D(image, cv.CV_32F, kernel, borderType=cv.BORDER_REFLECT)
    return result


@lru_cache(maxsize=32)
def gaussian_kernel(deviation: float) -> Floats:
    """Return the kernel of a Gaussian blur along one axis.

    The weight of pixel j is E max(0, 1 − |j − X|), where X ~ N(0, deviation²). It is computed as
    G(j + 1) − 2 G(j) + G(j − 1), where G(x) = E max(0, x − X). The kernel ends at four standard
    deviations.
    """
    reach = math.ceil(4 * deviation) + 1
    above = [_mean_positive_part(j / deviation) * deviation for j in range(-reach - 1, reach + 2)]
    weights = np.diff(above, n=2)
    result: Floats = (weights / weights.sum()).astype(np.float32)
    return result


def _mean_positive_part(x: float) -> float:
    """Return E max(0, x − Z) = x Φ(x) + φ(x) for a standard normal Z."""
    density = math.exp(-x * x / 2) / math.sqrt(2 * math.pi)
    return x * math.erfc(-x / math.sqrt(2)) / 2 + density


@lru_cache(maxsize=32)
def disk_kernel(radius: float) -> Floats:
    """Return the kernel that takes the mean over a disk with a radius in pixels."""
    across = max(MIN_DISK_POINTS, POINTS_PER_PIXEL * math.ceil(2 * radius))
    axis = radius * ((np.arange(across) + 0.5) * 2 / across - 1)
    points = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    return bilinear_kernel(points[(points**2).sum(axis=1) <= radius**2])


def line_kernel(length: float, angle: float) -> Floats:
    """Return the kernel that takes the mean over a line through the center.

    The length is in pixels, the angle in radians.
    """
    count = POINTS_PER_PIXEL * math.ceil(length)
    offsets = length * ((np.arange(count) + 0.5) / count - 0.5)
    return bilinear_kernel(np.outer(offsets, [math.cos(angle), math.sin(angle)]))


def bilinear_kernel(points: Floats) -> Floats:
    """Return the kernel that takes the mean of bilinear samples at several points.

    `points` has shape (m, 2) and contains x and y relative to the center.

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
