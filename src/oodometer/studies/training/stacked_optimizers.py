"""Adam (Kingma & Ba 2015) and SGD with momentum, on the stacked weights of many models.

Each model has a learning rate and a weight decay of its own. Both do number by number what
torch.optim does for one model; weight decay is added to the gradient.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from oodometer.core.inputs import Kind
from oodometer.studies.training._train import adam_constants
from oodometer.studies.training.architectures._layers import torch_package
from oodometer.studies.training.config import Recipe

Weights = dict[str, Any]


class Optimizer(Protocol):
    """Moves the weights of all models of a stack."""

    def step(self, weights: Weights, gradients: Weights, share: float) -> None:
        """Move weights, in place; the rate of every model is the share of its learning rate."""

    def taken(self, at: Any) -> Optimizer:
        """The optimizer of some of the models."""


@dataclass(eq=False)
class Sgd:
    """v ← μ v + g, w ← w − rate · v."""

    rates: Any
    decays: Any
    momentum: float
    speeds: Weights

    def step(self, weights: Weights, gradients: Weights, share: float) -> None:
        """Move weights, in place."""
        for name, weight in weights.items():
            gradient = _decayed(gradients[name], weight, self.decays)
            speed = self.speeds[name].mul_(self.momentum).add_(gradient)
            weight.sub_(_each(self.rates * share, weight) * speed)

    def taken(self, at: Any) -> Sgd:
        """The optimizer of some of the models."""
        some = _taken(self.speeds, at)
        return replace(self, rates=self.rates[at], decays=self.decays[at], speeds=some)


@dataclass(eq=False)
class Adam:
    """m and v, the running means of g and g²: w ← w − rate · m̂ / (√v̂ + ε)."""

    rates: Any
    decays: Any
    betas: tuple[float, float]
    eps: float
    means: Weights
    squares: Weights
    done: int = 0

    def step(self, weights: Weights, gradients: Weights, share: float) -> None:
        """Move weights, in place."""
        self.done += 1
        first, second = (1 - beta**self.done for beta in self.betas)
        rates = self.rates * (share / first)
        for name, weight in weights.items():
            gradient = _decayed(gradients[name], weight, self.decays)
            mean = self.means[name].lerp_(gradient, 1 - self.betas[0])
            square = self.squares[name].mul_(self.betas[1])
            square.addcmul_(gradient, gradient, value=1 - self.betas[1])
            below = square.sqrt().div_(second**0.5).add_(self.eps)
            weight.sub_(_each(rates, weight) * mean / below)

    def taken(self, at: Any) -> Adam:
        """The optimizer of some of the models."""
        means, squares = _taken(self.means, at), _taken(self.squares, at)
        return replace(
            self, rates=self.rates[at], decays=self.decays[at], means=means, squares=squares
        )


def optimizer_for(recipes: Sequence[Recipe], kind: Kind, weights: Weights) -> Optimizer:
    """The optimizer of recipes that differ in learning rate and weight decay at most."""
    torch, recipe = torch_package(), recipes[0]
    rates = torch.tensor([one.lr for one in recipes], dtype=torch.float64)
    decays = torch.tensor([one.weight_decay for one in recipes], dtype=torch.float64)
    if recipe.optimizer == "sgd":
        return Sgd(rates, decays, recipe.momentum, _zeros(weights))
    return Adam(rates, decays, *adam_constants(kind), _zeros(weights), _zeros(weights))


def _decayed(gradient: Any, weight: Any, decays: Any) -> Any:
    return gradient + _each(decays, weight) * weight if decays.any() else gradient


def _each(values: Any, weight: Any) -> Any:
    """A number a model, in the form and type of stacked weights."""
    return values.to(weight.dtype).reshape(-1, *[1] * (weight.ndim - 1))


def _zeros(weights: Weights) -> Weights:
    return {name: torch_package().zeros_like(weight) for name, weight in weights.items()}


def _taken(weights: Weights, at: Any) -> Weights:
    return {name: weight[at] for name, weight in weights.items()}
