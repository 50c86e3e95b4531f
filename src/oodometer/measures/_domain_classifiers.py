"""The heads that tell source from target features, linear and larger. DG §7.2.

A head is fitted to its end by scikit-learn (`fit_head`), or moved one gradient step at a time
(`SoftmaxHead`), where what it should say changes as it learns.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import numpy as np

from oodometer.core.array_types import Floats, Ints
from oodometer.core.stats import rng_for

HeadName = Literal["linear", "larger"]
# Narrower hidden layers hardly learn: a unit that is off for all rows stays off.
MIN_HIDDEN_WIDTH = 16
# Rows of one gradient step.
STEP_ROWS = 200
# The step's length: many weights that work together take shorter ones.
LEARNING_RATES: dict[HeadName, float] = {"linear": 0.01, "larger": 0.001}
# Steps that a fit stops at whether or not it is done. Narrow heads need thousands, wide ones
# hundreds.
MAX_FIT_STEPS: dict[HeadName, int] = {"linear": 1000, "larger": 6000}
# Adam's memory of the gradient and of its square, and what keeps it from dividing by zero.
_ADAM_BETA1, _ADAM_BETA2, _ADAM_EPSILON = 0.9, 0.999, np.float32(1e-8)


def hidden_sizes(head: HeadName, d: int) -> tuple[int, ...]:
    """Widths of the hidden layers on d features: none, or d/2, d/4, d/4 with ReLU between.

    >>> hidden_sizes("larger", 512), hidden_sizes("larger", 10), hidden_sizes("linear", 512)
    ((256, 128, 128), (16, 16, 16), ())
    """
    if head == "linear":
        return ()
    return (
        max(d // 2, MIN_HIDDEN_WIDTH),
        max(d // 4, MIN_HIDDEN_WIDTH),
        max(d // 4, MIN_HIDDEN_WIDTH),
    )


@dataclass(frozen=True, eq=False)
class FittedHead:
    """A fitted head, its gradient steps, and whether it was done learning."""

    model: Any
    steps: int
    converged: bool

    def accuracy(self, features: Floats, labels: Ints) -> float:
        """The share of rows it gives the right label."""
        return float((self.model.predict(features) == labels).mean())


def fit_head(head: HeadName, features: Floats, labels: Ints, *, seed: int) -> FittedHead:
    """The head of least log-loss, with scikit-learn's usual small penalty on its weights.

    The penalty (C = 1, alpha = 0.0001) is there for rows that can be told apart: without it, the
    weights would grow for ever and there would be no best head.
    """
    from sklearn.exceptions import ConvergenceWarning

    make = _linear_model if head == "linear" else _larger_model
    model, steps_a_pass = make(features, seed)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", ConvergenceWarning)
        model.fit(features, labels)
    settled = not any(issubclass(warning.category, ConvergenceWarning) for warning in said)
    return FittedHead(model, int(np.max(model.n_iter_)) * steps_a_pass, settled)


def _linear_model(features: Floats, seed: int) -> tuple[Any, int]:
    from sklearn.linear_model import LogisticRegression

    # Tighter than usual: rounding in the features must not show in the head.
    return LogisticRegression(max_iter=MAX_FIT_STEPS["linear"], tol=1e-6), 1


def _larger_model(features: Floats, seed: int) -> tuple[Any, int]:
    from sklearn.neural_network import MLPClassifier

    n, d = features.shape
    batch = min(STEP_ROWS, n)
    batches = math.ceil(n / batch)
    model = MLPClassifier(
        hidden_sizes("larger", d),
        batch_size=batch,
        learning_rate_init=LEARNING_RATES["larger"],
        max_iter=math.ceil(MAX_FIT_STEPS["larger"] / batches),
        random_state=int(rng_for(seed, "larger head").integers(2**31)),
    )
    return model, batches


class SoftmaxHead:
    """A head that learns by Adam, a step at a time; in single precision.

    It starts from weights drawn evenly within ±1/√inputs of each layer.
    """

    def __init__(self, head: HeadName, d: int, k: int, rng: np.random.Generator) -> None:
        sizes = (d, *hidden_sizes(head, d), k)
        shapes = list(pairwise(sizes))
        self.learning_rate = LEARNING_RATES[head]
        self.weights = [_init_uniform(rng, shape, shape[0]) for shape in shapes]
        self.biases = [_init_uniform(rng, shape[1:], shape[0]) for shape in shapes]
        self._first_moments = [np.zeros_like(part) for part in self._parameters]
        self._second_moments = [np.zeros_like(part) for part in self._parameters]
        self._n_steps = 0

    @property
    def _parameters(self) -> list[Floats]:
        return [*self.weights, *self.biases]

    def classes(self, features: Floats) -> Ints:
        """The class of the largest logit, a row."""
        return np.asarray(self._forward(features)[-1].argmax(axis=1))

    def step(self, features: Floats, labels: Ints) -> float:
        """One step down the mean log-loss of these rows; gives the loss before it."""
        layers = self._forward(features)
        loss, slope = _log_loss(layers[-1], labels)
        self._adam_step(self._gradients(layers, slope))
        return loss

    def _forward(self, features: Floats) -> list[Floats]:
        """What goes into each layer, and the logits."""
        layers = [features]
        for i, (weights, biases) in enumerate(zip(self.weights, self.biases, strict=True)):
            into = layers[-1] if i == 0 else np.maximum(layers[-1], 0, out=layers[-1])
            layers.append(into @ weights + biases)
        return layers

    def _gradients(self, layers: list[Floats], slope: Floats) -> list[Floats]:
        weights, biases = [], []
        for into, held in zip(layers[-2::-1], self.weights[::-1], strict=True):
            weights.append(into.T @ slope)
            biases.append(slope.sum(axis=0))
            # The features themselves are given: nothing is learned beneath them.
            slope = slope if into is layers[0] else (slope @ held.T) * (into > 0)
        return [*weights[::-1], *biases[::-1]]

    def _adam_step(self, gradients: list[Floats]) -> None:
        self._n_steps += 1
        # Both memories start at 0, and this is how full they are.
        held, spread = (np.float32(1 - keep**self._n_steps) for keep in (_ADAM_BETA1, _ADAM_BETA2))
        rate = np.float32(self.learning_rate) / held
        states = zip(
            self._parameters, self._first_moments, self._second_moments, gradients, strict=True
        )
        for part, mean, square, gradient in states:
            mean += np.float32(1 - _ADAM_BETA1) * (gradient - mean)
            square += np.float32(1 - _ADAM_BETA2) * (gradient * gradient - square)
            part -= rate * mean / (np.sqrt(square / spread) + _ADAM_EPSILON)


def _init_uniform(rng: np.random.Generator, shape: tuple[int, ...], inputs: int) -> Floats:
    return np.asarray(rng.uniform(-1, 1, shape) / math.sqrt(inputs), dtype=np.float32)


def _log_loss(logits: Floats, labels: Ints) -> tuple[float, Floats]:
    """The mean log-loss, and how it changes with every logit."""
    rows = np.arange(len(logits))
    above = logits - logits.max(axis=1, keepdims=True)
    probs = np.exp(above)
    total = probs.sum(axis=1, keepdims=True)
    loss = np.log(total[:, 0]) - above[rows, labels]
    probs /= total
    probs[rows, labels] -= 1
    return float(loss.mean(dtype=float)), probs / np.float32(len(logits))
