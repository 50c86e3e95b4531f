"""VGG for small images (Simonyan & Zisserman, ICLR 2015), as in task 1 of PGDL."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

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
)


@dataclass(frozen=True)
class VGG:
    """VGG: `depth` stages of two 3×3 convolutions and 2×2 max pooling, then two linear layers.

    The first stage has `width` channels, and each later stage doubles the number of channels. The
    number of hidden units between the two linear layers equals the number of channels of the last
    stage. Dropout is applied before each linear layer.

    >>> shape = InputShape("images", classes=2, size=(3, 2, 2))
    >>> sum(part.numel() for part in VGG(4, depth=1).build(shape).parameters())
    290
    """

    width: PositiveInt = 64
    depth: PositiveInt = 3
    dropout: DropoutRate = 0.0
    batch_norm: bool = False

    name: ClassVar[str] = "vgg"
    label: ClassVar[str] = "VGG"
    kinds: ClassVar[tuple[InputKind, ...]] = ("images",)

    def __post_init__(self) -> None:
        check_settings(self)

    def build(self, shape: InputShape) -> Any:
        """Return a new module, initialized from torch's random state."""
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
