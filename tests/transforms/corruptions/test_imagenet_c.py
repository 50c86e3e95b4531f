"""Published corruptions against the authors' programs, against loops, and in closed form.

`imagenet_c_reference.json` has results of the authors' programs (repository hendrycks/robustness,
make_cifar_c.py for 32 and make_imagenet_c.py for 224 pixels, with their motion blur replaced by
that of imagecorruptions 1.1.2) on the image `picture(side)`:

- pixels: 8 × 8 pixels of the result, as hexadecimal digits, and mean_change: mean absolute change
  of all pixels. The random numbers of the programs were replaced by those of `STREAM`.
- noise: mean and standard deviation of the change over 200 (32 pixels) or 12 (224 pixels) draws.

There are no results for frost, because frost is drawn differently here.
"""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from scipy.ndimage import zoom

from oodometer.core.array_types import Array, Floats, Ints
from oodometer.core.random_streams import RowStreams
from oodometer.transforms.corruptions import CORRUPTIONS, SEVERITIES, Corruption, imagenet_c
from oodometer.transforms.corruptions.noise import Images
from tests.support.small_images import batch, drawn_for, many_draws

REFERENCE = json.loads((Path(__file__).parent / "imagenet_c_reference.json").read_text())
STREAM = RowStreams(0, np.array([7], dtype=np.uint64), np.array([1]))
NOISE = ("gaussian_noise", "impulse_noise", "speckle_noise")
# Number of draws behind the reference of the noise.
NOISE_DRAWS = {32: 200, 224: 12}
# Largest difference of a pixel, and of the mean absolute change. The programs truncate values that
# a rounding error has moved below a whole number, which reduces pixels of even areas by 1; glass
# blur does so twice. The affine map of elastic is an OpenCV function that interpolates differently
# between versions.
BOUNDS = {
    "shot_noise": (0, 1e-4),
    "gaussian_blur": (1, 0.06),
    "glass_blur": (2, 0.15),
    "defocus_blur": (1, 0.3),
    "motion_blur": (1, 1e-3),
    "zoom_blur": (1, 0.1),
    "fog": (1, 2e-3),
    "snow": (1, 6e-3),
    "brightness": (1, 0.1),
    "spatter": (1, 1e-3),
    "contrast": (0, 1e-4),
    "pixelate": (0, 1e-4),
    "elastic": (8, 0.1),
    "jpeg": (0, 1e-4),
    "saturate": (1, 0.04),
}


def picture(side: int) -> Images:
    """Return a color image with waves, a disk, a box, stripes and a black corner."""
    y, x = np.mgrid[:side, :side] / side
    disk = 255 * ((x - 0.5) ** 2 + (y - 0.5) ** 2 < 0.1)
    waves = (127 + 100 * np.sin(7 * x + 3 * y), 127 + 100 * np.cos(5 * y * x + 2))
    image = np.stack([*waves, disk], axis=-1)
    image[(np.abs(y - 0.7) < 0.12) & (np.abs(x - 0.3) < 0.15)] = (30, 90, 190)
    image[(y > 0.75) & (np.floor(x * 9) % 2 == 0)] = 225
    image[: max(side // 8, 1), : side // 4] = 0
    return image.astype(np.uint8)


def decoded(text: str) -> Ints:
    return np.frombuffer(bytes.fromhex(text), dtype=np.uint8).astype(np.int64).reshape(8, 8, 3)


@pytest.mark.parametrize("key", REFERENCE["pixels"])
def test_pixels_match_the_published_programs(key: str) -> None:
    side, name, severity = key.split("/")
    image, step = picture(int(side)), int(side) // 8
    corrupted = Corruption(name, int(severity)).apply(image[None], STREAM)[0].astype(np.int64)
    most, most_on_average = BOUNDS[name]
    pixels = corrupted[step // 2 :: step, step // 2 :: step]
    assert np.abs(pixels - decoded(REFERENCE["pixels"][key])).max() <= most
    change = float(np.abs(corrupted - image).mean())
    assert abs(change - REFERENCE["mean_change"][key]) <= most_on_average


@pytest.mark.parametrize("key", REFERENCE["noise"])
def test_noise_has_the_moments_of_the_published_programs(key: str) -> None:
    side, name, severity = key.split("/")
    image, n = picture(int(side)), NOISE_DRAWS[int(side)]
    images = np.repeat(image[None], n, axis=0)
    residual = Corruption(name, int(severity)).apply(images, many_draws(n)).astype(float) - images
    mean, deviation = REFERENCE["noise"][key]
    # Both means have this standard error, and both squares have one by their fourth moment.
    error = residual.std() / math.sqrt(residual.size)
    spread = (residual**2).std() / (2 * residual.std() * math.sqrt(residual.size))
    assert abs(residual.mean() - mean) < 4 * math.sqrt(2) * error + 1e-4
    assert abs(residual.std() - deviation) < 4 * math.sqrt(2) * spread + 1e-4


def test_reference_covers_every_corruption_but_frost() -> None:
    names = {key.split("/")[1] for part in ("pixels", "noise") for key in REFERENCE[part]}
    assert names == set(CORRUPTIONS) - {"frost"}
    assert len(REFERENCE["pixels"]) + len(REFERENCE["noise"]) == 18 * 5 * 2


def test_both_tables_have_five_severities_of_every_corruption() -> None:
    for table in (imagenet_c.CIFAR_10_C, imagenet_c.IMAGENET_C):
        assert set(table) == set(CORRUPTIONS)
        assert {len(parameters) for parameters in table.values()} == {5}


@pytest.mark.parametrize(
    ("shape", "table"),
    [
        ((63, 63), imagenet_c.CIFAR_10_C),
        ((64, 20), imagenet_c.IMAGENET_C),
        ((20, 64), imagenet_c.IMAGENET_C),
        ((224, 224), imagenet_c.IMAGENET_C),
    ],
)
def test_longer_side_selects_the_dataset(shape: tuple[int, int], table: dict[str, Array]) -> None:
    images = batch(1, *shape, 3)
    draws = drawn_for(images)
    for severity in SEVERITIES:
        corruption = Corruption("contrast", severity)
        assert corruption.parameters(max(shape)) == table["contrast"][severity - 1]
        expected = imagenet_c.contrast(images, table["contrast"][severity - 1], draws)
        assert np.array_equal(corruption.apply(images, draws), expected)


# Slow twins --------------------------------------------------------------------------------------


def copied_one_by_one(image: Array, offsets: Ints, reach: int) -> Array:
    result = image.copy()
    height, width = image.shape[:2]
    for row in range(height - reach, reach, -1):
        for column in range(width - reach, reach, -1):
            across, down = offsets[row, column]
            result[row, column] = result[row + down, column + across].copy()
    return result


@pytest.mark.parametrize("reach", [1, 2, 4])
@pytest.mark.parametrize("shape", [(20, 17), (9, 30, 3), (5, 5), (1, 1, 3)])
def test_copied_neighbors_match_a_loop_over_pixels(shape: tuple[int, ...], reach: int) -> None:
    rng = np.random.default_rng(reach)
    image = np.arange(math.prod(shape)).reshape(shape)
    offsets = rng.integers(-reach, reach, (*shape[:2], 2))
    result = imagenet_c.copy_neighbors(image, offsets, reach)
    assert np.array_equal(result, copied_one_by_one(image, offsets, reach))


def blurred_by_pixel(image: Array, radius: float, sigma: float, degrees: float) -> Floats:
    """Return the motion blur of ImageMagick, one pixel at a time."""
    height, width = image.shape
    steps = range(2 * math.ceil(radius) + 1)
    weights = [math.exp(-i * i / (2 * sigma**2)) for i in steps]
    y, x = math.sin(math.radians(degrees)), math.cos(math.radians(degrees))
    result = np.zeros(image.shape)
    for row in range(height):
        for column in range(width):
            for i in steps:
                r = min(max(row + math.ceil(i * y - 0.5), 0), height - 1)
                c = min(max(column + math.ceil(i * x - 0.5), 0), width - 1)
                result[row, column] += weights[i] / sum(weights) * image[r, c]
    return result


@pytest.mark.parametrize("degrees", [-135, -80, -45, 0, 12.5, 45])
def test_directional_blur_matches_a_loop_over_pixels(degrees: float) -> None:
    image = batch(1, 9, 14)[0]
    result = imagenet_c.directional_blur(image, 4, 2.5, degrees)
    assert np.allclose(result, blurred_by_pixel(image, 4, 2.5, degrees), atol=1e-3)


def test_plasma_matches_a_loop_over_points() -> None:
    side, decay = 16, 1.7
    rng = np.random.default_rng(3)
    grid: dict[tuple[int, int], float] = {(0, 0): 0.0}
    step, amplitude = side, 1.0

    def mean(points: list[tuple[int, int]]) -> float:
        return sum(grid[y % side, x % side] for y, x in points) / 4

    while step >= 2:
        half, starts = step // 2, range(0, side, step)
        kinds = [((half, half), [(-half, -half), (-half, half), (half, -half), (half, half)])]
        cross = [(-half, 0), (half, 0), (0, -half), (0, half)]
        kinds += [((0, half), cross), ((half, 0), cross)]
        for (down, across), around in kinds:
            for y in (start + down for start in starts):
                for x in (start + across for start in starts):
                    near = [(y + dy, x + dx) for dy, dx in around]
                    grid[y, x] = mean(near) + rng.uniform(-amplitude, amplitude)
        amplitude /= decay**2
        step = half
    slow = np.array([[grid[y, x] for x in range(side)] for y in range(side)])
    slow = (slow - slow.min()) / (slow.max() - slow.min())
    assert np.allclose(imagenet_c.plasma(np.random.default_rng(3), side, decay), slow)


# Closed forms ------------------------------------------------------------------------------------


def hsv_twin(pixel: tuple[int, int, int], factor: float, offset: float, brighter: float) -> Floats:
    """Change a pixel by the standard library's HSV."""
    import colorsys

    hue, saturation, value = colorsys.rgb_to_hsv(*(channel / 255 for channel in pixel))
    saturation = min(saturation * factor + offset, 1)
    changed = colorsys.hsv_to_rgb(hue, saturation, min(value + brighter, 1))
    return 255 * np.array(changed)


@pytest.mark.parametrize(
    "pixel", [(10, 200, 90), (0, 0, 0), (77, 77, 77), (255, 0, 255), (3, 2, 1)]
)
def test_brightness_and_saturation_match_hsv(pixel: tuple[int, int, int]) -> None:
    images = np.array(pixel, dtype=np.uint8).reshape(1, 1, 1, 3)
    draws = many_draws(1)
    for factor, offset in imagenet_c.IMAGENET_C["saturate"]:
        result = imagenet_c.saturate(images, (factor, offset), draws)[0, 0, 0]
        assert np.abs(result - np.floor(hsv_twin(pixel, factor, offset, 0) + 1e-3)).max() <= 1
    for (brighter,) in imagenet_c.IMAGENET_C["brightness"]:
        result = imagenet_c.brightness(images, (brighter,), draws)[0, 0, 0]
        assert np.abs(result - np.floor(hsv_twin(pixel, 1, 0, brighter) + 1e-3)).max() <= 1


def test_gray_images_have_no_saturation() -> None:
    images = batch(2, 8, 8)
    assert np.array_equal(Corruption("saturate", 5).apply(images, drawn_for(images)), images)


def test_deterministic_blurs_keep_constant_images() -> None:
    images = np.full((1, 40, 30, 3), 77, dtype=np.uint8)
    for name in ("gaussian_blur", "glass_blur", "defocus_blur", "motion_blur", "zoom_blur"):
        for severity in SEVERITIES:
            result = Corruption(name, severity).apply(images, STREAM)
            assert np.array_equal(result, images), (name, severity)


@pytest.mark.parametrize("factor", [1, 1.01, 1.25, 2.25, 4.5])
@pytest.mark.parametrize("shape", [(32, 32), (9, 14, 3), (7, 7)])
def test_enlargement_matches_scipy(factor: float, shape: tuple[int, ...]) -> None:
    image = batch(1, *shape)[0].astype(np.float64)
    parts = [math.ceil(size / factor) for size in shape[:2]]
    tops = [(size - part) // 2 for size, part in zip(shape, parts, strict=False)]
    crop = image[tops[0] : tops[0] + parts[0], tops[1] : tops[1] + parts[1]]
    large = zoom(crop, (factor, factor, 1)[: image.ndim], order=1, mode="nearest")
    down, across = ((large.shape[axis] - shape[axis]) // 2 for axis in (0, 1))
    expected = large[down : down + shape[0], across : across + shape[1]]
    assert np.allclose(imagenet_c.enlarge(image, factor), expected)


def test_frost_has_the_tones_of_the_photographs() -> None:
    """With a = 0 and b = 1, only the ice is left; its mean color is one of five tones."""
    images = np.zeros((60, 32, 32, 3), dtype=np.uint8)
    ice = imagenet_c.frost(images, (0, 1), many_draws(60)).astype(float)
    tones = np.array(imagenet_c.FROST_TONES)
    distance = np.abs(ice.mean(axis=(1, 2))[:, None] - tones[:, :3]).max(axis=2)
    assert distance.min(axis=1).max() < 4
    closest = distance.argmin(axis=1)
    assert set(closest) >= {0, 1, 3, 4}
    spread = ice.std(axis=(1, 2)).mean(axis=1)
    assert np.abs(spread - tones[closest, 3]).max() < 6


def test_spatter_is_water_and_then_mud() -> None:
    images = np.full((40, 32, 32, 3), 100, dtype=np.uint8)
    for severity in SEVERITIES:
        change = Corruption("spatter", severity).apply(images, many_draws(40)).astype(float) - 100
        assert (change.min() < 0) == (severity >= 4)
        assert (change.max() > 0) == (severity <= 3)
