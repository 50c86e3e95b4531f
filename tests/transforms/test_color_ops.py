"""Colour operations against Pillow, also beyond the range of RandAugment."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from PIL import Image as pil

from oodometer.transforms import color_ops
from oodometer.transforms.color_ops import Image
from tests.support.cases import check_cases
from tests.support.pillow_twin import twin
from tests.support.small_images import SHAPES, pictures

ENHANCERS = {
    "color": color_ops.color,
    "contrast": color_ops.contrast,
    "brightness": color_ops.brightness,
    "sharpness": color_ops.sharpness,
}
images_of_any_size = st.one_of(
    arrays(np.uint8, array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=20)),
    arrays(np.uint8, st.tuples(st.integers(1, 20), st.integers(1, 20), st.just(3))),
)


@pytest.mark.parametrize("name", ENHANCERS)
@given(image=images_of_any_size, factor=st.floats(0, 4))
def test_enhancers_match_pillow(name: str, image: Image, factor: float) -> None:
    assert np.array_equal(ENHANCERS[name](image, factor), twin(image, name, factor))


@given(image=images_of_any_size, threshold=st.floats(0, 256), bits=st.floats(1, 8))
def test_solarize_and_posterize_match_pillow(image: Image, threshold: float, bits: float) -> None:
    assert np.array_equal(color_ops.solarize(image, threshold), twin(image, "solarize", threshold))
    assert np.array_equal(color_ops.posterize(image, bits), twin(image, "posterize", bits))


@given(image=images_of_any_size)
def test_autocontrast_and_equalize_match_pillow(image: Image) -> None:
    assert np.array_equal(color_ops.autocontrast(image), twin(image, "autocontrast", 0))
    assert np.array_equal(color_ops.equalize(image), twin(image, "equalize", 0))


def test_autocontrast_of_every_range_matches_pillow() -> None:
    def check(low: int, high: int) -> None:
        image = np.linspace(low, high, 256).astype(np.uint8).reshape(16, 16)
        assert np.array_equal(color_ops.autocontrast(image), twin(image, "autocontrast", 0))

    check_cases(check, itertools.combinations((0, 1, 100, 128, 254, 255), 2))


def test_equalize_of_skewed_channels_matches_pillow() -> None:
    rng = np.random.default_rng(0)
    for power in (0.2, 1, 3, 9):
        image = (255 * rng.random((40, 50, 3)) ** power).astype(np.uint8)
        image[:, :, 1] = 77
        assert np.array_equal(color_ops.equalize(image), twin(image, "equalize", 0))


def test_luma_matches_pillow_on_a_grid_of_colours() -> None:
    levels = np.array([*range(0, 256, 4), 255], dtype=np.uint8)
    image = np.stack(np.meshgrid(levels, levels, levels), axis=-1).reshape(65, -1, 3)
    assert np.array_equal(
        color_ops.to_grayscale(image), np.asarray(pil.fromarray(image).convert("L"))
    )


def test_factor_1_is_the_identity() -> None:
    def check(name: str, shape: tuple[int, ...]) -> None:
        for image in pictures(shape).values():
            assert np.array_equal(ENHANCERS[name](image, 1.0), image)

    check_cases(check, itertools.product(ENHANCERS, SHAPES))


def test_color_does_not_change_grey_images() -> None:
    image = pictures((9, 13))["random"]
    assert np.array_equal(color_ops.color(image, 0.1), image)
