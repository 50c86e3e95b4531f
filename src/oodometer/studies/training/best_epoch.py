"""Keep the weights of the epoch with the highest accuracy on held-out rows (early stopping)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any


@dataclass
class BestEpoch:
    """Weights of the best epoch so far; `epoch` is 0 before the first epoch.

    Of several epochs with the same accuracy, the first one is kept. An epoch with a loss that is not
    finite is never kept.
    """

    epoch: int = 0
    accuracy: float = -math.inf
    weights: dict[str, Any] = field(default_factory=dict)

    def update(self, epoch: int, *, loss: float, accuracy: float, module: Any) -> None:
        """Copy the weights of the module if its accuracy on the held-out rows is the highest."""
        if math.isfinite(loss) and accuracy > self.accuracy:
            self.epoch, self.accuracy = epoch, accuracy
            self.weights = {name: value.clone() for name, value in module.state_dict().items()}

    def restore(self, module: Any) -> dict[str, float]:
        """Set the weights of the best epoch, in place; return facts about this epoch."""
        module.load_state_dict(self.weights)
        return {"best_epoch": float(self.epoch), "held_out_accuracy": self.accuracy}
