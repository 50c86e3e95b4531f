"""The fully convolutional network."""

from __future__ import annotations

import torch

from oodometer.studies.training.architectures import stored_settings
from oodometer.studies.training.architectures.base import InputShape
from oodometer.studies.training.architectures.small_cnn import SmallCNN
from tests.support.tiny_architectures import IMAGES


def test_parameter_count() -> None:
    plain, normed = (SmallCNN(8, depth=3, batch_norm=norm).build(IMAGES) for norm in (False, True))
    weights, linear = 3 * 8 * 9 + 2 * 8 * 8 * 9, 8 * 3 + 3
    assert sum(part.numel() for part in plain.parameters()) == weights + 3 * 8 + linear
    assert sum(part.numel() for part in normed.parameters()) == weights + 3 * 2 * 8 + linear


def test_all_convolutions_but_the_first_halve_the_sides() -> None:
    module, image, sides = SmallCNN(8, depth=4).build(IMAGES), torch.rand(1, 3, 16, 16), []
    for layer in module:
        image = layer(image)
        if isinstance(layer, torch.nn.Conv2d):
            sides.append(tuple(image.shape[2:]))
    assert sides == [(16, 16), (8, 8), (4, 4), (2, 2)]


def test_images_are_centred_first() -> None:
    module = SmallCNN(8).build(IMAGES)
    assert torch.allclose(module[0](torch.tensor([0.0, 0.5, 1.0])), torch.tensor([-2.0, 0.0, 2.0]))


def test_initialization_keeps_the_signal_without_norm_layers() -> None:
    torch.manual_seed(0)
    deep = SmallCNN(64, depth=5).build(IMAGES)
    features = deep[:-4](torch.rand(16, 3, 16, 16))
    assert 0.2 < float(features.detach().std()) < 5


def test_stride_one_keeps_the_size_of_the_images() -> None:
    module = SmallCNN(4, depth=3, stride=1).build(InputShape("images", 2, (3, 8, 6)))
    sizes: list[tuple[int, ...]] = []
    for part in module:
        if isinstance(part, torch.nn.Conv2d):
            part.register_forward_hook(lambda _, __, found: sizes.append(tuple(found.shape[2:])))
    module(torch.rand(1, 3, 8, 6))
    assert sizes == [(8, 6)] * 3
    assert "stride" not in stored_settings(SmallCNN())
    assert stored_settings(SmallCNN(stride=1))["stride"] == 1
