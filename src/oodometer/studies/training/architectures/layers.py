"""Layers shared by several architectures.

No layer works in place, so that torch.func can map networks over stacked weights. The exception is
batch norm, which updates its running statistics.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from oodometer.core.optional_imports import torch_package


def make_module(parts: Mapping[str, Any], run: Callable[[Any, Any], Any]) -> Any:
    """Return a module of named parts; `run` maps the module and the inputs to the outputs."""
    return _module_class()(parts, run)


@cache
def _module_class() -> Any:
    # Defined lazily: torch is imported only when a network is built.
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
    """Return a layer that maps [0, 1] to [−2, 2]; networks without norm layers train faster."""
    return make_module({}, _center)


def _center(_: Any, images: Any) -> Any:
    return (images - 0.5) / 0.25


def conv_layers(
    channels: int, width: int, *, kernel: int = 3, stride: int = 1, batch_norm: bool
) -> list[Any]:
    """Return a same-padded convolution, and a batch norm if `batch_norm`.

    Weights are initialized as in He et al. 2015: without norm layers, torch's default
    initialization lets the signal vanish from layer to layer.
    """
    nn = torch_package().nn
    # Batch norm subtracts any bias.
    layer = nn.Conv2d(
        channels, width, kernel, stride=stride, padding=kernel // 2, bias=not batch_norm
    )
    nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
    if batch_norm:
        return [layer, nn.BatchNorm2d(width)]
    nn.init.zeros_(layer.bias)
    return [layer]


def pooled_head(width: int, classes: int, *, dropout: float) -> list[Any]:
    """Return mean pooling, dropout and a linear layer, whose inputs are the features."""
    nn = torch_package().nn
    return [
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Dropout(dropout),
        nn.Linear(width, classes),
    ]
