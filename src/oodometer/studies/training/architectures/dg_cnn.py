"""The four-layer CNN of DomainBed (Gulrajani and Lopez-Paz, ICLR 2021), made for rotated digits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from oodometer.core.errors import InputError
from oodometer.core.inputs import InputKind
from oodometer.core.optional_imports import torch_package
from oodometer.studies.training.architectures._settings import (
    check_settings,
    check_shape,
    check_sides,
)
from oodometer.studies.training.architectures.base import InputShape
from oodometer.studies.training.architectures.layers import pooled_head

NORM_GROUPS = 8


@dataclass(frozen=True)
class DGCNN:
    """Four 3×3 convolutions (64, 128 at a stride of 2, 128, 128), the mean, a linear layer.

    Each is followed by ReLU and a norm of 8 groups. `width` is that of the first; the others have
    twice as many channels. The paper has no dropout.

    >>> shape = InputShape("images", classes=10, size=(1, 28, 28))
    >>> sum(part.numel() for part in DGCNN().build(shape).parameters())
    371850
    """

    width: int = 64
    dropout: float = 0.0

    name: ClassVar[str] = "dg-cnn"
    label: ClassVar[str] = "DG CNN"
    kinds: ClassVar[tuple[InputKind, ...]] = ("images",)

    def __post_init__(self) -> None:
        check_settings(self)
        if self.width % NORM_GROUPS:
            raise InputError(
                f"width of the architecture 'dg-cnn' must be a multiple of {NORM_GROUPS}, for its norm "
                f"has {NORM_GROUPS} groups; got {self.width}. The paper has 64."
            )

    def build(self, shape: InputShape) -> Any:
        """A fresh module, drawn from torch's random state."""
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
