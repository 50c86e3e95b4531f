"""Noise against loops over single values and against its theoretical moments."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from oodometer.core.array_types import Floats
from oodometer.core.random_streams import RowStreams
from oodometer.transforms.corruptions import noise
from oodometer.transforms.corruptions.noise import Images
from tests.support.small_images import batch, drawn_for, many_draws

Twin = Callable[[int, float, np.random.Generator], float]

# One value at a time, in the order in which the generator yields them.
TWINS: dict[str, tuple[float, Twin]] = {
    "gaussian": (0.1, lambda x, amount, rng: x + 255 * amount * _normal(rng)),
    "speckle": (0.3, lambda x, amount, rng: x + x * amount * _normal(rng)),
    "shot": (20, lambda x, amount, rng: rng.poisson(x / 255 * amount) / amount * 255),
}


def _normal(rng: np.random.Generator) -> float:
    return float(rng.standard_normal(dtype=np.float32))


def level(value: int, n: int = 50) -> Images:
    return np.full((n, 20, 20), value, dtype=np.uint8)


@pytest.mark.parametrize("name", TWINS)
@pytest.mark.parametrize("shape", [(9, 13), (8, 8, 3)])
def test_noise_matches_a_loop_over_values(name: str, shape: tuple[int, ...]) -> None:
    images = batch(3, *shape)
    draws = drawn_for(images)
    amount, twin = TWINS[name]
    noisy = getattr(noise, name)(images, amount, draws)
    for image, row, rng in zip(images, noisy, draws.generators(), strict=True):
        slow = np.array([twin(x, amount, rng) for x in image.ravel().tolist()])
        # A value halfway between two whole ones may be rounded either way.
        assert np.abs(row.ravel() - slow.clip(0, 255)).max() < 0.5 + 1e-3


def test_impulses_match_a_loop_over_values() -> None:
    images = batch(3, 9, 13)
    draws = drawn_for(images)
    noisy = noise.impulse(images, 0.3, draws)
    for image, row, rng in zip(images, noisy, draws.generators(), strict=True):
        for old, new in zip(image.ravel().tolist(), row.ravel().tolist(), strict=True):
            u = rng.random(dtype=np.float32)
            assert new == (old if u >= 0.3 else 0 if u < 0.15 else 255)


@pytest.mark.parametrize("deviation", [0.04, 0.11])
def test_gaussian_noise_has_its_standard_deviation(deviation: float) -> None:
    noisy = noise.gaussian(level(128), deviation, many_draws(50)).astype(float)
    sigma = 255 * deviation
    assert abs(noisy.mean() - 128) < 5 * sigma / math.sqrt(noisy.size)
    # Rounding adds a variance of 1/12.
    expected = math.sqrt(sigma**2 + 1 / 12)
    assert abs(noisy.std() - expected) < 5 * expected / math.sqrt(2 * noisy.size)


def test_shot_noise_has_a_variance_proportional_to_the_mean() -> None:
    photons = 51  # grains of 5 each: nothing is lost by rounding
    for value in (10, 40, 80, 120):
        noisy = noise.shot(level(value), photons, many_draws(50)).astype(float)
        variance = 255 * value / photons
        assert abs(noisy.mean() - value) < 5 * math.sqrt(variance / noisy.size)
        # The fourth moment of a Poisson count: the variance's own error is √(2 + 1/λ) as large.
        error = math.sqrt((2 + 255 / (photons * value)) / noisy.size)
        assert abs(noisy.var() / variance - 1) < 5 * error


def test_shot_noise_is_discrete_and_keeps_black() -> None:
    noisy = noise.shot(level(100), 5, many_draws(50))
    assert set(np.unique(noisy).tolist()) == {0, 51, 102, 153, 204, 255}
    assert not noise.shot(level(0), 5, many_draws(50)).any()


def test_impulse_fraction_matches_and_half_are_white() -> None:
    share = 0.12
    noisy = noise.impulse(level(77), share, many_draws(50))
    for value in (0, 255):
        error = math.sqrt(share / 2 * (1 - share / 2) / noisy.size)
        assert abs((noisy == value).mean() - share / 2) < 5 * error
    assert set(np.unique(noisy).tolist()) == {0, 77, 255}


def test_larger_impulse_fractions_include_smaller_ones() -> None:
    few, many = (noise.impulse(level(77), share, many_draws(50)) != 77 for share in (0.05, 0.2))
    assert np.all(many[few])


def test_impulses_are_independent_per_channel() -> None:
    images = np.full((50, 20, 20, 3), 77, dtype=np.uint8)
    hit = noise.impulse(images, 0.1, many_draws(50)) != 77
    assert abs((hit[..., 0] & hit[..., 1]).mean() - 0.01) < 5 * math.sqrt(0.01 / hit[..., 0].size)


def test_speckle_grows_with_the_value() -> None:
    for value in (0, 40, 100):
        noisy = noise.speckle(level(value), 0.2, many_draws(50)).astype(float)
        expected = math.sqrt((0.2 * value) ** 2 + (1 / 12 if value else 0))
        assert abs(noisy.std() - expected) <= 5 * expected / math.sqrt(2 * noisy.size)


def smooth_twin(draws: RowStreams, height: int, width: int, cells: int) -> Floats:
    """Interpolate every pixel between its four corners, for square images."""
    knots = draws.uniforms((cells + 1) ** 2).reshape(-1, cells + 1, cells + 1)
    noisy = np.empty((len(draws), height, width))
    for i in range(height):
        for j in range(width):
            y, x = (i + 0.5) * cells / height, (j + 0.5) * cells / width
            top, left = math.floor(y), math.floor(x)
            down, right = (3 * t**2 - 2 * t**3 for t in (y - top, x - left))
            upper = knots[:, top, left] * (1 - right) + knots[:, top, left + 1] * right
            lower = knots[:, top + 1, left] * (1 - right) + knots[:, top + 1, left + 1] * right
            noisy[:, i, j] = upper * (1 - down) + lower * down
    return noisy


@pytest.mark.parametrize("cells", [1, 3, 8, 20])
@pytest.mark.parametrize("side", [1, 8, 15])
def test_smooth_noise_matches_a_loop_over_pixels(cells: int, side: int) -> None:
    draws = many_draws(4)
    noisy = noise.smooth_noise(draws, (side, side), cells=cells)
    assert noisy.shape == (4, side, side)
    assert np.allclose(noisy, smooth_twin(draws, side, side, cells), atol=1e-4)


def test_cells_are_square_in_wide_images() -> None:
    noisy = noise.smooth_noise(many_draws(200), (8, 40), cells=2)
    # Four pixels per cell in both directions, so neighbors are equally similar in both.
    across, down = (np.abs(np.diff(noisy, axis=axis)).mean() for axis in (2, 1))
    assert abs(across / down - 1) < 0.1
