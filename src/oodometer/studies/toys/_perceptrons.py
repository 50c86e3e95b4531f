"""Many small perceptrons with one hidden layer, trained together with stacked weights.

Weights are stacked along the first axis, and torch.func maps the loss of one model over it. Adam is
elementwise, so every model is trained as it would be alone.
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
    """Settings of full-batch training with Adam."""

    steps: int = 2000
    rate: float = 0.01


@dataclass(frozen=True, eq=False)
class Perceptrons:
    """Stacked weights of trained models; a positive logit is class 1."""

    weights: StackedWeights

    def logits(self, points: Floats) -> Floats:
        """Return the logit of every model at every point, (models, points)."""
        torch = _torch()
        with torch.no_grad():
            inputs = torch.as_tensor(points.T, dtype=torch.float32).contiguous()
            outputs = torch.func.vmap(model_logits, in_dims=(0, None))(self.weights, inputs)
        return np.asarray(outputs)


def initial_weights(models: int, d: int, hidden: int, rng: np.random.Generator) -> StackedWeights:
    """Return random weights, uniform within ±1 / √(number of inputs of the layer)."""
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
    """Return the logits of one model."""
    # Points are along the last axis, (d, points): long rows are summed twice as fast as short ones.
    activations = (weights["hidden"] @ points + weights["shift"][:, None]).relu()
    return weights["out"] @ activations + weights["bias"]


def model_loss(weights: StackedWeights, points: Any, labels: Any) -> Any:
    """Return the mean cross-entropy of one model."""
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
    """Train models on the same points, each with its own labels, (models, points)."""
    torch = _torch()
    inputs = torch.as_tensor(points.T, dtype=torch.float32).contiguous()
    targets = torch.as_tensor(labels, dtype=torch.float32)
    gradients = torch.func.vmap(torch.func.grad(model_loss), in_dims=(0, None, 0))
    stacked = {name: value.clone() for name, value in weights.items()}
    adam = torch.optim.Adam(list(stacked.values()), lr=training.rate)
    for step in range(training.steps):
        for name, gradient in gradients(stacked, inputs, targets).items():
            stacked[name].grad = gradient
        adam.step()
        if progress is not None:
            progress(step + 1, training.steps, "training")
    return Perceptrons(stacked)


def _torch() -> Any:
    return require("torch", extra="torch", purpose="The hypersphere toy")
