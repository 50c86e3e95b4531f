"""What is known of each row besides its scores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from oodometer.core.softmax_kernels import Bools, Floats, Ints

RowIndex = slice | Ints | Bools


def select_rows(values: Any, index: RowIndex) -> Any:
    """Some rows of what may not be there."""
    return None if values is None else values[index]


@dataclass(frozen=True, eq=False)
class RowStatistics:
    """What is known of each row besides its scores; None where it is not known."""

    confidence: Floats | None = None
    negative_entropy: Floats | None = None
    classes: Ints | None = None
    correct: Bools | None = None

    def rows(self, index: RowIndex) -> RowStatistics:
        """The same of some rows."""
        return RowStatistics(
            confidence=select_rows(self.confidence, index),
            negative_entropy=select_rows(self.negative_entropy, index),
            classes=select_rows(self.classes, index),
            correct=select_rows(self.correct, index),
        )
