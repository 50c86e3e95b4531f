"""RandAugment against a loop over Pillow operations with the same draws."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from oodometer.core.errors import InputError
from oodometer.transforms.randaugment import OPERATIONS, RandAugment, RandAugmentOperation
from tests.support.cases import check_cases
from tests.support.pillow_twin import TWINS, twin, twins
from tests.support.small_images import SHAPES, batch, drawn_for, many_draws, pictures

NAMES = [operation.name for operation in OPERATIONS]


def test_there_are_fourteen_operations() -> None:
    assert list(TWINS) == NAMES
    assert len(set(NAMES)) == 14


def test_operations_match_pillow_exactly() -> None:
    def check(operation: RandAugmentOperation, shape: tuple[int, ...]) -> None:
        ends = np.array([0, 0.1, 0.5, 0.77, 1.0])
        strengths = np.concatenate([ends, -ends]) if operation.signed else ends
        for image in pictures(shape).values():
            for strength in strengths:
                amount = operation.at_0 + strength * (operation.at_30 - operation.at_0)
                original = image.copy()
                ours = operation.change(image, amount)
                assert np.array_equal(ours, twin(image, operation.name, amount))
                assert np.array_equal(image, original)

    check_cases(check, itertools.product(OPERATIONS, SHAPES))


def test_strength_0_is_the_identity() -> None:
    def check(operation: RandAugmentOperation) -> None:
        if operation.name in ("autocontrast", "equalize"):
            assert operation.at_0 == operation.at_30, "these have no strength"
            return
        image = pictures((16, 20, 3))["random"]
        assert np.array_equal(operation.change(image, operation.at_0), image)

    check_cases(check, zip(OPERATIONS))


@pytest.mark.parametrize("shape", [(8, 8), (16, 12, 1), (32, 32, 3), (16, 130, 3)])
@pytest.mark.parametrize("n_ops", [None, 1, 2, 5])
def test_batch_matches_a_loop_over_pillow_operations(
    shape: tuple[int, ...], n_ops: int | None
) -> None:
    images = batch(60, *shape)
    draws, member = drawn_for(images), RandAugment(n_ops=n_ops)
    chosen, amounts = member.draw_operations(n_ops or (3 if 130 in shape else 1), draws)
    changed = member.apply(images, draws)
    plain = images[..., 0] if shape[-1] == 1 else images
    for row, image in enumerate(plain):
        names = [NAMES[place] for place in chosen[row]]
        assert np.array_equal(
            changed[row].reshape(image.shape), twins(image, names, amounts[row].tolist())
        )


def test_small_images_get_one_operation_and_large_ones_three() -> None:
    for side, n_ops in ((127, 1), (128, 3)):
        images = batch(4, 8, side)
        draws = drawn_for(images)
        expected = RandAugment(n_ops=n_ops).apply(images, draws)
        assert np.array_equal(RandAugment().apply(images, draws), expected)


def test_operations_are_uniform_and_independent() -> None:
    chosen, _ = RandAugment().draw_operations(2, many_draws(28_000))
    pairs = np.bincount(chosen[:, 0] * 14 + chosen[:, 1], minlength=196)
    expected = 28_000 / 196
    # A χ² of 195 degrees of freedom is above 273 once in 5,000 times.
    assert ((pairs - expected) ** 2 / expected).sum() < 273


@pytest.mark.parametrize("magnitude", [5.0, 15.0, 30.0])
def test_strengths_are_uniform_up_to_the_magnitude(magnitude: float) -> None:
    chosen, amounts = RandAugment(magnitude).draw_operations(1, many_draws(14_000))
    for place, operation in enumerate(OPERATIONS):
        own = amounts[chosen == place]
        reach = operation.at_30 - operation.at_0
        if reach == 0:
            assert np.all(own == operation.at_0)
            continue
        strength = 30 * (own - operation.at_0) / reach
        low, high = (-magnitude if operation.signed else 0.0), magnitude
        assert low <= strength.min() < low + 0.05 * magnitude
        assert high - 0.05 * magnitude < strength.max() <= high
        # The mean of 1,000 uniform draws, within five standard errors.
        error = (high - low) / np.sqrt(12 * len(strength))
        assert abs(strength.mean() - (low + high) / 2) < 5 * error


def test_signs_are_equally_likely() -> None:
    chosen, amounts = RandAugment().draw_operations(1, many_draws(20_000))
    starts = np.array([operation.at_0 for operation in OPERATIONS])
    with_sign = np.array([operation.signed for operation in OPERATIONS])[chosen]
    negative = (amounts - starts[chosen])[with_sign] < 0
    assert abs(negative.mean() - 0.5) < 5 * 0.5 / np.sqrt(len(negative))


def test_magnitude_0_omits_autocontrast_too() -> None:
    images = batch(200, 16, 16, 3) // 2 + 30
    assert np.array_equal(RandAugment(0).apply(images, drawn_for(images)), images)


@pytest.mark.parametrize("n_ops", [0, -1, 1.5, "two"])
def test_invalid_n_ops_raises(n_ops: int) -> None:
    with pytest.raises(
        InputError, match=r"n_ops must be a whole number of at least 1, or None; got .*"
    ):
        RandAugment(n_ops=n_ops)
