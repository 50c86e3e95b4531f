"""Interface of an architecture, and the shape of the inputs that a network is built for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from oodometer.core.inputs import InputKind


@dataclass(frozen=True)
class InputShape:
    """Kind and size of the inputs, and the number of classes.

    `size` is (channels, height, width) for images and (d,) for vectors. For texts and pairs of
    texts it is (length,), the number of tokens to which each text is truncated or padded.
    `vocabulary` is the number of different tokens and `pad` the id of the padding token; both are 0
    for other inputs.
    """

    kind: InputKind
    classes: int
    size: tuple[int, ...]
    vocabulary: int = 0
    pad: int = 0


@runtime_checkable
class Architecture(Protocol):
    """Interface of an architecture, which builds networks.

    An architecture is a frozen dataclass of its settings, such as width, depth and dropout.
    """

    @property
    def name(self) -> str:
        """Name of the architecture in training configurations."""

    @property
    def kinds(self) -> tuple[InputKind, ...]:
        """Kinds of inputs that the networks accept."""

    @property
    def label(self) -> str:
        """Name of the architecture in tables."""

    def build(self, shape: InputShape) -> Any:
        """Return a new torch module, initialized from torch's random state.

        The outputs of the module are logits of shape (n, classes). Its inputs depend on the kind:

        images    floats between 0 and 1 of shape (n, channels, height, width)
        text      padded token ids of shape (n, length)
        pairs     padded token ids of shape (n, 2, length)
        vectors   floats of shape (n, d)
        """


ArchitectureSettings = Mapping[str, Any]
