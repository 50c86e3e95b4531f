"""Adam (Kingma & Ba 2015) and SGD with momentum, on the stacked weights of many models.

Each model has a learning rate and a weight decay of its own. Both do number by number what
torch.optim does for one model; weight decay is added to the gradient.
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
    """Moves the weights of all models of a stack."""

    def step(self, weights: Weights, gradients: Weights, rate_factor: float) -> None:
        """Move weights, in place; the rate of every model is the share of its learning rate."""

    def subset(self, index: Any) -> StackedOptimizer:
        """The optimizer of some of the models."""


@dataclass(eq=False)
class StackedSgd:
    """v ← μ v + g, w ← w − rate · v."""

    rates: Any
    decays: Any
    momentum: float
    velocities: Weights

    def step(self, weights: Weights, gradients: Weights, rate_factor: float) -> None:
        """Move weights, in place."""
        for name, weight in weights.items():
            gradient = _add_weight_decay(gradients[name], weight, self.decays)
            speed = self.velocities[name].mul_(self.momentum).add_(gradient)
            weight.sub_(_per_model(self.rates * rate_factor, weight) * speed)

    def subset(self, index: Any) -> StackedSgd:
        """The optimizer of some of the models."""
        some = _take_models(self.velocities, index)
        return replace(self, rates=self.rates[index], decays=self.decays[index], velocities=some)


@dataclass(eq=False)
class StackedAdam:
    """m and v, the running means of g and g²: w ← w − rate · m̂ / (√v̂ + ε)."""

    rates: Any
    decays: Any
    betas: tuple[float, float]
    eps: float
    means: Weights
    squares: Weights
    n_steps: int = 0

    def step(self, weights: Weights, gradients: Weights, rate_factor: float) -> None:
        """Move weights, in place."""
        self.n_steps += 1
        first, second = (1 - beta**self.n_steps for beta in self.betas)
        rates = self.rates * (rate_factor / first)
        for name, weight in weights.items():
            gradient = _add_weight_decay(gradients[name], weight, self.decays)
            mean = self.means[name].lerp_(gradient, 1 - self.betas[0])
            square = self.squares[name].mul_(self.betas[1])
            square.addcmul_(gradient, gradient, value=1 - self.betas[1])
            below = square.sqrt().div_(second**0.5).add_(self.eps)
            weight.sub_(_per_model(rates, weight) * mean / below)

    def subset(self, index: Any) -> StackedAdam:
        """The optimizer of some of the models."""
        means, squares = _take_models(self.means, index), _take_models(self.squares, index)
        return replace(
            self, rates=self.rates[index], decays=self.decays[index], means=means, squares=squares
        )


def make_stacked_optimizer(
    configs: Sequence[TrainingConfig], kind: InputKind, weights: Weights
) -> StackedOptimizer:
    """The optimizer of recipes that differ in learning rate and weight decay at most."""
    torch, recipe = torch_package(), configs[0]
    rates = torch.tensor([one.lr for one in configs], dtype=torch.float64)
    decays = torch.tensor([one.weight_decay for one in configs], dtype=torch.float64)
    if recipe.optimizer == "sgd":
        return StackedSgd(rates, decays, recipe.momentum, _zeros(weights))
    return StackedAdam(rates, decays, *adam_constants(kind), _zeros(weights), _zeros(weights))


def _add_weight_decay(gradient: Any, weight: Any, decays: Any) -> Any:
    return gradient + _per_model(decays, weight) * weight if decays.any() else gradient


def _per_model(values: Any, weight: Any) -> Any:
    """A number a model, in the form and type of stacked weights."""
    return values.to(weight.dtype).reshape(-1, *[1] * (weight.ndim - 1))


def _zeros(weights: Weights) -> Weights:
    return {name: torch_package().zeros_like(weight) for name, weight in weights.items()}


def _take_models(weights: Weights, at: Any) -> Weights:
    return {name: weight[at] for name, weight in weights.items()}
