"""What an architecture is built for, and what an architecture is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from oodometer.core.inputs import InputKind


@dataclass(frozen=True)
class InputShape:
    """The kind of the inputs, how many classes there are, and how large an input is.

    `size` is (channels, height, width) of images, (d,) of vectors, and of texts and pairs the
    number of tokens that a text is cut or padded to; `vocabulary` is how many tokens there are.
    """

    kind: InputKind
    classes: int
    size: tuple[int, ...]
    vocabulary: int = 0


@runtime_checkable
class Architecture(Protocol):
    """A network to be built: a frozen dataclass of its settings (width, depth, dropout, …)."""

    @property
    def name(self) -> str:
        """How recipes call it."""

    @property
    def kinds(self) -> tuple[InputKind, ...]:
        """The kinds of inputs that it takes."""

    @property
    def label(self) -> str:
        """How it is called in a table."""

    def build(self, shape: InputShape) -> Any:
        """A fresh torch module, drawn from torch's random state, that gives logits (n, classes).

        Images come as floats (n, channels, height, width) from 0 to 1; texts as token numbers
        (n, length), where 0 pads; pairs as (n, 2, length); vectors as floats (n, d).
        """


ArchitectureSettings = Mapping[str, Any]
