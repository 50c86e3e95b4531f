"""Network in network."""

from __future__ import annotations

import torch

from oodometer.studies.training.architectures.nin import NiN
from tests.support.tiny_architectures import IMAGES


def test_parameters_are_as_counted_by_hand() -> None:
    plain, normed = (NiN(8, depth=2, batch_norm=norm).build(IMAGES) for norm in (False, True))
    weights, linear = 3 * 8 * 9 + 8 * 8 * 9 + 4 * 8 * 8, 8 * 3 + 3
    assert sum(part.numel() for part in plain.parameters()) == weights + 6 * 8 + linear
    assert sum(part.numel() for part in normed.parameters()) == weights + 6 * 2 * 8 + linear


def test_a_block_is_a_convolution_and_two_of_single_pixels() -> None:
    module = NiN(8, depth=2, dropout=0.3).build(IMAGES)
    layers = [part for part in module.modules() if isinstance(part, torch.nn.Conv2d)]
    assert [(part.kernel_size[0], part.stride[0]) for part in layers] == [
        (3, 1), (1, 1), (1, 1), (3, 2), (1, 1), (1, 1),
    ]  # fmt: skip
    drops = [part.p for part in module.modules() if isinstance(part, torch.nn.Dropout)]
    assert drops == [0.3, 0.3, 0.0]


def test_the_mean_and_a_linear_layer_are_a_convolution_and_the_mean() -> None:
    module, images = NiN(8).build(IMAGES).eval(), torch.rand(4, 3, 16, 16)
    body, head = module[:-4], module[-1]
    as_in_the_paper = torch.nn.functional.conv2d(body(images), head.weight[..., None, None])
    wanted = as_in_the_paper.mean(dim=(2, 3)) + head.bias
    assert torch.allclose(module(images), wanted, atol=1e-5)
