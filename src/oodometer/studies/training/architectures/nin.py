"""Network in network (NiN; Lin et al., ICLR 2014), as in tasks 2 and 9 of PGDL."""

from __future__ import annotations

from dataclasses import dataclass
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
    pooled_head,
)


@dataclass(frozen=True)
class NiN:
    """Network in network: `depth` blocks of one 3×3 and two 1×1 convolutions of `width` channels.

    In all blocks except the first, the 3×3 convolution has stride 2. Each block ends with dropout.
    Mean pooling and a linear layer follow the last block. The paper ends with a 1×1 convolution and
    mean pooling, which is equivalent.

    >>> shape = InputShape("images", classes=2, size=(3, 8, 8))
    >>> sum(part.numel() for part in NiN(4, depth=1).build(shape).parameters())  # 112 + 2·20 + 10
    162
    """

    width: PositiveInt = 96
    depth: PositiveInt = 3
    dropout: DropoutRate = 0.0
    batch_norm: bool = False

    name: ClassVar[str] = "nin"
    label: ClassVar[str] = "NiN"
    kinds: ClassVar[tuple[InputKind, ...]] = ("images",)

    def __post_init__(self) -> None:
        check_settings(self)

    def build(self, shape: InputShape) -> Any:
        """Return a new module, initialized from torch's random state."""
        check_shape(self, shape)
        check_sides(self, shape, self.depth - 1)
        before = [shape.size[0], *[self.width] * (self.depth - 1)]
        blocks = [self._block(channels, 2 if step else 1) for step, channels in enumerate(before)]
        # The head needs no dropout, because the last block already ends with dropout.
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
