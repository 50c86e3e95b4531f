"""ResNet."""

from __future__ import annotations

import copy

import pytest
import torch

from oodometer.models.torch import TorchModel
from oodometer.studies.training.architectures.resnet import ResNet
from tests.support.tiny_architectures import IMAGES


@pytest.mark.parametrize("batch_norm", [False, True])
def test_parameter_count(batch_norm: bool) -> None:
    module = ResNet(4, depth=2, batch_norm=batch_norm).build(IMAGES)
    first, second, third = 4 * (4 * 4), 4 * 8 + 3 * 8 * 8, 8 * 16 + 3 * 16 * 16
    weights = 9 * (3 * 4 + first + second + third) + 4 * 8 + 8 * 16
    # Each convolution has one bias per channel, or two parameters of its norm.
    channels = 4 + 4 * 4 + 5 * 8 + 5 * 16
    linear = 16 * 3 + 3
    found = sum(part.numel() for part in module.parameters())
    assert found == weights + (2 if batch_norm else 1) * channels + linear


def test_depth_n_has_the_layers_of_the_paper() -> None:
    module = ResNet(4, depth=3).build(IMAGES)
    kinds = (torch.nn.Conv2d, torch.nn.Linear)
    layers = [part for part in module.modules() if isinstance(part, kinds)]
    shortcuts = [part for part in layers if getattr(part, "kernel_size", None) == (1, 1)]
    assert len(layers) - len(shortcuts) == 6 * 3 + 2
    assert len(shortcuts) == 2


def test_shortcuts_of_later_stages_have_stride_two() -> None:
    module = ResNet(4, batch_norm=False).build(IMAGES)
    blocks = [part for part in module if len(getattr(part, "kept", ()))]
    assert len(blocks) == 2
    for block, side in zip(blocks, (7, 16), strict=True):
        (layer,) = block.kept
        # Stride 2 in the layer itself crashes the process with so few channels.
        assert (layer.kernel_size, layer.stride) == ((1, 1), (1, 1))
        inputs = torch.randn(3, layer.in_channels, side, side)
        kept = torch.nn.functional.conv2d(inputs, layer.weight, layer.bias, stride=2)
        expected = (kept + block.change(inputs)).relu()
        assert torch.allclose(block(inputs), expected, atol=1e-6)


def test_narrow_networks_train_on_channels_last_images() -> None:
    module = ResNet(4).build(IMAGES)
    for _ in range(5):
        inputs = torch.rand(10, 16, 16, 3).permute(0, 3, 1, 2)
        module.zero_grad()
        module(inputs).logsumexp(dim=1).sum().backward()
    exact = copy.deepcopy(module).double()
    exact.zero_grad()
    exact(inputs.double()).logsumexp(dim=1).sum().backward()
    for one, other in zip(module.parameters(), exact.parameters(), strict=True):
        assert torch.allclose(one.grad.double(), other.grad, rtol=1e-2, atol=1e-3)


def test_block_adds_its_input() -> None:
    module = ResNet(4, depth=2).build(IMAGES).eval()
    block = next(part for part in module if hasattr(part, "change"))
    inputs = torch.randn(2, 4, 8, 8)
    assert torch.allclose(block(inputs), (inputs + block.change(inputs)).relu())
    with torch.no_grad():
        for part in block.parameters():
            part.zero_()
    assert torch.equal(block(inputs), inputs.relu())


def test_batch_norms_are_folded_for_inference() -> None:
    module = ResNet(4).build(IMAGES)
    for _ in range(3):  # update the running statistics
        module(torch.rand(8, 3, 16, 16))
    model = TorchModel(module)
    images = (torch.rand(4, 16, 16, 3) * 255).to(torch.uint8).numpy()
    predictions = model.classify(images).scores
    assert model._fast is not model.module
    given = torch.from_numpy(images).permute(0, 3, 1, 2) / 255
    assert torch.allclose(torch.as_tensor(predictions), module.eval()(given), atol=1e-4)
