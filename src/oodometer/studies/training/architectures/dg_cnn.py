"""Four-layer CNN of DomainBed for rotated MNIST (Gulrajani & Lopez-Paz, ICLR 2021)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from oodometer.core.errors import InputError
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
from oodometer.studies.training.architectures.layers import pooled_head

NORM_GROUPS = 8


@dataclass(frozen=True)
class DGCNN:
    """Four 3×3 convolutions (64, 128 with stride 2, 128, 128), mean pooling and a linear layer.

    Each convolution is followed by ReLU and by group normalization with 8 groups. `width` is the
    number of channels of the first convolution; the other convolutions have twice that number. The
    paper uses no dropout.

    >>> shape = InputShape("images", classes=10, size=(1, 28, 28))
    >>> sum(part.numel() for part in DGCNN().build(shape).parameters())
    371850
    """

    width: PositiveInt = 64
    dropout: DropoutRate = 0.0

    name: ClassVar[str] = "dg-cnn"
    label: ClassVar[str] = "DG CNN"
    kinds: ClassVar[tuple[InputKind, ...]] = ("images",)

    def __post_init__(self) -> None:
        check_settings(self)
        if self.width % NORM_GROUPS:
            raise InputError(
                f"width of the architecture 'dg-cnn' must be a multiple of {NORM_GROUPS}, the number of "
                f"groups of its group norm; got {self.width}. The paper has 64."
            )

    def build(self, shape: InputShape) -> Any:
        """Return a new module, initialized from torch's random state."""
        check_shape(self, shape)
        check_sides(self, shape, 1)
        nn = torch_package().nn
        wide, layers = 2 * self.width, []
        for before, after, stride in (
            (shape.size[0], self.width, 1),
            (self.width, wide, 2),
            (wide, wide, 1),
            (wide, wide, 1),
        ):
            layers += [
                nn.Conv2d(before, after, 3, stride=stride, padding=1),
                nn.ReLU(),
                nn.GroupNorm(NORM_GROUPS, after),
            ]
        return nn.Sequential(*layers, *pooled_head(wide, shape.classes, dropout=self.dropout))
