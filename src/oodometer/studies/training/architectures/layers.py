"""Layers that several architectures are made of.

Nothing works in place, so that torch.func can map networks over stacked weights. Batch norm alone
writes its running statistics: a stack that does not hold these too can't be mapped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from oodometer.core.optional_imports import torch_package


def make_module(parts: Mapping[str, Any], run: Callable[[Any, Any], Any]) -> Any:
    """A module of named parts; `run` takes the module and the inputs, and gives the outputs."""
    return _module_class()(parts, run)


@cache
def _module_class() -> Any:
    # Made here, for torch is imported by those alone who build a network.
    module: Any = torch_package().nn.Module

    class Wired(module):  # type: ignore[misc]
        def __init__(self, parts: Mapping[str, Any], run: Callable[[Any, Any], Any]) -> None:
            super().__init__()
            self.run = run
            for name, part in parts.items():
                self.add_module(name, part)

        def forward(self, inputs: Any) -> Any:
            return self.run(self, inputs)

    return Wired


def centering_layer() -> Any:
    """A layer that brings images from 0…1 to −2…2: where there is no norm, it is learned faster."""
    return make_module({}, _center)


def _center(_: Any, images: Any) -> Any:
    return (images - 0.5) / 0.25


def conv_layers(
    channels: int, width: int, *, kernel: int = 3, stride: int = 1, batch_norm: bool
) -> list[Any]:
    """A convolution that keeps the sides of images, or halves them at a stride of 2; a batch norm.

    Weights are drawn after He et al. 2015: without a norm, the usual ones of torch let the signal
    fade from layer to layer.
    """
    nn = torch_package().nn
    # A batch norm takes any bias away again.
    layer = nn.Conv2d(
        channels, width, kernel, stride=stride, padding=kernel // 2, bias=not batch_norm
    )
    nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
    if batch_norm:
        return [layer, nn.BatchNorm2d(width)]
    nn.init.zeros_(layer.bias)
    return [layer]


def pooled_head(width: int, classes: int, *, dropout: float) -> list[Any]:
    """The mean over all places, dropout, and a linear layer: its input are the features."""
    nn = torch_package().nn
    return [
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Dropout(dropout),
        nn.Linear(width, classes),
    ]
