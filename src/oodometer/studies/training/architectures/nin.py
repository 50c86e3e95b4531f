"""NiN, network in network (Lin et al., ICLR 2014), as in PGDL's tasks 2 and 9."""

from __future__ import annotations

from dataclasses import dataclass
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
    pooled_head,
)


@dataclass(frozen=True)
class NiN:
    """`depth` blocks of one 3×3 and two 1×1 convolutions of `width`, the mean, a linear layer.

    All blocks but the first begin at a stride of 2; dropout follows every block. The paper ends in
    a 1×1 convolution and then the mean, which is the same as the mean and then a linear layer.

    >>> shape = InputShape("images", classes=2, size=(3, 8, 8))
    >>> sum(part.numel() for part in NiN(4, depth=1).build(shape).parameters())  # 112 + 2·20 + 10
    162
    """

    width: int = 96
    depth: int = 3
    dropout: float = 0.0
    batch_norm: bool = False

    name: ClassVar[str] = "nin"
    label: ClassVar[str] = "NiN"
    kinds: ClassVar[tuple[InputKind, ...]] = ("images",)

    def __post_init__(self) -> None:
        check_settings(self)

    def build(self, shape: InputShape) -> Any:
        """A fresh module, drawn from torch's random state."""
        check_shape(self, shape)
        check_sides(self, shape, self.depth - 1)
        before = [shape.size[0], *[self.width] * (self.depth - 1)]
        blocks = [self._block(channels, 2 if step else 1) for step, channels in enumerate(before)]
        # The last block's dropout is the one before the linear layer.
        head = pooled_head(self.width, shape.classes, dropout=0.0)
        return torch_package().nn.Sequential(centering_layer(), *blocks, *head)

    def _block(self, channels: int, stride: int) -> Any:
        nn = torch_package().nn
        layers: list[Any] = []
        for before, kernel, step in ((channels, 3, stride), (self.width, 1, 1), (self.width, 1, 1)):
            layers += conv_layers(
                before, self.width, kernel=kernel, stride=step, batch_norm=self.batch_norm
            )
            layers.append(nn.ReLU())
        return nn.Sequential(*layers, nn.Dropout(self.dropout))
