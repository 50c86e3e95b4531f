"""Blur against closed forms and against means of shifted copies."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oodometer.core.array_types import Array, Floats
from oodometer.core.random_streams import RowStreams
from oodometer.transforms.corruptions import blur
from oodometer.transforms.corruptions.noise import Images
from tests.support.cases import check_cases
from tests.support.small_images import batch, drawn_for, many_draws

BLURS: dict[str, Callable[[Images, float, RowStreams], Images]] = {
    "gaussian": lambda images, share, _: blur.gaussian(images, share),
    "defocus": lambda images, share, _: blur.defocus(images, share),
    "motion": blur.motion,
    "zoom": lambda images, share, _: blur.zoom(images, share),
}


def read(image: Array, y: float, x: float) -> Floats:
    """Return the bilinear interpolation, with the image mirrored at its edges."""
    result: Floats = np.zeros(image.shape[2:])
    for i in (math.floor(y), math.floor(y) + 1):
        for j in (math.floor(x), math.floor(x) + 1):
            weight = (1 - abs(y - i)) * (1 - abs(x - j))
            result = result + weight * image[mirrored(i, len(image)), mirrored(j, image.shape[1])]
    return result


def mirrored(place: int, size: int) -> int:
    place %= 2 * size
    return place if place < size else 2 * size - 1 - place


def correlated(image: Array, kernel: Floats) -> Floats:
    """Correlate pixel by pixel."""
    reach = len(kernel) // 2
    padding = ((reach, reach), (reach, reach), (0, 0))[: image.ndim]
    around = np.pad(image.astype(float), padding, mode="symmetric")
    height, width = image.shape[:2]
    result: Floats = np.zeros(image.shape)
    for i in range(len(kernel)):
        for j in range(len(kernel)):
            result = result + kernel[i, j] * around[i : i + height, j : j + width]
    return result


@pytest.mark.parametrize("deviation", [0.06, 0.3, 0.7, 1.2, 5.0])
def test_gaussian_kernel_is_the_mean_of_samples_at_normal_offsets(deviation: float) -> None:
    kernel = blur.gaussian_kernel(deviation)
    places = np.linspace(-4.5, 4.5, 20_001)
    density = np.exp(-(places**2) / 2) / np.exp(-(places**2) / 2).sum()
    reach = len(kernel) // 2
    for j in range(-reach, reach + 1):
        weight = density @ np.maximum(0, 1 - np.abs(j - deviation * places))
        assert abs(kernel[j + reach] - weight) < 2e-4
    assert abs(kernel.sum() - 1) < 1e-6


def test_wide_gaussian_kernel_is_the_normal_density() -> None:
    j = np.arange(-21, 22)
    # Bilinear interpolation adds a variance of 1/6.
    variance = 25 + 1 / 6
    bell = np.exp(-(j**2) / (2 * variance)) / math.sqrt(2 * math.pi * variance)
    assert np.allclose(blur.gaussian_kernel(5.0), bell, atol=2e-5)


@pytest.mark.parametrize("side", [9, 32, 65])
def test_gaussian_blur_of_a_point_is_a_normal_density(side: int) -> None:
    image = np.zeros((1, side, side), dtype=np.uint8)
    image[0, side // 2, side // 2] = 255
    kernel = blur.gaussian_kernel(0.02 * side)
    expected = np.zeros((side, side))
    reach = len(kernel) // 2
    around = slice(side // 2 - reach, side // 2 + reach + 1)
    expected[around, around] = 255 * np.outer(kernel, kernel)
    assert np.abs(blur.gaussian(image, 0.02)[0] - expected).max() <= 0.501


@pytest.mark.parametrize("radius", [0.1, 0.5, 1.7, 3.0, 6.3, 11.2])
def test_disk_kernel_covers_the_disk(radius: float) -> None:
    kernel = blur.disk_kernel(radius)
    reach = len(kernel) // 2
    places = np.arange(-reach, reach + 1)
    distance = np.hypot(*np.meshgrid(places, places))
    assert abs(kernel.sum() - 1) < 1e-5
    assert np.allclose(kernel, kernel.T, atol=1e-6)
    assert np.allclose(kernel, kernel[::-1, ::-1], atol=1e-6)
    assert not kernel[distance > radius + 1.5].any()
    inside = kernel[distance < radius - 1.5]
    assert np.allclose(inside, 1 / (math.pi * radius**2), rtol=0.02)
    assert radius < 1.5 or inside.size > 0


def test_disk_kernel_has_the_variance_of_a_disk() -> None:
    for radius in (4.0, 9.0):
        kernel = blur.disk_kernel(radius)
        places = np.arange(len(kernel)) - len(kernel) // 2
        assert kernel.sum(axis=0) @ places**2 == pytest.approx(radius**2 / 4 + 1 / 6, rel=0.01)


def test_line_kernel_covers_the_line() -> None:
    level = blur.line_kernel(3.0, 0.0)
    # A line from −1.5 to 1.5: the pixel at 1 has 7/8 of a third, that at 2 an eighth.
    expected = np.array([1 / 8, 7 / 8, 1, 7 / 8, 1 / 8]) / 3
    assert np.allclose(level[len(level) // 2], expected, atol=2e-3)
    assert abs(level.sum() - 1) < 1e-6
    assert abs(level[len(level) // 2].sum() - 1) < 1e-6
    assert np.allclose(blur.line_kernel(3.0, math.pi / 2), level.T, atol=1e-6)
    assert np.allclose(blur.line_kernel(4.0, 0.3), blur.line_kernel(4.0, -0.3)[::-1], atol=1e-6)


@given(
    st.lists(st.tuples(st.floats(-4, 4), st.floats(-4, 4)), min_size=1, max_size=6),
    st.integers(0, 99),
)
def test_bilinear_kernel_is_the_mean_of_shifted_copies(
    points: list[tuple[float, float]], seed: int
) -> None:
    image = batch(1, 9, 11, seed=seed)[0].astype(float)
    fast = correlated(image, blur.bilinear_kernel(np.array(points)))
    for i, j in ((0, 0), (4, 5), (8, 10)):
        slow = np.mean([read(image, i + y, j + x) for x, y in points])
        assert abs(fast[i, j] - slow) < 1e-2


@pytest.mark.parametrize("shape", [(8, 8), (9, 13), (32, 24, 3)])
def test_blurs_match_a_loop_over_their_kernels(shape: tuple[int, ...]) -> None:
    images = batch(3, *shape)
    draws = drawn_for(images)
    side = min(shape[:2])
    row = blur.gaussian_kernel(0.05 * side)
    angles = math.pi * draws.uniforms(1)[:, 0]
    pairs = [
        (blur.gaussian(images, 0.05), [np.outer(row, row)] * 3),
        (blur.defocus(images, 0.08), [blur.disk_kernel(0.08 * side)] * 3),
        (blur.motion(images, 0.2, draws), [blur.line_kernel(0.2 * side, a) for a in angles]),
    ]
    for blurred_image, kernels in pairs:
        for image, kernel, blurred in zip(images, kernels, blurred_image, strict=True):
            assert np.abs(blurred - correlated(image, kernel)).max() < 0.51


@pytest.mark.parametrize("shape", [(8, 8), (12, 9, 3)])
def test_zoom_is_the_mean_of_enlargements(shape: tuple[int, ...]) -> None:
    images = batch(2, *shape)
    height, width = shape[:2]
    factors = np.linspace(1, 1.25, 2 + math.ceil(0.25 * max(height, width)))
    middle = (height - 1) / 2, (width - 1) / 2
    for image, blurred_image in zip(images, blur.zoom(images, 0.25), strict=True):
        for i in range(height):
            for j in range(width):
                places = ((middle[0] + (i - middle[0]) / f, middle[1] + (j - middle[1]) / f)
                          for f in factors)  # fmt: skip
                slow = np.mean([read(image, *place) for place in places], axis=0)
                # OpenCV 4 interpolates at 1/32 pixel: an error of at most 1/64 pixel of 255 levels.
                assert np.abs(blurred_image[i, j] - slow).max() < 0.5 + 2 * 255 / 64


def test_enlargement_by_1_is_the_identity() -> None:
    image = batch(1, 9, 13, 3)[0].astype(np.float32)
    assert np.array_equal(blur.enlarge(image, 1.0), image)


def test_constant_images_are_not_changed() -> None:
    def check(name: str, shape: tuple[int, ...], value: int) -> None:
        images = np.full(shape, value, dtype=np.uint8)
        assert np.array_equal(BLURS[name](images, 0.1, many_draws(len(images))), images)

    check_cases(
        check,
        itertools.product(
            BLURS, [(3, 1, 1), (3, 8, 8), (3, 32, 20, 3), (1, 224, 224, 3)], [0, 77, 255]
        ),
    )


def test_blurs_below_one_pixel_have_an_effect() -> None:
    def check(name: str) -> None:
        images = batch(5, 8, 8)
        assert not np.array_equal(BLURS[name](images, 0.01, drawn_for(images)), images)

    check_cases(check, zip(BLURS))


def test_motion_blur_has_a_random_angle_per_row() -> None:
    image = np.zeros((1, 33, 33), dtype=np.uint8)
    image[0, 16, 16] = 255
    draws = many_draws(20)
    blurred_image = blur.motion(image.repeat(20, axis=0), 0.5, draws).astype(float)
    places = np.arange(33) - 16
    for row, angle in zip(blurred_image, math.pi * draws.uniforms(1)[:, 0], strict=True):
        off = math.cos(angle) * places[:, None] - math.sin(angle) * places
        along = math.sin(angle) * places[:, None] + math.cos(angle) * places
        assert not row[np.abs(off) > 1.5].any()
        spread = (row * along**2).sum() / row.sum()
        assert spread == pytest.approx(16.5**2 / 12, rel=0.1)


def test_number_of_zoom_steps_is_limited(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    images = batch(1, 40, 60, 3)
    fine = blur.zoom(images, 0.25).astype(float)
    monkeypatch.setattr(blur, "MAX_ZOOM_STEPS", 8)
    coarse = blur.zoom(images, 0.25).astype(float)
    assert 0 < np.abs(coarse - fine).mean() < 3
