"""Train many small perceptrons at the same time, for the hypersphere toy.

The weights of all models are stacked along the first axis, and torch.func computes the losses of
all models at once. Adam updates each weight separately, so every model is trained as if it were
alone.
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
    """Settings of training with Adam, in which every step uses all points."""

    steps: int = 2000
    rate: float = 0.01


@dataclass(frozen=True, eq=False)
class Perceptrons:
    """Stacked weights of trained models, which predict class 1 if the logit is positive."""

    weights: StackedWeights

    def logits(self, points: Floats) -> Floats:
        """Return the logit of every model at every point, shape (models, points)."""
        torch = _torch()
        with torch.no_grad():
            inputs = torch.as_tensor(points.T, dtype=torch.float32).contiguous()
            outputs = torch.func.vmap(model_logits, in_dims=(0, None))(self.weights, inputs)
        return np.asarray(outputs)


def initial_weights(models: int, d: int, hidden: int, rng: np.random.Generator) -> StackedWeights:
    """Return random weights, uniform between ±1 / √m for a layer with m inputs."""
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
    """Return the logits of one model at all points."""
    # The array has shape (d, points), because long rows are summed twice as fast as short ones.
    activations = (weights["hidden"] @ points + weights["shift"][:, None]).relu()
    return weights["out"] @ activations + weights["bias"]


def model_loss(weights: StackedWeights, points: Any, labels: Any) -> Any:
    """Return the mean cross-entropy of one model over all points."""
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
    """Train all models on the same points; each model has its own row of `labels`."""
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
