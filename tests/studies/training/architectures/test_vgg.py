"""VGG."""

from __future__ import annotations

import torch

from oodometer.studies.training.architectures.base import InputShape
from oodometer.studies.training.architectures.vgg import VGG
from tests.support.tiny_architectures import IMAGES


def test_parameter_count() -> None:
    plain, normed = (VGG(4, depth=2, batch_norm=norm).build(IMAGES) for norm in (False, True))
    weights = 9 * (3 * 4 + 4 * 4 + 4 * 8 + 8 * 8)
    # A side of 16 pixels has 4 after two halvings.
    dense = (8 * 4 * 4 + 1) * 8 + (8 + 1) * 3
    assert sum(part.numel() for part in plain.parameters()) == weights + 24 + dense
    assert sum(part.numel() for part in normed.parameters()) == weights + 2 * 24 + dense


def test_each_stage_doubles_channels_and_halves_sides() -> None:
    module, image, shapes = VGG(4).build(IMAGES), torch.rand(1, 3, 16, 16), []
    for stage in module[:4]:
        image = stage(image)
        shapes.append(tuple(image.shape[1:]))
    assert shapes == [(3, 16, 16), (4, 8, 8), (8, 4, 4), (16, 2, 2)]


def test_sides_may_differ_and_be_odd() -> None:
    module = VGG(4, depth=2).build(InputShape("images", classes=3, size=(1, 21, 13)))
    assert module(torch.rand(2, 1, 21, 13)).shape == (2, 3)
