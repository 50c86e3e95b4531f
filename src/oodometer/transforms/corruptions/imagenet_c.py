"""Corruptions of ImageNet-C and CIFAR-10-C with their published parameters.

Hendrycks & Dietterich, "Benchmarking Neural Network Robustness to Common Corruptions and
Perturbations", ICLR 2019. Formulas and parameters are those of the programs with which the authors
created the two datasets (repository hendrycks/robustness, files make_imagenet_c.py and
make_cifar_c.py). Lengths in pixels are used as published at every image size. As there, results are
truncated to whole pixel values.

Differences from the published datasets:

- Frost is drawn from noise, because the five photographs are not part of this package. The mean
  color and the standard deviation of the texture are those of the photographs.
- The motion blur of ImageMagick, which motion blur and snow use, is implemented here.
- The files of ImageNet-C were stored as JPEG of quality 85. Images are not compressed here.
- The published programs handle one image size. Zoom blur and snow are extended to images that are
  not square, and fog to every size (a fractal with the next power of two as its side).
- Gray images get the gray value of a colored spatter or frost; `saturate` does not change them.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from oodometer.core.array_types import Array, Bools, Floats, Ints
from oodometer.core.optional_imports import opencv, require
from oodometer.core.random_streams import RowStreams
from oodometer.transforms.corruptions import noise
from oodometer.transforms.corruptions.noise import Images, map_images
from oodometer.transforms.corruptions.weather import frost_texture

Parameters = tuple[float, ...]
Generator = np.random.Generator

# Added before truncation, in pixel values, so that a rounding error of an unchanged value, such as
# 99.99999, does not reduce it by 1.
TRUNCATION_TOLERANCE = 1e-3
# Mean red, green and blue, and standard deviation within a crop, of the five photographs of frost.
FROST_TONES = (
    (78.0, 148.0, 165.0, 15.5),
    (198.0, 202.0, 211.0, 20.0),
    (198.0, 202.0, 211.0, 20.0),
    (145.0, 160.0, 172.0, 26.0),
    (101.0, 112.0, 124.0, 35.0),
)
# Weights of red, green and blue in a gray value (ITU-R BT.601).
GRAY_WEIGHTS = (0.299, 0.587, 0.114)
# Colors of the two kinds of spatter: water and mud.
WATER_RGB = (175.0, 238.0, 238.0)
MUD_RGB = (63.0, 42.0, 20.0)
# Mud is painted where the smoothed mask is at least this large.
MIN_MUD_COVER = 0.8


def truncate_to_uint8(values: Array) -> Images:
    """Clip values to 0 … 255 and remove their fractions.

    >>> truncate_to_uint8(np.array([-3.0, 1.6, 99.99999, 270.0]))
    array([  0,   1, 100, 255], dtype=uint8)
    """
    if values.dtype == np.uint8:
        return values
    result: Images = (values + TRUNCATION_TOLERANCE).clip(0, 255).astype(np.uint8)
    return result


# Noise -------------------------------------------------------------------------------------------


def gaussian_noise(images: Images, parameters: Parameters, draws: RowStreams) -> Images:
    """Add noise; the parameter is its standard deviation as a fraction of the pixel range."""
    return noise.gaussian(images, parameters[0], draws, to_pixels=truncate_to_uint8)


def shot_noise(images: Images, parameters: Parameters, draws: RowStreams) -> Images:
    """Draw Poisson counts; the parameter is the mean number of photons on a white pixel."""
    return noise.shot(images, parameters[0], draws, to_pixels=truncate_to_uint8)


def impulse_noise(images: Images, parameters: Parameters, draws: RowStreams) -> Images:
    """Replace values by 0 or 255; the parameter is the fraction of replaced values."""
    return noise.impulse(images, parameters[0], draws)


def speckle_noise(images: Images, parameters: Parameters, draws: RowStreams) -> Images:
    """Add noise; the parameter is its standard deviation as a fraction of the pixel value."""
    return noise.speckle(images, parameters[0], draws, to_pixels=truncate_to_uint8)


# Blur --------------------------------------------------------------------------------------------


def gaussian_blur(images: Images, parameters: Parameters, draws: RowStreams) -> Images:
    """Apply Gaussian blur; the parameter is the standard deviation in pixels."""
    (sigma,) = parameters
    return map_images(images, lambda image: smooth(image, sigma), to_pixels=truncate_to_uint8)


def smooth(image: Array, sigma: float, *, mode: str = "nearest", reach: float = 4.0) -> Floats:
    """Return an image after a Gaussian filter that ends at `reach` standard deviations."""
    from scipy.ndimage import gaussian_filter

    exact = image if image.dtype.kind == "f" else image.astype(np.float64)
    sigmas = (sigma, sigma, 0.0)[: image.ndim]
    result: Floats = gaussian_filter(exact, sigmas, mode=mode, truncate=reach)
    return result


def glass_blur(images: Images, parameters: Parameters, draws: RowStreams) -> Images:
    """Blur, replace pixels by random neighbors, and blur again.

    The parameters are the standard deviation of the blur in pixels, the largest displacement in
    pixels, and the number of passes over the image.
    """
    sigma, reach, passes = parameters[0], int(parameters[1]), int(parameters[2])

    def shuffle(image: Images, rng: Generator) -> Floats:
        shuffled = truncate_to_uint8(smooth(image, sigma))
        for _ in range(passes):
            offsets = rng.integers(-reach, reach, (*image.shape[:2], 2))
            shuffled = copy_neighbors(shuffled, offsets, reach)
        return smooth(shuffled, sigma)

    return map_images(images, shuffle, draws.generators(), to_pixels=truncate_to_uint8)


def copy_neighbors(image: Array, offsets: Ints, reach: int) -> Array:
    """Replace each pixel by its neighbor at the offset (x, y), one after the other.

    Pixels are visited from the last row and column to the first. Pixels closer to the edge than
    `reach` are not replaced. The published program is meant to swap the two pixels, but its swap of
    two array views copies one of them onto the other.

    A pixel whose neighbor was replaced before gets the neighbor's new value. These chains are
    followed for all pixels at once, in steps of doubling length.
    """
    height, width = image.shape[:2]
    inner: Bools = np.zeros((height, width), dtype=bool)
    inner[reach + 1 : height - reach + 1, reach + 1 : width - reach + 1] = True
    own = np.arange(height * width)
    moves = (offsets[..., 1] * width + offsets[..., 0]).ravel()
    origin = np.where(inner.ravel(), own + moves, own)
    # Whether the origin is a pixel that was itself replaced before.
    chained = inner.ravel() & inner.ravel()[origin] & (origin > own)
    while chained.any():
        rows = np.flatnonzero(chained)
        targets = origin[rows]
        origin[rows], chained[rows] = origin[targets], chained[targets]
    return image.reshape(height * width, -1)[origin].reshape(image.shape)


def defocus_blur(images: Images, parameters: Parameters, draws: RowStreams) -> Images:
    """Take the mean over a disk; the parameters are its radius and the blur of its edge in pixels."""
    cv = opencv()
    kernel = smoothed_disk(*parameters)
    return map_images(
        images,
        lambda image: cv.filter2D(image.astype(np.float64), -1, kernel),
        to_pixels=truncate_to_uint8,
    )


@lru_cache(maxsize=32)
def smoothed_disk(radius: float, edge_sigma: float) -> Floats:
    """Return the kernel of the pixels whose centers lie in a disk, after a Gaussian filter."""
    reach, size = (8, 3) if radius <= 8 else (math.floor(radius), 5)
    axis = np.arange(-reach, reach + 1)
    disk = (axis[:, None] ** 2 + axis**2 <= radius**2).astype(np.float32)
    result: Floats = opencv().GaussianBlur(disk / disk.sum(), (size, size), sigmaX=edge_sigma)
    return result


def motion_blur(images: Images, parameters: Parameters, draws: RowStreams) -> Images:
    """Blur in a random direction, at most 45° from the horizontal.

    The parameters are the radius and the standard deviation of `directional_blur`, in pixels.
    """
    radius, sigma = parameters
    angles = (-45 + 90 * draws.uniforms(1)[:, 0]).tolist()
    return map_images(
        images, lambda image, angle: directional_blur(image, radius, sigma, angle), angles
    )


def directional_blur(image: Array, radius: float, sigma: float, degrees: float) -> Floats:
    """Return the weighted mean of copies that are shifted in one direction.

    As in ImageMagick, there are 2 · radius + 1 copies, the weight of the i-th is proportional to
    exp(−i² / (2 sigma²)), and its shift is i pixels, rounded per axis. The image is continued by
    its edge pixels.
    """
    steps = np.arange(2 * math.ceil(radius) + 1)
    weights = np.exp(-(steps**2) / (2 * sigma**2))
    weights = (weights / weights.sum()).astype(np.float32)
    radians = math.radians(degrees)
    down, across = (
        np.ceil(steps * part - 0.5).astype(np.int64)
        for part in (math.sin(radians), math.cos(radians))
    )
    height, width = image.shape[:2]
    margins = [(len(steps), len(steps))] * 2 + [(0, 0)] * (image.ndim - 2)
    padded = np.pad(image, margins, mode="edge")
    total: Floats = np.zeros(image.shape, dtype=np.float32)
    for weight, y, x in zip(weights, down + len(steps), across + len(steps), strict=True):
        total += weight * padded[y : y + height, x : x + width]
    return total


def zoom_blur(images: Images, parameters: Parameters, draws: RowStreams) -> Images:
    """Return the mean of the image and its enlargements.

    The parameters are the end (exclusive) and the step of the factors, which begin at 1.
    """
    factors = np.arange(1, *parameters).tolist()

    def mean_enlargement(image: Images) -> Floats:
        exact = image.astype(np.float32)
        copies = (enlarge(exact, factor) for factor in factors)
        return sum(copies, exact) / np.float32(len(factors) + 1)

    return map_images(images, mean_enlargement, to_pixels=truncate_to_uint8)


def enlarge(image: Floats, factor: float) -> Floats:
    """Enlarge the center of an image by linear interpolation, and crop it to its old size."""
    return _enlarge_rows(_enlarge_rows(image, factor).swapaxes(0, 1), factor).swapaxes(0, 1)


def _enlarge_rows(image: Floats, factor: float) -> Floats:
    """Enlarge the center of an image along the first axis.

    The first and the last row of the enlarged part are those of the original part.
    """
    height = len(image)
    part = math.ceil(height / factor)
    enlarged = max(round(part * factor), height)
    kept = np.arange(height) + (enlarged - height) // 2
    position = (height - part) // 2 + kept * ((part - 1) / max(enlarged - 1, 1))
    low: Ints = np.minimum(position.astype(np.int64), height - 1)
    high = np.minimum(low + 1, height - 1)
    t = (position - low).astype(image.dtype).reshape(-1, *(1 for _ in image.shape[1:]))
    result: Floats = image[low] + t * (image[high] - image[low])
    return result


# Weather -----------------------------------------------------------------------------------------


def fog(images: Images, parameters: Parameters, draws: RowStreams) -> Images:
    """Return (x + t · cloud) · max / (max + t) for every pixel value x, as fractions of 255.

    The maximum is that of the image. The parameters are the thickness t, and the factor by which
    the detail of the cloud becomes weaker with its size.
    """
    thickness, decay = parameters
    height, width = images.shape[1:3]
    side = 2 ** (max(height, width) - 1).bit_length()

    def add_fog(image: Images, rng: Generator) -> Floats:
        cloud = thickness * 255 * plasma(rng, side, decay)[:height, :width]
        largest = float(image.max()) / 255
        return _add_layer(image, cloud) * (largest / (largest + thickness))

    return map_images(images, add_fog, draws.generators(), to_pixels=truncate_to_uint8)


def plasma(rng: Generator, side: int, decay: float) -> Floats:
    """Return a plasma fractal from 0 to 1 by the diamond-square algorithm, with periodic edges.

    `side` is a power of 2. The amplitude of the noise decreases by decay² when the distance between
    points is halved.
    """
    grid = np.zeros((side, side))
    amplitude = 1.0
    step = side
    while step >= 2:
        half = step // 2
        corners = grid[::step, ::step]
        centers = _next_to(corners, 0, -1) + _next_to(np.roll(corners, -1, axis=1), 0, -1)
        grid[half::step, half::step] = centers / 4 + _wobble(rng, corners, amplitude)
        centers = grid[half::step, half::step]
        for axis, target in ((0, grid[::step, half::step]), (1, grid[half::step, ::step])):
            sums = _next_to(centers, axis, 1) + _next_to(corners, 1 - axis, -1)
            target[...] = sums / 4 + _wobble(rng, corners, amplitude)
        amplitude /= decay**2
        step = half
    grid -= grid.min()
    result: Floats = grid / (grid.max() or 1.0)
    return result


def _next_to(values: Floats, axis: int, shift: int) -> Floats:
    """Return the sum of each value and its neighbor along an axis."""
    result: Floats = values + np.roll(values, shift, axis=axis)
    return result


def _wobble(rng: Generator, like: Floats, amplitude: float) -> Floats:
    return rng.uniform(-amplitude, amplitude, like.shape)


def frost(images: Images, parameters: Parameters, draws: RowStreams) -> Images:
    """Return a · x + b · ice for every pixel value x; the parameters are a and b.

    The ice is a texture of noise with the color and contrast of one of five photographs.
    """
    keep, weight = parameters
    textures = frost_texture(draws, images.shape[1:3])
    textures -= textures.mean(axis=(1, 2), keepdims=True)
    textures /= np.maximum(textures.std(axis=(1, 2), keepdims=True), np.float32(1e-6))
    choices = (len(FROST_TONES) * draws.substream("tone").uniforms(1)[:, 0]).astype(np.int64)

    def add_frost(image: Images, texture: Floats, choice: int) -> Floats:
        *color, deviation = FROST_TONES[choice]
        ice = (_shade(image, color) + _spread(image, deviation * texture)).clip(0, 255)
        return keep * image + weight * ice

    return map_images(images, add_frost, textures, choices.tolist(), to_pixels=truncate_to_uint8)


def snow(images: Images, parameters: Parameters, draws: RowStreams) -> Images:
    """Brighten the image, and add flakes and the same flakes turned by 180°.

    Flakes are normal noise with a mean and a standard deviation that is enlarged by a factor, set
    to 0 below a threshold, and blurred by `directional_blur` with a radius and a standard
    deviation, 45° to 135° from the horizontal. The parameters are these six numbers and the weight
    of the original image against its brightened version.
    """
    mean, deviation, factor, threshold, radius, sigma, keep = parameters
    angles = (-135 + 90 * draws.substream("slant").uniforms(1)[:, 0]).tolist()

    def add_snow(image: Images, rng: Generator, angle: float) -> Floats:
        layer = enlarge(rng.normal(mean, deviation, image.shape[:2]), factor)
        flakes = truncate_to_uint8(255 * np.where(layer < threshold, 0.0, layer))
        flakes = noise.to_uint8(directional_blur(flakes, radius, sigma, angle))
        exact = image.astype(np.float32)
        bright = np.maximum(exact, _spread(image, 1.5 * _gray(exact) + 127.5))
        both = flakes.astype(np.float32) + flakes[::-1, ::-1]
        return _add_layer(keep * exact + (1 - keep) * bright, both)

    generators = draws.substream("flakes").generators()
    return map_images(images, add_snow, generators, angles, to_pixels=truncate_to_uint8)


def brightness(images: Images, parameters: Parameters, draws: RowStreams) -> Images:
    """Add to the value V of HSV, clipped to 255; the parameter is a fraction of 255.

    With the same hue and saturation, all channels grow in proportion to the value, which is the
    largest of them. Black becomes gray.
    """
    increase = 255 * parameters[0]

    def brighten(image: Images) -> Floats:
        value = _largest(image)
        new = np.minimum(value + increase, 255)
        return np.asarray(np.where(value > 0, image * (new / np.maximum(value, 1)), new))

    return map_images(images, brighten, to_pixels=truncate_to_uint8)


def spatter(images: Images, parameters: Parameters, draws: RowStreams) -> Images:
    """Add drops of water, or cover spots by mud.

    The parameters are the mean and the standard deviation of normal noise, the standard deviation
    of a Gaussian filter in pixels, and a threshold below which the filtered noise is dry. Two more
    parameters are the opacity of water and 0, or the standard deviation in pixels by which mud is
    smoothed and 1.
    """
    mean, deviation, sigma, threshold, last, is_mud = parameters
    paint = paint_mud if is_mud else paint_water

    def add_spatter(image: Images, rng: Generator) -> Floats:
        liquid = smooth(rng.normal(mean, deviation, image.shape[:2]), sigma)
        return paint(image, liquid, threshold, last)

    return map_images(images, add_spatter, draws.generators(), to_pixels=truncate_to_uint8)


def paint_water(image: Images, liquid: Floats, threshold: float, opacity: float) -> Floats:
    """Add turquoise drops where the liquid is above the threshold, with relief at their edges."""
    cv = opencv()
    drops = truncate_to_uint8(255 * np.where(liquid < threshold, 0.0, liquid))
    distance = cv.distanceTransform(255 - cv.Canny(drops, 50, 150), cv.DIST_L2, 5)
    relief = cv.equalizeHist(cv.blur(np.minimum(distance, 20), (3, 3)).astype(np.uint8))
    relief = cv.filter2D(relief, cv.CV_8U, np.array([[-2, -1, 0], [-1, 1, 1], [0, 1, 2]]))
    wet = drops * cv.blur(relief, (3, 3)).astype(np.float32)
    cover = opacity * wet / max(float(wet.max()), 1.0)
    result: Floats = image + _spread(image, cover) * _shade(image, WATER_RGB)
    return result


def paint_mud(image: Images, liquid: Floats, threshold: float, sigma: float) -> Floats:
    """Cover the pixels where the liquid is above the threshold by brown mud."""
    cover = smooth((liquid > threshold).astype(np.float32), sigma)
    cover = _spread(image, np.where(cover < MIN_MUD_COVER, np.float32(0), cover))
    result: Floats = image * (1 - cover) + cover * _shade(image, MUD_RGB)
    return result


# Digital -----------------------------------------------------------------------------------------


def contrast(images: Images, parameters: Parameters, draws: RowStreams) -> Images:
    """Return mean + c · (x − mean) for every pixel value x of a channel; the parameter is c."""
    (factor,) = parameters

    def reduce(image: Images) -> Floats:
        mean = image.mean(axis=(0, 1))
        result: Floats = mean + factor * (image - mean)
        return result

    return map_images(images, reduce, to_pixels=truncate_to_uint8)


def saturate(images: Images, parameters: Parameters, draws: RowStreams) -> Images:
    """Change the saturation S of HSV to a · S + b, clipped to 0 … 1; the parameters are a and b.

    The distance of a channel to the largest channel is proportional to the saturation. A gray pixel
    has no hue; as in HSV with hue 0, it becomes red. Gray images are not changed.
    """
    if images.ndim == 3:
        return images.copy()
    factor, offset = parameters

    def change(image: Images) -> Floats:
        value = _largest(image).astype(np.float64)
        spread = value - image.min(axis=-1, keepdims=True)
        saturation = (factor * spread / np.maximum(value, 1) + offset).clip(0, 1)
        share = np.where(spread > 0, (value - image) / np.maximum(spread, 1), (0.0, 1.0, 1.0))
        result: Floats = value - value * saturation * share
        return result

    return map_images(images, change, to_pixels=truncate_to_uint8)


def jpeg(images: Images, parameters: Parameters, draws: RowStreams) -> Images:
    """Compress images as JPEG and decompress them; the parameter is the quality of the encoder."""
    pillow = _pillow()

    def recompress(image: Images) -> Array:
        file = io.BytesIO()
        pillow.fromarray(image).save(file, "JPEG", quality=int(parameters[0]))
        return np.asarray(pillow.open(file))

    return map_images(images, recompress)


def pixelate(images: Images, parameters: Parameters, draws: RowStreams) -> Images:
    """Reduce the image by box means and enlarge it again; the parameter is the ratio of sizes."""
    pillow = _pillow()
    height, width = images.shape[1:3]
    small = tuple(max(int(size * parameters[0]), 1) for size in (width, height))
    box = pillow.Resampling.BOX

    def reduce(image: Images) -> Array:
        return np.asarray(pillow.fromarray(image).resize(small, box).resize((width, height), box))

    return map_images(images, reduce)


def elastic(images: Images, parameters: Parameters, draws: RowStreams) -> Images:
    """Apply a random affine map, and then displace pixels by smoothed noise.

    The parameters, in pixels, are the factor of the displacement, the standard deviation of the
    Gaussian filter that smooths it, and the largest shift of the three points of the affine map.
    """
    amplitude, sigma, shift = parameters

    def distort(image: Images, rng: Generator) -> Floats:
        moved = _random_affine(image.astype(np.float32), shift, rng)
        fields = rng.uniform(-1, 1, (2, *image.shape[:2]))
        if not amplitude:
            return moved
        across, down = (
            amplitude * smooth(field, sigma, mode="reflect", reach=3) for field in fields
        )
        return displace(moved, across.astype(np.float32), down.astype(np.float32))

    return map_images(images, distort, draws.generators(), to_pixels=truncate_to_uint8)


def _random_affine(image: Floats, shift: float, rng: Generator) -> Floats:
    """Apply the affine map that shifts three points of the image at random."""
    cv = opencv()
    height, width = image.shape[:2]
    arm = max(min(height, width) // 3, 1)
    center = np.array([width // 2, height // 2])
    points = (center + arm * np.array([[1, 1], [1, -1], [-1, -1]])).astype(np.float32)
    shifted = points + rng.uniform(-shift, shift, points.shape).astype(np.float32)
    matrix = cv.getAffineTransform(points, shifted)
    result: Floats = cv.warpAffine(image, matrix, (width, height), borderMode=cv.BORDER_REFLECT_101)
    return result


def displace(image: Floats, across: Floats, down: Floats) -> Floats:
    """Return the image at displaced positions by linear interpolation, mirrored at its edges."""
    from scipy.ndimage import map_coordinates

    rows, columns = np.mgrid[: image.shape[0], : image.shape[1]]
    positions = np.stack([rows + down, columns + across])
    channels = np.moveaxis(np.atleast_3d(image), 2, 0)
    moved = [map_coordinates(channel, positions, order=1, mode="reflect") for channel in channels]
    result: Floats = np.stack(moved, axis=-1).reshape(image.shape)
    return result


# Gray and color images ---------------------------------------------------------------------------


def _spread(image: Array, layer: Floats) -> Floats:
    """Give a layer (height, width) the number of axes of an image."""
    return layer[..., None] if image.ndim == 3 else layer


def _add_layer(image: Array, layer: Floats) -> Floats:
    result: Floats = image + _spread(image, layer)
    return result


def _shade(image: Array, color: Any) -> Array:
    """Return a color for a color image, and its gray value for a gray image."""
    return np.asarray(color if image.ndim == 3 else np.dot(color, GRAY_WEIGHTS), dtype=np.float32)


def _gray(image: Floats) -> Floats:
    gray: Floats = opencv().cvtColor(image, opencv().COLOR_RGB2GRAY) if image.ndim == 3 else image
    return gray


def _largest(image: Images) -> Images:
    """Return the largest channel of every pixel, in a shape that broadcasts with the image."""
    return image.max(axis=-1, keepdims=True) if image.ndim == 3 else image


def _pillow() -> Any:
    return require("PIL.Image", extra="images", purpose="Processing images")


# Parameters --------------------------------------------------------------------------------------

PublishedCorruption = Callable[[Images, Parameters, RowStreams], Images]
FiveParameters = tuple[Parameters, Parameters, Parameters, Parameters, Parameters]


def _single(*values: float) -> FiveParameters:
    first, second, third, fourth, fifth = ((value,) for value in values)
    return first, second, third, fourth, fifth


# Severities 1 to 5 of CIFAR-10-C, from make_cifar_c.py.
CIFAR_10_C: dict[str, FiveParameters] = {
    "gaussian_noise": _single(0.04, 0.06, 0.08, 0.09, 0.10),
    "shot_noise": _single(500, 250, 100, 75, 50),
    "impulse_noise": _single(0.01, 0.02, 0.03, 0.05, 0.07),
    "speckle_noise": _single(0.06, 0.10, 0.12, 0.16, 0.20),
    "gaussian_blur": _single(0.4, 0.6, 0.7, 0.8, 1),
    "glass_blur": ((0.05, 1, 1), (0.25, 1, 1), (0.4, 1, 1), (0.25, 1, 2), (0.4, 1, 2)),
    "defocus_blur": ((0.3, 0.4), (0.4, 0.5), (0.5, 0.6), (1, 0.2), (1.5, 0.1)),
    "motion_blur": ((6, 1), (6, 1.5), (6, 2), (8, 2), (9, 2.5)),
    "zoom_blur": ((1.06, 0.01), (1.11, 0.01), (1.16, 0.01), (1.21, 0.01), (1.26, 0.01)),
    "fog": ((0.2, 3), (0.5, 3), (0.75, 2.5), (1, 2), (1.5, 1.75)),
    "frost": ((1, 0.2), (1, 0.3), (0.9, 0.4), (0.85, 0.4), (0.75, 0.45)),
    "snow": (
        (0.1, 0.2, 1, 0.6, 8, 3, 0.95),
        (0.1, 0.2, 1, 0.5, 10, 4, 0.9),
        (0.15, 0.3, 1.75, 0.55, 10, 4, 0.9),
        (0.25, 0.3, 2.25, 0.6, 12, 6, 0.85),
        (0.3, 0.3, 1.25, 0.65, 14, 12, 0.8),
    ),
    "brightness": _single(0.05, 0.10, 0.15, 0.20, 0.30),
    "spatter": (
        (0.62, 0.1, 0.7, 0.7, 0.5, 0),
        (0.65, 0.1, 0.8, 0.7, 0.5, 0),
        (0.65, 0.3, 1, 0.69, 0.5, 0),
        (0.65, 0.1, 0.7, 0.69, 0.6, 1),
        (0.65, 0.1, 0.5, 0.68, 0.6, 1),
    ),
    "contrast": _single(0.75, 0.50, 0.40, 0.30, 0.15),
    "pixelate": _single(0.95, 0.90, 0.85, 0.75, 0.65),
    # Multiples of 32, the side of an image in pixels.
    "elastic": (
        (0, 0, 2.56),
        (1.6, 6.4, 2.24),
        (2.56, 1.92, 1.92),
        (3.2, 1.28, 1.6),
        (3.2, 0.96, 0.96),
    ),
    "jpeg": _single(80, 65, 58, 50, 40),
    "saturate": ((0.3, 0), (0.1, 0), (1.5, 0), (2, 0.1), (2.5, 0.2)),
}

# Severities 1 to 5 of ImageNet-C, from make_imagenet_c.py.
IMAGENET_C: dict[str, FiveParameters] = {
    "gaussian_noise": _single(0.08, 0.12, 0.18, 0.26, 0.38),
    "shot_noise": _single(60, 25, 12, 5, 3),
    "impulse_noise": _single(0.03, 0.06, 0.09, 0.17, 0.27),
    "speckle_noise": _single(0.15, 0.20, 0.35, 0.45, 0.60),
    "gaussian_blur": _single(1, 2, 3, 4, 6),
    "glass_blur": ((0.7, 1, 2), (0.9, 2, 1), (1, 2, 3), (1.1, 3, 2), (1.5, 4, 2)),
    "defocus_blur": ((3, 0.1), (4, 0.5), (6, 0.5), (8, 0.5), (10, 0.5)),
    "motion_blur": ((10, 3), (15, 5), (15, 8), (15, 12), (20, 15)),
    "zoom_blur": ((1.11, 0.01), (1.16, 0.01), (1.21, 0.02), (1.26, 0.02), (1.31, 0.03)),
    "fog": ((1.5, 2), (2, 2), (2.5, 1.7), (2.5, 1.5), (3, 1.4)),
    "frost": ((1, 0.4), (0.8, 0.6), (0.7, 0.7), (0.65, 0.7), (0.6, 0.75)),
    "snow": (
        (0.1, 0.3, 3, 0.5, 10, 4, 0.8),
        (0.2, 0.3, 2, 0.5, 12, 4, 0.7),
        (0.55, 0.3, 4, 0.9, 12, 8, 0.7),
        (0.55, 0.3, 4.5, 0.85, 12, 8, 0.65),
        (0.55, 0.3, 2.5, 0.85, 12, 12, 0.55),
    ),
    "brightness": _single(0.1, 0.2, 0.3, 0.4, 0.5),
    "spatter": (
        (0.65, 0.3, 4, 0.69, 0.6, 0),
        (0.65, 0.3, 3, 0.68, 0.6, 0),
        (0.65, 0.3, 2, 0.68, 0.5, 0),
        (0.65, 0.3, 1, 0.65, 1.5, 1),
        (0.67, 0.4, 1, 0.65, 1.5, 1),
    ),
    "contrast": _single(0.4, 0.3, 0.2, 0.1, 0.05),
    "pixelate": _single(0.6, 0.5, 0.4, 0.3, 0.25),
    # Multiples of 244 pixels. The images have 224 pixels, but the program has 244.
    "elastic": (
        (488, 170.8, 24.4),
        (488, 19.52, 48.8),
        (12.2, 2.44, 4.88),
        (17.08, 2.44, 4.88),
        (29.28, 2.44, 4.88),
    ),
    "jpeg": _single(25, 18, 15, 10, 7),
    "saturate": ((0.3, 0), (0.1, 0), (2, 0), (5, 0.1), (20, 0.2)),
}
