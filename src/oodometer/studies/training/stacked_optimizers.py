"""Adam (Kingma & Ba 2015), AdamW and SGD with momentum on the stacked weights of many models.

Each model has its own learning rate and weight decay. A model is updated exactly as the same
optimizer of torch.optim would update it alone. Weight decay is added to the gradient; AdamW instead
shrinks the weights before each step (Loshchilov & Hutter 2019).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from oodometer.core.inputs import InputKind
from oodometer.core.optional_imports import torch_package
from oodometer.studies.training._train import adam_constants
from oodometer.studies.training.config import TrainingConfig

Weights = dict[str, Any]


class StackedOptimizer(Protocol):
    """Interface of an optimizer that updates all models of a stack at once."""

    def step(self, weights: Weights, gradients: Weights, rate_factor: float) -> None:
        """Update the weights in place; `rate_factor` multiplies the learning rate of each model."""

    def subset(self, index: Any) -> StackedOptimizer:
        """Return an optimizer of the selected models only."""


@dataclass(eq=False)
class StackedSgd:
    """SGD with momentum μ: v ← μ v + g and w ← w − rate · v, for weights w and gradients g."""

    rates: Any
    decays: Any
    momentum: float
    velocities: Weights

    def step(self, weights: Weights, gradients: Weights, rate_factor: float) -> None:
        for name, weight in weights.items():
            gradient = _add_weight_decay(gradients[name], weight, self.decays)
            velocity = self.velocities[name].mul_(self.momentum).add_(gradient)
            weight.sub_(_per_model(self.rates * rate_factor, weight) * velocity)

    def subset(self, index: Any) -> StackedSgd:
        return replace(
            self,
            rates=self.rates[index],
            decays=self.decays[index],
            velocities=_take_models(self.velocities, index),
        )


@dataclass(eq=False)
class StackedAdam:
    """Adam: w ← w − rate · m̂ / (√v̂ + ε), for weights w and gradients g.

    m̂ and v̂ are the bias-corrected running means of g and g². If `decoupled` is true (AdamW), the
    decay is w ← w − rate · decay · w before each step; otherwise it is added to g.
    """

    rates: Any
    decays: Any
    betas: tuple[float, float]
    eps: float
    means: Weights
    squares: Weights
    decoupled: bool = False
    n_steps: int = 0

    def step(self, weights: Weights, gradients: Weights, rate_factor: float) -> None:
        self.n_steps += 1
        first, second = (1 - beta**self.n_steps for beta in self.betas)
        rates = self.rates * (rate_factor / first)
        for name, weight in weights.items():
            gradient = gradients[name]
            if self.decoupled:
                weight.mul_(_per_model(1 - self.rates * rate_factor * self.decays, weight))
            else:
                gradient = _add_weight_decay(gradient, weight, self.decays)
            mean = self.means[name].lerp_(gradient, 1 - self.betas[0])
            square = self.squares[name].mul_(self.betas[1])
            square.addcmul_(gradient, gradient, value=1 - self.betas[1])
            denominator = square.sqrt().div_(second**0.5).add_(self.eps)
            # In place, because the allocation of large temporary arrays takes longer than the sums.
            weight.sub_((_per_model(rates, weight) * mean).div_(denominator))

    def subset(self, index: Any) -> StackedAdam:
        return replace(
            self,
            rates=self.rates[index],
            decays=self.decays[index],
            means=_take_models(self.means, index),
            squares=_take_models(self.squares, index),
        )


def make_stacked_optimizer(
    configs: Sequence[TrainingConfig], kind: InputKind, weights: Weights
) -> StackedOptimizer:
    """Return the optimizer of a stack; each model uses its own learning rate and weight decay."""
    torch = torch_package()
    rates = torch.tensor([config.lr for config in configs], dtype=torch.float64)
    decays = torch.tensor([config.weight_decay for config in configs], dtype=torch.float64)
    if configs[0].optimizer == "sgd":
        return StackedSgd(rates, decays, configs[0].momentum, _zeros(weights))
    betas, eps = adam_constants(configs[0].optimizer, kind)
    return StackedAdam(
        rates=rates,
        decays=decays,
        betas=betas,
        eps=eps,
        means=_zeros(weights),
        squares=_zeros(weights),
        decoupled=configs[0].optimizer == "adamw",
    )


def _add_weight_decay(gradient: Any, weight: Any, decays: Any) -> Any:
    return gradient + _per_model(decays, weight) * weight if decays.any() else gradient


def _per_model(values: Any, weight: Any) -> Any:
    """Reshape one value per model so that it can be multiplied with the stacked weights."""
    return values.to(weight.dtype).reshape(-1, *[1] * (weight.ndim - 1))


def _zeros(weights: Weights) -> Weights:
    return {name: torch_package().zeros_like(weight) for name, weight in weights.items()}


def _take_models(weights: Weights, index: Any) -> Weights:
    return {name: weight[index] for name, weight in weights.items()}
