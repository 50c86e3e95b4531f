"""Derived domains: colours, rotations and shapes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oodometer.core.array_types import Array
from oodometer.core.errors import InputError
from oodometer.core.inputs import Inputs
from oodometer.core.protocols import Dataset
from oodometer.core.random_streams import RowStreams
from oodometer.data import InMemoryDataset
from oodometer.studies.domains.synthetic import (
    PALETTE,
    ColoredMnist,
    RandomColors,
    ResizeAndCrop,
    Rotated,
    TintedDataset,
    TransformedDomain,
)

NONE = RowStreams(0, np.zeros(0, dtype=np.uint64), np.zeros(0, dtype=np.int64))


def digits(n: int = 2000, side: int = 4) -> InMemoryDataset:
    random = np.random.default_rng(0)
    images = random.integers(0, 256, (n, side, side), dtype=np.uint8)
    return InMemoryDataset("digits", images, random.integers(0, 10, n))


def labels_of(data: Dataset) -> Array:
    assert data.labels is not None
    return data.labels


def test_tinted_images_are_grey_times_colour() -> None:
    data, painted = digits(50), RandomColors().derive(digits(50))
    found = painted.take(slice(None))
    assert (found.shape, found.dtype) == ((50, 4, 4, 3), np.uint8)
    assert labels_of(painted).tolist() == labels_of(data).tolist()
    for grey, image in zip(data.inputs, found, strict=True):
        twins = [
            [[[round(pixel * part / 255) for part in color] for pixel in row] for row in grey.tolist()]
            for color in PALETTE
        ]  # fmt: skip
        # Halves may be rounded up or down.
        assert min(np.abs(image.astype(int) - twin).max() for twin in twins) <= 1


def test_colours_depend_on_row_and_seed_not_on_the_class() -> None:
    data = digits()
    painted, other = RandomColors().derive(data), RandomColors(seed=1).derive(data)
    assert np.array_equal(painted.take(np.array([7])), RandomColors().derive(data.rows(np.array([7]))).take(slice(None)))  # fmt: skip
    assert not np.array_equal(painted.take(slice(None)), other.take(slice(None)))
    assert painted.fingerprint not in (other.fingerprint, data.fingerprint)
    assert isinstance(painted, TintedDataset)
    shares = [np.mean((painted.tints == color).all(axis=1)) for color in PALETTE]
    assert min(shares) > 0.06
    assert max(shares) < 0.14


def test_subsets_keep_colours_and_labels() -> None:
    painted = RandomColors().derive(digits(20))
    some = painted.rows(np.array([5, 3]))
    assert np.array_equal(some.take(slice(None)), painted.take(np.array([5, 3])))
    assert np.array_equal(labels_of(some), labels_of(painted)[[5, 3]])
    assert np.array_equal(some.keys, painted.keys[[5, 3]])


@pytest.mark.parametrize("flipped", [0.1, 0.9])
def test_colour_agrees_with_the_class_at_the_given_rate(flipped: float) -> None:
    data = digits(8000)
    biased = ColoredMnist(flipped).derive(data)
    classes, red = labels_of(biased), biased.take(slice(None))[..., 0].any(axis=(1, 2))
    assert np.mean((labels_of(data) < 5) != classes) == pytest.approx(0.25, abs=0.02)
    assert np.mean(red == classes) == pytest.approx(flipped, abs=0.02)
    green = biased.take(slice(None))[..., 1].any(axis=(1, 2))
    assert np.array_equal(green, ~red)


def test_without_noise_and_flips_green_means_below_five() -> None:
    biased = ColoredMnist(0.0, noise=0.0).derive(digits(100))
    below = labels_of(digits(100)) < 5
    assert np.array_equal(labels_of(biased), below)
    assert np.array_equal(biased.take(slice(None))[..., 1].any(axis=(1, 2)), below)


@pytest.mark.parametrize("channels", [(), (1,), (3,)])
def test_quarter_turns_permute_pixels(channels: tuple[int, ...]) -> None:
    images = np.random.default_rng(0).integers(0, 256, (3, 6, 6, *channels), dtype=np.uint8)
    for quarters in range(4):
        turned = Rotated(90 * quarters).apply(images, NONE)
        assert np.array_equal(turned, np.rot90(images, quarters, axes=(1, 2)))


def test_images_are_rotated_lazily() -> None:
    data = digits(5)
    turned = Rotated(15).derive(data)
    assert np.array_equal(turned.take(np.array([2])), Rotated(15).apply(data.take(np.array([2])), NONE))  # fmt: skip
    assert turned.fingerprint != Rotated(30).derive(data).fingerprint
    assert Rotated(15).apply(data.inputs[:0], NONE).shape == (0, 4, 4)


@given(st.sampled_from([(), (1,), (3,)]), st.integers(2, 9), st.sampled_from([(5, 4), (5, 4, 3)]))
def test_images_are_resized_and_cropped(
    channels: tuple[int, ...], side: int, shape: tuple[int, ...]
) -> None:
    images = np.full((2, side, side, *channels), 77, dtype=np.uint8)
    assert (ResizeAndCrop(shape).apply(images, NONE) == 77).all()
    assert ResizeAndCrop(shape).apply(images, NONE).shape == (2, *shape)


def test_images_of_the_right_shape_are_unchanged() -> None:
    images = digits(3).inputs
    assert np.array_equal(ResizeAndCrop((4, 4)).apply(images, NONE), images)
    assert np.array_equal(
        ResizeAndCrop((4, 4, 3)).apply(images, NONE), np.repeat(images[..., None], 3, 3)
    )


class Darker:
    """A user's own derivation."""

    name = "darker"

    def apply(self, inputs: Inputs, draws: RowStreams) -> Inputs:
        return inputs // 2


def test_any_transform_derives_a_domain() -> None:
    data = digits(5)
    made = TransformedDomain(Darker()).derive(data)
    assert np.array_equal(made.take(slice(None)), data.inputs // 2)
    assert made.fingerprint != data.fingerprint


@pytest.mark.parametrize("maker", [RandomColors(), Rotated(15), ColoredMnist(0.1)])
def test_texts_are_rejected(maker: RandomColors | Rotated | ColoredMnist) -> None:
    with pytest.raises(InputError, match=r"Only images can be (tinted|rotated); got text"):
        maker.derive(InMemoryDataset("texts", ["a"], np.array([0])))


def test_digits_without_labels_are_rejected() -> None:
    with pytest.raises(InputError, match="needs labelled digits"):
        ColoredMnist(0.1).derive(InMemoryDataset("digits", digits(2).inputs))
