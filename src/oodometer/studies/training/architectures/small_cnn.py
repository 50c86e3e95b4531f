"""Fully convolutional network, as in tasks 4 and 5 of PGDL (Jiang et al., NeurIPS 2020)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from oodometer.core.inputs import InputKind
from oodometer.core.optional_imports import torch_package
from oodometer.studies._toml import PositiveInt
from oodometer.studies.training.architectures._settings import (
    DropoutRate,
    check_settings,
    check_shape,
    check_sides,
)
from oodometer.studies.training.architectures.base import InputShape
from oodometer.studies.training.architectures.layers import (
    centering_layer,
    conv_layers,
    pooled_head,
)


@dataclass(frozen=True)
class SmallCNN:
    """Fully convolutional network: `depth` 3×3 convolutions of `width` channels with ReLU.

    All convolutions except the first have the stride `stride`; the networks of PGDL have stride 1,
    which is slower. Mean pooling and a linear layer follow.

    >>> shape = InputShape("images", classes=2, size=(3, 8, 8))
    >>> sum(part.numel() for part in SmallCNN(4, depth=1).build(shape).parameters())
    122
    """

    width: PositiveInt = 64
    depth: PositiveInt = 3
    dropout: DropoutRate = 0.0
    batch_norm: bool = False
    stride: Literal[1, 2] = 2

    name: ClassVar[str] = "small-cnn"
    label: ClassVar[str] = "CNN"
    kinds: ClassVar[tuple[InputKind, ...]] = ("images",)
    optional_settings: ClassVar[tuple[str, ...]] = ("stride",)

    def __post_init__(self) -> None:
        check_settings(self)

    def build(self, shape: InputShape) -> Any:
        """Return a new module, initialized from torch's random state."""
        check_shape(self, shape)
        check_sides(self, shape, self.depth - 1 if self.stride > 1 else 0)
        nn = torch_package().nn
        layers: list[Any] = []
        for step in range(self.depth):
            channels, stride = (self.width, self.stride) if step else (shape.size[0], 1)
            layers += [
                *conv_layers(channels, self.width, stride=stride, batch_norm=self.batch_norm),
                nn.ReLU(),
            ]
        head = pooled_head(self.width, shape.classes, dropout=self.dropout)
        return nn.Sequential(centering_layer(), *layers, *head)
