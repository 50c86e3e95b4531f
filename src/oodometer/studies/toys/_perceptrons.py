"""Many small perceptrons with one hidden layer, trained side by side as one.

Their weights are stacked along a first axis, and torch.func maps the loss of one over it; Adam
works number by number, so that each is trained as it would be alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from oodometer.core.array_types import Bools, Floats
from oodometer.core.optional_imports import require
from oodometer.core.protocols import ProgressCallback

StackedWeights = dict[str, Any]


@dataclass(frozen=True)
class PerceptronTraining:
    """How they are trained: by Adam on all points at once."""

    steps: int = 2000
    rate: float = 0.01


@dataclass(frozen=True, eq=False)
class Perceptrons:
    """Trained weights, stacked; a positive logit is class 1."""

    weights: StackedWeights

    def logits(self, points: Floats) -> Floats:
        """What every model says of every point: (models, points)."""
        torch = _torch()
        with torch.no_grad():
            given = torch.as_tensor(points.T, dtype=torch.float32).contiguous()
            found = torch.func.vmap(model_logits, in_dims=(0, None))(self.weights, given)
        return np.asarray(found)


def initial_weights(models: int, d: int, hidden: int, rng: np.random.Generator) -> StackedWeights:
    """Uniform within 1 / √(number of inputs of the layer), as is usual."""
    shapes = {
        "hidden": ((models, hidden, d), d),
        "shift": ((models, hidden), d),
        "out": ((models, hidden), hidden),
        "bias": ((models,), hidden),
    }
    torch = _torch()
    return {
        name: torch.as_tensor(rng.uniform(-1, 1, shape) / np.sqrt(fan), dtype=torch.float32)
        for name, (shape, fan) in shapes.items()
    }


def model_logits(weights: StackedWeights, points: Any) -> Any:
    """The logits of one model."""
    # Points run along the last axis, (d, points): long rows are summed twice as fast as short ones.
    activations = (weights["hidden"] @ points + weights["shift"][:, None]).relu()
    return weights["out"] @ activations + weights["bias"]


def model_loss(weights: StackedWeights, points: Any, labels: Any) -> Any:
    """The mean cross-entropy of one model."""
    return _torch().nn.functional.binary_cross_entropy_with_logits(
        model_logits(weights, points), labels
    )


def train_perceptrons(
    weights: StackedWeights,
    points: Floats,
    labels: Bools,
    training: PerceptronTraining,
    progress: ProgressCallback | None = None,
) -> Perceptrons:
    """Models trained on the same points, each with labels of its own (models, points)."""
    torch = _torch()
    given = torch.as_tensor(points.T, dtype=torch.float32).contiguous()
    wanted = torch.as_tensor(labels, dtype=torch.float32)
    gradients = torch.func.vmap(torch.func.grad(model_loss), in_dims=(0, None, 0))
    stacked = {name: value.clone() for name, value in weights.items()}
    adam = torch.optim.Adam(list(stacked.values()), lr=training.rate)
    for step in range(training.steps):
        for name, gradient in gradients(stacked, given, wanted).items():
            stacked[name].grad = gradient
        adam.step()
        if progress is not None:
            progress(step + 1, training.steps, "training")
    return Perceptrons(stacked)


def _torch() -> Any:
    return require("torch", extra="torch", purpose="The hypersphere toy")
