"""The CNN of DomainBed, layer by layer."""

from __future__ import annotations

import pytest
import torch

from oodometer.core.errors import InputError
from oodometer.studies.training.architectures.base import InputShape
from oodometer.studies.training.architectures.dg_cnn import DGCNN

DIGITS = InputShape("images", classes=10, size=(2, 28, 28))


def test_layers_are_those_of_the_paper() -> None:
    module = DGCNN().build(DIGITS)
    convolutions = [part for part in module if isinstance(part, torch.nn.Conv2d)]
    assert [(part.in_channels, part.out_channels, part.stride[0]) for part in convolutions] == [
        (2, 64, 1),
        (64, 128, 2),
        (128, 128, 1),
        (128, 128, 1),
    ]
    assert {(part.kernel_size, part.padding) for part in convolutions} == {((3, 3), (1, 1))}
    norms = [part for part in module if isinstance(part, torch.nn.GroupNorm)]
    assert [(part.num_groups, part.num_channels) for part in norms] == [
        (8, 64),
        (8, 128),
        (8, 128),
        (8, 128),
    ]
    step = ["Conv2d", "ReLU", "GroupNorm"]
    order = [type(part).__name__ for part in module]
    assert order == [*step * 4, "AdaptiveAvgPool2d", "Flatten", "Dropout", "Linear"]
    assert (module[-1].in_features, module[-1].out_features, module[-2].p) == (128, 10, 0.0)


def test_parameter_count() -> None:
    module = DGCNN().build(DIGITS)
    convolutions = 9 * (2 * 64 + 64 * 128 + 2 * 128 * 128) + 64 + 3 * 128
    norms, linear = 2 * (64 + 3 * 128), 128 * 10 + 10
    assert sum(part.numel() for part in module.parameters()) == convolutions + norms + linear


def test_width_scales_all_layers() -> None:
    small = DGCNN(width=8).build(DIGITS)
    assert small[-1].in_features == 16


def test_width_not_divisible_by_groups_is_rejected() -> None:
    with pytest.raises(InputError, match=r"must be a multiple of 8.*got 12"):
        DGCNN(width=12)
