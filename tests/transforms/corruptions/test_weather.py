"""Weather corruptions against their formulas."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oodometer.core.array_types import Floats
from oodometer.core.random_streams import RowStreams
from oodometer.transforms.corruptions import weather
from oodometer.transforms.corruptions.noise import Images, smooth_noise
from tests.support.small_images import batch, drawn_for, many_draws

Laid = Callable[[Images, float, RowStreams], Images]


def level(value: int, *shape: int) -> Images:
    return np.full(shape, value, dtype=np.uint8)


def cloud_of(draws: RowStreams, shape: tuple[int, ...]) -> Floats:
    return weather.fractal_noise(
        draws, shape, np.asarray, cells=weather.CLOUD_CELLS, decay=weather.CLOUD_DECAY
    )


@given(st.integers(0, 255), st.floats(0, 1))
def test_brightness_is_added(value: int, share: float) -> None:
    corrupted = int(weather.brightness(level(value, 1, 1, 1), share)[0, 0, 0])
    assert abs(corrupted - min(value + 255 * share, 255)) < 0.5 + 1e-4


@pytest.mark.parametrize("shape", [(8, 8), (32, 24)])
def test_fractal_noise_is_a_weighted_sum(shape: tuple[int, int]) -> None:
    draws = many_draws(5)
    layers = enumerate((2, 4, 8, 16, 32))
    parts = [
        0.6**i * smooth_noise(draws.substream(str(cells)), shape, cells=cells)
        for i, cells in layers
    ]
    for row, corrupted in enumerate(cloud_of(draws, shape)):
        total = np.array([part[row] for part in parts]).sum(axis=0)
        assert np.allclose(
            corrupted, (total - total.min()) / (total.max() - total.min()), atol=1e-5
        )
        assert (corrupted.min(), corrupted.max()) == (0, 1)


def test_clouds_are_smooth_and_differ_by_row() -> None:
    corrupted = cloud_of(many_draws(50), (32, 32))
    step, spread = np.abs(np.diff(corrupted, axis=1)).mean(), corrupted.std()
    assert step < spread / 3, "neighbors must be much alike"
    shares = np.asarray(np.corrcoef(corrupted.reshape(50, -1)))[~np.eye(50, dtype=bool)]
    assert abs(shares.mean()) < 0.1
    assert np.abs(shares).max() < 0.98


@pytest.mark.parametrize("shape", [(16, 16), (16, 20, 3)])
def test_fog_matches_the_formula(shape: tuple[int, ...]) -> None:
    images = batch(4, *shape)
    draws = drawn_for(images)
    clouds = cloud_of(draws, shape[:2])
    for image, cloud, corrupted in zip(
        images, clouds, weather.fog(images, 0.6, draws), strict=True
    ):
        opacity = 0.6 * (0.4 + 0.6 * cloud)
        for i in range(shape[0]):
            for j in range(shape[1]):
                slow = image[i, j] + opacity[i, j] * (235 - image[i, j].astype(float))
                assert np.abs(corrupted[i, j] - slow).max() < 0.501


def test_fog_opacity_is_within_its_bounds() -> None:
    corrupted = weather.fog(level(0, 20, 32, 32), 0.8, many_draws(20))
    assert corrupted.min(axis=(1, 2)).tolist() == [round(0.4 * 0.8 * 235)] * 20
    assert corrupted.max(axis=(1, 2)).tolist() == [round(0.8 * 235)] * 20


@pytest.mark.parametrize("change", [weather.fog, weather.frost, weather.snow])
@pytest.mark.parametrize("shape", [(30, 8, 8), (30, 32, 32, 3)])
def test_dark_images_become_lighter_everywhere(change: Laid, shape: tuple[int, ...]) -> None:
    images = batch(*shape) // 2
    corrupted = change(images, 0.35, drawn_for(images))
    assert np.all(corrupted >= images)
    assert corrupted.mean() > images.mean() + 2


@pytest.mark.parametrize("change", [weather.fog, weather.frost, weather.snow])
def test_all_channels_are_changed_alike(change: Laid) -> None:
    grey = batch(5, 16, 20)
    draws = drawn_for(grey)
    corrupted = change(np.repeat(grey[..., None], 3, axis=3), 0.35, draws)
    assert np.array_equal(corrupted, np.repeat(change(grey, 0.35, draws)[..., None], 3, axis=3))


def test_frost_grows_from_the_edges() -> None:
    corrupted = weather.frost(level(0, 100, 32, 32), 0.8, many_draws(100)).mean(axis=0)
    middle, edges = (
        corrupted[12:20, 12:20].mean(),
        np.concatenate([corrupted[:3], corrupted[-3:]]).mean(),
    )
    assert middle < edges / 3


def test_ridges_are_where_noise_crosses_one_half() -> None:
    shape = (32, 32)
    draws = many_draws(5)
    corrupted = weather.frost(level(0, 5, *shape), 1.0, draws)
    total = np.zeros((5, *shape))
    for layer, cells in enumerate((4, 8, 16, 32)):
        noise = smooth_noise(draws.substream(str(cells)), shape, cells=cells)
        total += 0.8**layer * (1 - np.abs(2 * noise - 1)) ** 2
    low, high = (end(axis=(1, 2), keepdims=True) for end in (total.min, total.max))
    ice = (total - low) / (high - low)
    away = np.abs(np.arange(32) - 15.5) / 16
    grown = (1.2 * ice + 0.9 * np.maximum(away[:, None], away) - 0.6).clip(0, 1)
    assert np.abs(corrupted - grown * (180 + 75 * ice)).max() < 0.51


def test_snow_changes_a_minority_of_pixels() -> None:
    corrupted = weather.snow(level(50, 50, 64, 64), 0.23, many_draws(50))
    assert 0.6 < (corrupted == 50).mean() < 0.98
    assert 0 < (corrupted > 150).mean() < 0.2


def test_higher_snow_share_covers_a_superset() -> None:
    little, much = (weather.snow(level(0, 9, 32, 32), share, many_draws(9)) for share in (0.2, 0.4))
    assert np.all(much >= little)


def test_snow_is_blurred_vertically() -> None:
    corrupted = weather.snow(level(0, 100, 64, 64), 0.3, many_draws(100)).astype(float)
    down, across = (np.abs(np.diff(corrupted, axis=axis)).mean() for axis in (1, 2))
    assert down < 0.8 * across


def test_full_opacity_hides_the_image() -> None:
    images = batch(3, 8, 9, 3)
    ones = np.ones((3, 8, 9), dtype=np.float32)
    assert np.all(weather.blend_shade(images, ones, 255.0) == 255)
    assert np.array_equal(weather.blend_shade(images, 0 * ones, 255.0), images)
