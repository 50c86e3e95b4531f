"""Layers shared by architectures: centering, convolution layers and a pooled linear head.

No layer changes a tensor in place, so that torch.func can evaluate a network with the weights of
many models at once. The only exception is batch norm, which updates its running statistics.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from oodometer.core.optional_imports import torch_package


def make_module(parts: Mapping[str, Any], run: Callable[[Any, Any], Any]) -> Any:
    """Return a module with named submodules, whose forward pass is `run(module, inputs)`."""
    return _module_class()(parts, run)


@cache
def _module_class() -> Any:
    # The class is defined inside a function, so that torch is imported only to build a network.
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
    """Return a layer that scales inputs from [0, 1] to [−2, 2].

    With this layer, networks without normalization layers train faster.
    """
    return make_module({}, _center)


def _center(_: Any, images: Any) -> Any:
    return (images - 0.5) / 0.25


def conv_layers(
    channels: int, width: int, *, kernel: int = 3, stride: int = 1, batch_norm: bool
) -> list[Any]:
    """Return a convolution with same padding, followed by batch norm if `batch_norm` is true.

    Weights are initialized as in He et al. 2015. With torch's default initialization, the signal of
    a network without normalization layers becomes smaller from layer to layer.
    """
    nn = torch_package().nn
    # No bias before batch norm, because batch norm would subtract it.
    layer = nn.Conv2d(
        channels, width, kernel, stride=stride, padding=kernel // 2, bias=not batch_norm
    )
    nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
    if batch_norm:
        return [layer, nn.BatchNorm2d(width)]
    nn.init.zeros_(layer.bias)
    return [layer]


def pooled_head(width: int, classes: int, *, dropout: float) -> list[Any]:
    """Return the last layers of a network: mean pooling, dropout and a linear layer."""
    nn = torch_package().nn
    return [
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Dropout(dropout),
        nn.Linear(width, classes),
    ]
