"""What is known of each row besides its scores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from oodometer.core.softmax_kernels import Bools, Floats, Ints

Index = slice | Ints | Bools


def some(part: Any, index: Index) -> Any:
    """Some rows of what may not be there."""
    return None if part is None else part[index]


@dataclass(frozen=True, eq=False)
class Signals:
    """What is known of each row besides its scores; None where it is not known."""

    confidence: Floats | None = None
    negative_entropy: Floats | None = None
    classes: Ints | None = None
    correct: Bools | None = None

    def rows(self, index: Index) -> Signals:
        """The same of some rows."""
        return Signals(
            confidence=some(self.confidence, index),
            negative_entropy=some(self.negative_entropy, index),
            classes=some(self.classes, index),
            correct=some(self.correct, index),
        )
