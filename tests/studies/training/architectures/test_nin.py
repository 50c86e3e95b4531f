"""Network in network."""

from __future__ import annotations

import torch

from oodometer.studies.training.architectures.nin import NiN
from tests.support.tiny_architectures import IMAGES


def test_parameter_count() -> None:
    plain, normed = (NiN(8, depth=2, batch_norm=norm).build(IMAGES) for norm in (False, True))
    weights, linear = 3 * 8 * 9 + 8 * 8 * 9 + 4 * 8 * 8, 8 * 3 + 3
    assert sum(part.numel() for part in plain.parameters()) == weights + 6 * 8 + linear
    assert sum(part.numel() for part in normed.parameters()) == weights + 6 * 2 * 8 + linear


def test_block_is_one_3x3_and_two_1x1_convolutions() -> None:
    module = NiN(8, depth=2, dropout=0.3).build(IMAGES)
    layers = [part for part in module.modules() if isinstance(part, torch.nn.Conv2d)]
    assert [(part.kernel_size[0], part.stride[0]) for part in layers] == [
        (3, 1), (1, 1), (1, 1), (3, 2), (1, 1), (1, 1),
    ]  # fmt: skip
    drops = [part.p for part in module.modules() if isinstance(part, torch.nn.Dropout)]
    assert drops == [0.3, 0.3, 0.0]


def test_pooling_before_the_linear_layer_equals_convolution_before_pooling() -> None:
    module, images = NiN(8).build(IMAGES).eval(), torch.rand(4, 3, 16, 16)
    body, head = module[:-4], module[-1]
    as_in_the_paper = torch.nn.functional.conv2d(body(images), head.weight[..., None, None])
    expected = as_in_the_paper.mean(dim=(2, 3)) + head.bias
    assert torch.allclose(module(images), expected, atol=1e-5)
