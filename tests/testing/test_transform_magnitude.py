"""Magnitude meters on known changes of the inputs."""

from __future__ import annotations

import numpy as np
import pytest

from oodometer import transforms
from oodometer.testing._transform_magnitude import IMAGE_SIDE_PIXELS, MAGNITUDE_METERS

RNG = np.random.default_rng(0)


def test_every_measurable_transform_has_a_meter() -> None:
    """RandAugment mixes units, and the temperature of back-translation cannot be measured."""
    names_without_meter = {member.name for member in transforms.available()} - set(MAGNITUDE_METERS)
    assert names_without_meter == {"randaugment", "backtranslate"}


@pytest.mark.parametrize("axis", [1, 2])
def test_translation_is_measured_along_both_axes(axis: int) -> None:
    meter = MAGNITUDE_METERS["translate"]
    before = meter.make_inputs(2, RNG)
    assert meter.extent(before, np.roll(before, -5, axis=axis)) == pytest.approx(
        [5 / IMAGE_SIDE_PIXELS] * 2
    )


def test_erased_share_is_measured() -> None:
    meter = MAGNITUDE_METERS["erase"]
    before = meter.make_inputs(2, RNG)
    after = before.copy()
    after[0, :16, :16, 1] = 0
    assert meter.extent(before, after).tolist() == [1 / 16, 0.0]


@pytest.mark.parametrize(
    ("name", "factor"), [("brightness", 1.3), ("contrast", 0.8), ("color", 0.7), ("color", 1.4)]
)
def test_factors_are_measured_as_distance_from_1(name: str, factor: float) -> None:
    meter = MAGNITUDE_METERS[name]
    before = meter.make_inputs(1, RNG)
    bases = {"brightness": 0.0, "contrast": 100.0, "color": before.mean()}
    after = (bases[name] + factor * (before - bases[name])).round().astype(np.uint8)
    assert meter.extent(before, after) == pytest.approx([abs(factor - 1)], abs=0.02)


def test_rotation_shear_and_crop_are_measured() -> None:
    before = MAGNITUDE_METERS["rotate"].make_inputs(1, RNG)
    y, x = np.mgrid[0:IMAGE_SIDE_PIXELS, 0:IMAGE_SIDE_PIXELS] - IMAGE_SIDE_PIXELS / 2
    for name, matrix, expected in (
        ("rotate", np.array([[np.cos(0.3), -np.sin(0.3)], [np.sin(0.3), np.cos(0.3)]]), 17.19),
        ("shear", np.array([[1.0, 0.2], [0.0, 1.0]]), 0.2),
        ("shear", np.array([[1.0, 0.0], [-0.2, 1.0]]), 0.2),
        ("flip_crop", np.array([[-0.7, 0.0], [0.0, 0.5]]), 0.65),
    ):
        positions = np.stack(
            [matrix[0, 0] * x + matrix[0, 1] * y, matrix[1, 0] * x + matrix[1, 1] * y], axis=2
        )
        after = (
            np.clip(60 + 2 * (positions + IMAGE_SIDE_PIXELS / 2), 0, 255).round().astype(np.uint8)
        )
        extent = MAGNITUDE_METERS[name].extent(before, after[None])
        assert extent == pytest.approx([expected], rel=0.05)


@pytest.mark.parametrize(
    ("after", "share"),
    [
        ("a b c d", 0.0),
        ("b a c d", 0.25),  # a swap is one change
        ("x b c d", 0.25),
        ("x b c y", 0.5),
        ("a b x c d", 0.25),
        ("b c d", 0.25),
    ],
)
def test_changed_words_are_counted(after: str, share: float) -> None:
    assert MAGNITUDE_METERS["eda"].extent(["a b c d"], [after]).tolist() == [share]


def test_changes_of_vectors_are_measured() -> None:
    before = MAGNITUDE_METERS["sphere"].make_inputs(400, RNG)
    after = before.copy()
    after[:, 3] += 0.5
    assert MAGNITUDE_METERS["sphere"].extent(before, after) == pytest.approx(np.full(400, 0.5))
    assert MAGNITUDE_METERS["marginal_swap"].extent(before, after) == pytest.approx(
        np.full(400, 1 / 20)
    )
    noisy = before + 0.2 * before.std(axis=0) * RNG.normal(size=before.shape)
    assert MAGNITUDE_METERS["gaussian"].extent(before, noisy) == pytest.approx([0.2], abs=0.01)
