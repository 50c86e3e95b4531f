"""Multilayer perceptron; the default is one hidden layer of 16 units."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

from oodometer.core.inputs import InputKind
from oodometer.core.optional_imports import torch_package
from oodometer.studies._toml import NonEmpty, PositiveInt
from oodometer.studies.training.architectures._settings import (
    DropoutRate,
    check_settings,
    check_shape,
)
from oodometer.studies.training.architectures.base import InputShape


@dataclass(frozen=True)
class MLP:
    """Multilayer perceptron: `depth` hidden layers of `width` units with ReLU and dropout.

    `widths` is the number of units of each hidden layer; it replaces `width` and `depth`.

    >>> shape = InputShape("vectors", classes=2, size=(3,))
    >>> sum(part.numel() for part in MLP(width=4).build(shape).parameters())  # 4·(3+1) + 2·(4+1)
    26
    """

    width: PositiveInt = 16
    depth: PositiveInt = 1
    dropout: DropoutRate = 0.0
    widths: NonEmpty[PositiveInt] | None = None

    name: ClassVar[str] = "mlp"
    label: ClassVar[str] = "MLP"
    kinds: ClassVar[tuple[InputKind, ...]] = ("vectors", "images")
    optional_settings: ClassVar[tuple[str, ...]] = ("widths",)

    def __post_init__(self) -> None:
        check_settings(self)

    def build(self, shape: InputShape) -> Any:
        """Return a new module, initialized from torch's random state; images are flattened."""
        check_shape(self, shape)
        nn = torch_package().nn
        widths = [math.prod(shape.size), *(self.widths or [self.width] * self.depth)]
        hidden = [
            layer
            for before, after in pairwise(widths)
            for layer in (nn.Linear(before, after), nn.ReLU(), nn.Dropout(self.dropout))
        ]
        return nn.Sequential(nn.Flatten(), *hidden, nn.Linear(widths[-1], shape.classes))
