"""ResNet for small images (He et al., CVPR 2016, section 4.2)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
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
    make_module,
    pooled_head,
)

N_STAGES = 3


@dataclass(frozen=True)
class ResNet:
    """Residual network of three stages, each with `depth` blocks.

    The blocks of the first stage have `width` channels; each later stage doubles this number. A
    block computes ReLU(x + f(x)), where f consists of two 3×3 convolutions. The first block of the
    second and third stage has stride 2, and its shortcut x passes through a 1×1 convolution. A
    `depth` of n corresponds to the paper's network of 6n + 2 layers. If `batch_norm` is false, the
    network has no normalization layers.

    >>> shape = InputShape("images", classes=2, size=(3, 8, 8))
    >>> sum(part.numel() for part in ResNet(2, batch_norm=False).build(shape).parameters())
    1306
    """

    width: PositiveInt = 16
    depth: PositiveInt = 1
    dropout: DropoutRate = 0.0
    batch_norm: bool = True

    name: ClassVar[str] = "resnet"
    label: ClassVar[str] = "ResNet"
    kinds: ClassVar[tuple[InputKind, ...]] = ("images",)

    def __post_init__(self) -> None:
        check_settings(self)

    def build(self, shape: InputShape) -> Any:
        """Return a new module, initialized from torch's random state."""
        check_shape(self, shape)
        check_sides(self, shape, N_STAGES - 1)
        nn = torch_package().nn
        widths = [self.width * 2**stage for stage in range(N_STAGES) for _ in range(self.depth)]
        blocks = [self._block(*pair) for pair in pairwise([self.width, *widths])]
        head = pooled_head(widths[-1], shape.classes, dropout=self.dropout)
        first = self._conv_layers(shape.size[0], self.width)
        return nn.Sequential(centering_layer(), *first, nn.ReLU(), *blocks, *head)

    def _block(self, channels: int, width: int) -> Any:
        nn = torch_package().nn
        stride = 1 if channels == width else 2
        change = nn.Sequential(
            *self._conv_layers(channels, width, stride=stride),
            nn.ReLU(),
            *self._conv_layers(width, width),
        )
        # The shortcut is the identity if the number of channels does not change.
        kept = self._conv_layers(channels, width, kernel=1) if stride > 1 else []
        parts = {"change": change, "kept": nn.Sequential(*kept)}
        return make_module(parts, partial(_residual_forward, stride=stride))

    def _conv_layers(
        self, channels: int, width: int, *, kernel: int = 3, stride: int = 1
    ) -> list[Any]:
        return conv_layers(
            channels, width, kernel=kernel, stride=stride, batch_norm=self.batch_norm
        )


def _residual_forward(block: Any, inputs: Any, *, stride: int) -> Any:
    # Subsampling and then a 1×1 convolution is equivalent to a 1×1 convolution with stride 2. A
    # stride of 2 is avoided, because its gradient writes out of bounds in torch 2.13 if there are
    # fewer than 8 channels.
    kept = block.kept(inputs[..., ::stride, ::stride])
    return (kept + block.change(inputs)).relu()
