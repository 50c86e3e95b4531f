"""Protocol of an architecture, and the shape of the inputs that a network is built for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from oodometer.core.inputs import InputKind


@dataclass(frozen=True)
class InputShape:
    """Kind and size of the inputs, and the number of classes.

    `size` is (channels, height, width) for images, (d,) for vectors, and for texts and pairs the
    number of tokens that a text is cut or padded to; `vocabulary` is the number of tokens.
    """

    kind: InputKind
    classes: int
    size: tuple[int, ...]
    vocabulary: int = 0


@runtime_checkable
class Architecture(Protocol):
    """Factory of networks: a frozen dataclass of its settings (width, depth, dropout, …)."""

    @property
    def name(self) -> str:
        """Name in training configurations."""

    @property
    def kinds(self) -> tuple[InputKind, ...]:
        """Kinds of input that the network accepts."""

    @property
    def label(self) -> str:
        """Name in tables."""

    def build(self, shape: InputShape) -> Any:
        """Return a new torch module, initialized from torch's random state, with logits (n, classes).

        Images are floats (n, channels, height, width) from 0 to 1; texts are token ids (n, length),
        padded with 0; pairs are (n, 2, length); vectors are floats (n, d).
        """


ArchitectureSettings = Mapping[str, Any]
