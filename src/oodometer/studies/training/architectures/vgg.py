"""VGG (Simonyan and Zisserman, ICLR 2015) for small images, as in PGDL's task 1."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

from oodometer.core.inputs import InputKind
from oodometer.core.optional_imports import torch_package
from oodometer.studies.training.architectures._settings import (
    check_settings,
    check_shape,
    check_sides,
)
from oodometer.studies.training.architectures.base import InputShape
from oodometer.studies.training.architectures.layers import (
    centering_layer,
    conv_layers,
)


@dataclass(frozen=True)
class VGG:
    """`depth` stages of two 3×3 convolutions and a 2×2 maximum, a hidden layer, a linear layer.

    The first stage has `width` channels, every further one twice as many as the one before; the
    hidden layer is as wide as the last stage. Dropout comes before each of the last two layers.

    >>> shape = InputShape("images", classes=2, size=(3, 2, 2))
    >>> sum(part.numel() for part in VGG(4, depth=1).build(shape).parameters())
    290
    """

    width: int = 64
    depth: int = 3
    dropout: float = 0.0
    batch_norm: bool = False

    name: ClassVar[str] = "vgg"
    label: ClassVar[str] = "VGG"
    kinds: ClassVar[tuple[InputKind, ...]] = ("images",)

    def __post_init__(self) -> None:
        check_settings(self)

    def build(self, shape: InputShape) -> Any:
        """A fresh module, drawn from torch's random state."""
        check_shape(self, shape)
        check_sides(self, shape, self.depth)
        nn = torch_package().nn
        channels, height, width = shape.size
        widths = [channels, *(self.width * 2**step for step in range(self.depth))]
        stages = [self._stage(*pair) for pair in pairwise(widths)]
        places = (height >> self.depth) * (width >> self.depth)
        return nn.Sequential(
            centering_layer(),
            *stages,
            nn.Flatten(),
            nn.Dropout(self.dropout),
            nn.Linear(widths[-1] * places, widths[-1]),
            nn.ReLU(),
            nn.Dropout(self.dropout),
            nn.Linear(widths[-1], shape.classes),
        )

    def _stage(self, channels: int, width: int) -> Any:
        nn = torch_package().nn
        layers: list[Any] = []
        for before in (channels, width):
            layers += [
                *conv_layers(before, width, batch_norm=self.batch_norm),
                nn.ReLU(),
            ]
        return nn.Sequential(*layers, nn.MaxPool2d(2))
