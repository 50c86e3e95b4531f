"""Properties of all image transforms, and of each one."""

from __future__ import annotations

import itertools
from dataclasses import FrozenInstanceError, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oodometer.core.errors import InputError
from oodometer.core.protocols import Transform
from oodometer.transforms.images import (
    Brightness,
    Color,
    Contrast,
    Erase,
    FlipCrop,
    Rotate,
    Shear,
    Translate,
)
from oodometer.transforms.randaugment import RandAugment
from tests.support.cases import check_cases
from tests.support.pillow_twin import twin
from tests.support.small_images import batch, drawn_for, many_draws

MEMBERS: list[Any] = [
    RandAugment(),
    RandAugment(n_ops=3),
    Translate(),
    Erase(),
    FlipCrop(),
    Rotate(),
    Shear(),
    Brightness(),
    Contrast(),
    Color(),
]
SHAPES = [(8, 8), (8, 8, 1), (9, 13, 3), (32, 32, 3), (140, 64)]
every_member = pytest.mark.parametrize("member", MEMBERS, ids=repr)
every_shape = pytest.mark.parametrize("shape", SHAPES, ids=str)


def test_transform_has_metadata_and_is_frozen() -> None:
    def check(member: Any) -> None:
        assert issubclass(type(member), Transform)
        assert member.kinds == ("images",)
        assert member.name == member.name.lower()
        assert member.label
        assert member.assumes
        assert hash(member) == hash(replace(member))
        with pytest.raises(FrozenInstanceError):
            member.magnitude = 0.0

    check_cases(check, zip(MEMBERS))


def test_output_has_shape_and_type_of_the_input_which_is_unchanged() -> None:
    def check(member: Any, shape: Any) -> None:
        images = batch(20, *shape)
        original = images.copy()
        images.setflags(write=False)
        changed = member.apply(images, drawn_for(images))
        assert changed.dtype == np.uint8
        assert changed.shape == images.shape
        assert not np.shares_memory(changed, images)
        assert np.array_equal(images, original)
        grey = len(shape) == 2 or shape[-1] == 1
        assert np.array_equal(changed, original) == (member.name == "color" and grey)

    check_cases(check, itertools.product(MEMBERS, SHAPES))


def test_magnitude_0_is_the_identity() -> None:
    def check(member: Any, shape: Any) -> None:
        images = batch(40, *shape)
        none = replace(member, magnitude=0.0).apply(images, drawn_for(images))
        assert np.array_equal(none, images)
        assert not np.shares_memory(none, images)

    check_cases(check, itertools.product(MEMBERS, SHAPES))


@every_member
def test_rows_do_not_depend_on_the_batch(member: Any) -> None:
    images = batch(30, 12, 10, 3)
    draws = drawn_for(images)
    whole = member.apply(images, draws)
    order = np.random.default_rng(0).permutation(30)
    assert np.array_equal(member.apply(images[order], draws.rows(order)), whole[order])
    for row in range(30):
        alone = member.apply(images[row : row + 1], draws.rows(slice(row, row + 1)))
        assert np.array_equal(alone[0], whole[row])


@every_member
def test_draws_of_one_example_differ(member: Any) -> None:
    images = np.repeat(batch(1, 32, 32, 3), 50, axis=0)
    changed = member.apply(images, many_draws(50))
    assert len(np.unique(changed.reshape(50, -1), axis=0)) >= 25


def test_memory_layout_and_channel_axis_do_not_matter() -> None:
    def check(member: Any) -> None:
        images = batch(20, 16, 12)
        draws = drawn_for(images)
        expected = member.apply(images, draws)
        assert np.array_equal(member.apply(images[..., None], draws)[..., 0], expected)
        strided = np.asfortranarray(images)
        assert np.array_equal(member.apply(strided, draws), expected)
        wide = np.repeat(images, 2, axis=2)[:, :, ::2]
        assert np.array_equal(member.apply(wide, draws), expected)

    check_cases(check, zip(MEMBERS))


def test_empty_batches_are_accepted() -> None:
    def check(member: Any) -> None:
        none = np.empty((0, 8, 8, 3), dtype=np.uint8)
        assert member.apply(none, drawn_for(none)).shape == (0, 8, 8, 3)

    check_cases(check, zip(MEMBERS))


def test_invalid_magnitude_raises_one_line() -> None:
    def check(member: Any, magnitude: Any) -> None:
        with pytest.raises(InputError) as refusal:
            replace(member, magnitude=magnitude)
        message = str(refusal.value)
        assert message.startswith(f"The magnitude of {member.name} must be a number from 0 to ")
        assert f"got {magnitude!r}. The published value is {type(member).magnitude:g}." in message
        assert "\n" not in message

    check_cases(check, itertools.product(MEMBERS, [-0.1, 1000.0, float("nan"), "much", None]))


def test_other_kinds_of_inputs_raise() -> None:
    def check(member: Any, kind: str) -> None:
        inputs: Any = ["a"] if kind == "text" else np.zeros((1, 3))
        with pytest.raises(InputError, match=f"{member.name} applies to images; got {kind}. Im"):
            member.apply(inputs, many_draws(1))

    check_cases(check, itertools.product(MEMBERS, ("text", "vectors")))


def centre(image: Any) -> Any:
    """Return the centre of mass (x, y)."""
    y, x = np.indices(image.shape)
    return np.array([(image * axis).sum() for axis in (x, y)]) / image.sum()


@pytest.mark.parametrize("side", [8, 32, 100])
@pytest.mark.parametrize("magnitude", [0.05, 0.10, 0.2])
def test_translate_is_uniform_within_the_magnitude(side: int, magnitude: float) -> None:
    blob = np.zeros((side, side), dtype=np.uint8)
    blob[side // 2, side // 2] = 255
    moved = Translate(magnitude).apply(np.repeat(blob[None], 600, axis=0), many_draws(600))
    shifts = np.array([centre(image) - centre(blob) for image in moved.astype(float)])
    bound = magnitude * side
    # Off by a 64th of a pixel in OpenCV 4, and by the rounding of 255 to whole grey levels.
    assert np.abs(shifts).max() <= bound + 1 / 32
    assert np.abs(shifts).max(axis=0).min() >= 0.97 * bound - 1 / 32
    expected = np.linspace(-bound, bound, 600)
    # Kolmogorov's distance for 600 uniform draws, as one in pixels: 0.08 once in 1,000 times.
    assert np.abs(np.sort(shifts, axis=0) - expected[:, None]).max() <= 0.08 * 2 * bound + 1 / 32
    assert abs(np.corrcoef(shifts.T)[0, 1]) < 0.15


@given(
    tall=st.integers(1, 40),
    wide=st.integers(1, 40),
    magnitude=st.floats(0, 1),
    seed=st.integers(0, 99),
)
def test_erased_rectangles_are_within_image_and_magnitude(
    tall: int, wide: int, magnitude: float, seed: int
) -> None:
    result = Erase(magnitude).rectangles((tall, wide), many_draws(50, seed))
    top, left, height, width = result.T
    assert (result >= 0).all()
    assert (top + height <= tall).all()
    assert (left + width <= wide).all()
    assert (height * width <= magnitude * tall * wide).all()
    if 0.02 * tall * wide >= 1 and magnitude >= 0.02:
        assert (height * width >= 1).all()


def test_erased_rectangles_have_the_published_distribution() -> None:
    _, _, height, width = Erase().rectangles((2000, 2000), many_draws(4000)).T
    area, aspect = height * width / 2000**2, np.log(height / width)
    assert 0.0199 <= area.min() < 0.022
    assert 0.327 < area.max() <= 0.33
    assert abs(area.mean() - 0.175) < 0.007
    assert np.log(1 / 3) - 0.01 <= aspect.min() < np.log(1 / 3) + 0.02
    assert np.log(10 / 3) - 0.1 < aspect.max() <= np.log(10 / 3) + 0.01


@every_shape
def test_erase_sets_one_rectangle_to_zero(shape: Any) -> None:
    images = batch(50, *shape)
    draws = drawn_for(images)
    erased = Erase().apply(images, draws)
    for image, result, box in zip(
        images, erased, Erase().rectangles(shape[:2], draws), strict=True
    ):
        top, left, height, width = box
        expected = image.copy()
        expected[top : top + height, left : left + width] = 0
        assert np.array_equal(result, expected)
        assert height * width >= 1


def test_areas_below_one_pixel_erase_nothing() -> None:
    images = batch(20, 8, 8)
    assert np.array_equal(Erase(0.015).apply(images, drawn_for(images)), images)


@given(
    tall=st.integers(1, 60),
    wide=st.integers(1, 60),
    magnitude=st.floats(0, 1),
    seed=st.integers(0, 99),
)
def test_crop_windows_are_within_image_and_magnitude(
    tall: int, wide: int, magnitude: float, seed: int
) -> None:
    left, width, top, height = FlipCrop(magnitude).windows((tall, wide), many_draws(50, seed)).T
    first, last = np.minimum(left, left + width), np.maximum(left, left + width)
    near = 1e-9 * max(tall, wide)
    assert (first >= -near).all()
    assert (last <= wide + near).all()
    assert (top >= -near).all()
    assert (top + height <= tall + near).all()
    share = np.abs(width) * height / (tall * wide)
    assert (share >= 1 - magnitude - 1e-9).all()
    assert (share <= 1 + 1e-9).all()


def test_crop_windows_have_the_published_distribution() -> None:
    _, width, _, height = FlipCrop().windows((100, 100), many_draws(4000)).T
    share, aspect = np.abs(width) * height / 100**2, np.log(np.abs(width) / height)
    assert 0.08 <= share.min() < 0.085
    assert 0.995 < share.max() <= 1
    assert abs(share.mean() - 0.54) < 0.02
    assert abs((width < 0).mean() - 0.5) < 0.04
    free = share < 0.7
    assert np.log(3 / 4) - 1e-9 <= aspect[free].min() < np.log(3 / 4) + 0.01
    assert np.log(4 / 3) - 0.01 < aspect[free].max() <= np.log(4 / 3) + 1e-9
    assert abs(aspect.mean()) < 0.02


@pytest.mark.parametrize(
    ("member", "start"), [(Rotate(), 0), (Brightness(), 1), (Contrast(), 1), (Color(), 1)]
)
def test_single_operations_match_pillow_with_uniform_amounts(member: Any, start: int) -> None:
    images = batch(40, 20, 24, 3)
    draws = drawn_for(images)
    amounts = start + member.magnitude * (2 * draws.uniforms(1)[:, 0] - 1)
    for image, amount, changed in zip(images, amounts, member.apply(images, draws), strict=True):
        assert np.array_equal(changed, twin(image, member.name, amount))


def test_shear_matches_pillow_along_x_or_y() -> None:
    images = batch(40, 20, 24, 3)
    draws = drawn_for(images)
    along = {"shear-x": 0, "shear-y": 0}
    for image, (slope, axis), changed in zip(
        images, draws.uniforms(2), Shear().apply(images, draws), strict=True
    ):
        name = "shear-x" if axis < 0.5 else "shear-y"
        along[name] += 1
        assert np.array_equal(changed, twin(image, name, 0.3 * (2 * slope - 1)))
    assert min(along.values()) >= 10


@pytest.mark.parametrize("side", [8, 512])
def test_image_sizes_from_8_to_512_are_accepted(side: int) -> None:
    images = batch(2, side, side, 3)
    for member in MEMBERS:
        assert member.apply(images, drawn_for(images)).shape == images.shape
