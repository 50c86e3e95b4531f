"""The heads that tell source from target features, linear and larger. DG §7.2.

A head is fitted to its end by scikit-learn (`fit`), or moved one gradient step at a time
(`SoftmaxHead`), where what it should say changes as it learns.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import numpy as np

from oodometer.core.softmax_kernels import Floats, Ints
from oodometer.core.stats import stream

HeadName = Literal["linear", "larger"]
# Narrower hidden layers hardly learn: a unit that is off for all rows stays off.
NARROWEST = 16
# Rows of one gradient step.
BATCH = 200
# The step's length: many weights that work together take shorter ones.
RATES: dict[HeadName, float] = {"linear": 0.01, "larger": 0.001}
# Steps that a fit stops at whether or not it is done. Narrow heads need thousands, wide ones
# hundreds.
LIMITS: dict[HeadName, int] = {"linear": 1000, "larger": 6000}
# Adam's memory of the gradient and of its square, and what keeps it from dividing by zero.
_MEAN, _SQUARE, _TINY = 0.9, 0.999, np.float32(1e-8)


def hidden_sizes(head: HeadName, d: int) -> tuple[int, ...]:
    """Widths of the hidden layers on d features: none, or d/2, d/4, d/4 with ReLU between.

    >>> hidden_sizes("larger", 512), hidden_sizes("larger", 10), hidden_sizes("linear", 512)
    ((256, 128, 128), (16, 16, 16), ())
    """
    if head == "linear":
        return ()
    return max(d // 2, NARROWEST), max(d // 4, NARROWEST), max(d // 4, NARROWEST)


@dataclass(frozen=True, eq=False)
class Fit:
    """A fitted head, its gradient steps, and whether it was done learning."""

    model: Any
    steps: int
    settled: bool

    def accuracy(self, features: Floats, labels: Ints) -> float:
        """The share of rows it gives the right label."""
        return float((self.model.predict(features) == labels).mean())


def fit(head: HeadName, features: Floats, labels: Ints, *, seed: int) -> Fit:
    """The head of least log-loss, with scikit-learn's usual small penalty on its weights.

    The penalty (C = 1, alpha = 0.0001) is there for rows that can be told apart: without it, the
    weights would grow for ever and there would be no best head.
    """
    from sklearn.exceptions import ConvergenceWarning

    make = _linear if head == "linear" else _larger
    model, steps_a_pass = make(features, seed)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", ConvergenceWarning)
        model.fit(features, labels)
    settled = not any(issubclass(warning.category, ConvergenceWarning) for warning in said)
    return Fit(model, int(np.max(model.n_iter_)) * steps_a_pass, settled)


def _linear(features: Floats, seed: int) -> tuple[Any, int]:
    from sklearn.linear_model import LogisticRegression

    # Tighter than usual: rounding in the features must not show in the head.
    return LogisticRegression(max_iter=LIMITS["linear"], tol=1e-6), 1


def _larger(features: Floats, seed: int) -> tuple[Any, int]:
    from sklearn.neural_network import MLPClassifier

    n, d = features.shape
    batch = min(BATCH, n)
    batches = math.ceil(n / batch)
    model = MLPClassifier(
        hidden_sizes("larger", d),
        batch_size=batch,
        learning_rate_init=RATES["larger"],
        max_iter=math.ceil(LIMITS["larger"] / batches),
        random_state=int(stream(seed, "larger head").integers(2**31)),
    )
    return model, batches


class SoftmaxHead:
    """A head that learns by Adam, a step at a time; in single precision.

    It starts from weights drawn evenly within ±1/√inputs of each layer.
    """

    def __init__(self, head: HeadName, d: int, k: int, rng: np.random.Generator) -> None:
        sizes = (d, *hidden_sizes(head, d), k)
        shapes = list(pairwise(sizes))
        self.rate = RATES[head]
        self.weights = [_drawn(rng, shape, shape[0]) for shape in shapes]
        self.biases = [_drawn(rng, shape[1:], shape[0]) for shape in shapes]
        self._means = [np.zeros_like(part) for part in self._parts]
        self._squares = [np.zeros_like(part) for part in self._parts]
        self._steps = 0

    @property
    def _parts(self) -> list[Floats]:
        return [*self.weights, *self.biases]

    def classes(self, features: Floats) -> Ints:
        """The class of the largest logit, a row."""
        return np.asarray(self._layers(features)[-1].argmax(axis=1))

    def step(self, features: Floats, labels: Ints) -> float:
        """One step down the mean log-loss of these rows; gives the loss before it."""
        layers = self._layers(features)
        loss, slope = _log_loss(layers[-1], labels)
        self._move(self._gradients(layers, slope))
        return loss

    def _layers(self, features: Floats) -> list[Floats]:
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

    def _move(self, gradients: list[Floats]) -> None:
        self._steps += 1
        # Both memories start at 0, and this is how full they are.
        held, spread = (np.float32(1 - keep**self._steps) for keep in (_MEAN, _SQUARE))
        rate = np.float32(self.rate) / held
        states = zip(self._parts, self._means, self._squares, gradients, strict=True)
        for part, mean, square, gradient in states:
            mean += np.float32(1 - _MEAN) * (gradient - mean)
            square += np.float32(1 - _SQUARE) * (gradient * gradient - square)
            part -= rate * mean / (np.sqrt(square / spread) + _TINY)


def _drawn(rng: np.random.Generator, shape: tuple[int, ...], inputs: int) -> Floats:
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
