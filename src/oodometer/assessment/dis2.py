"""DIS²: a lower bound of accuracy by disagreement discrepancy. Rosenfeld & Garg, NeurIPS 2023.

A critic tries to agree with the model on the source and to disagree with it on the target. If no
linear critic can do that, the model can't be much worse on the target than on the source:

    acc_t ≥ acc_s − Δ − √((n_s + 4 n_t) ln(1/δ) / (2 n_s n_t)),

Δ the largest gap of agreement that a critic reaches on rows it has not learned from. On the target
critics learn with −log(1 − softmax(z)_ŷ), which is consistent for any number of classes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from oodometer.core.array_types import Floats, Ints
from oodometer.core.errors import InputError, NotApplicable
from oodometer.core.predictions import Predictions
from oodometer.core.stats import rng_for

ASSUMES = (
    "no function disagrees with the model on the target (and agrees on the source) more than the "
    "true labelling does, beyond what linear critics reach"
)
# Pulls of the weights towards 0, and how much disagreement counts, that critics are tried with.
L2_PENALTIES = (1e-3,)
DISAGREEMENT_WEIGHTS = (0.7, 1.0, 1.4, 2.0)
MAX_ROWS_PER_SIDE = 5000
EPSILON = 1e-12


@dataclass(frozen=True)
class AccuracyLowerBound:
    """At least this accuracy, with confidence 1 − δ if what it assumes holds."""

    value: float
    source_accuracy: float
    discrepancy: float
    margin: float
    delta: float

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "value": self.value,
            "source_accuracy": self.source_accuracy,
            "discrepancy": self.discrepancy,
            "margin": self.margin,
            "delta": self.delta,
            "assumes": ASSUMES,
        }


def lower_bound(
    source: Predictions, target: Predictions, *, delta: float = 0.05, seed: int = 0
) -> AccuracyLowerBound:
    """The bound, from critics on the log-probabilities, and on features where there are some.

    Half of each side teaches the critics, the other half judges them and the model.
    """
    if not 0 < delta < 1:
        raise InputError(f"delta must be above 0 and below 1; got {delta:g}. 0.05 is usual.")
    if min(source.n, target.n) < 4:
        raise NotApplicable("it needs at least four rows on each side, to learn from half of them")
    rng = rng_for(seed, "critics")
    sides = [_DomainRows.from_predictions(rows, rng) for rows in (source, target)]
    if sides[0].inputs.shape[1] != sides[1].inputs.shape[1]:
        raise InputError(
            f"The source has {sides[0].inputs.shape[1]} features and outputs, the target "
            f"{sides[1].inputs.shape[1]}. Both must come from the same layer of one model."
        )
    known, new = _standardize(*sides)
    gaps = [known.agreement(critic) - new.agreement(critic) for critic in _fit_critics(known, new)]
    n_s, n_t = len(known.classes) - known.n_training, len(new.classes) - new.n_training
    margin = math.sqrt((n_s + 4 * n_t) * math.log(1 / delta) / (2 * n_s * n_t))
    accuracy, gap = float(source.correct.mean()), max(*gaps, 0.0)
    return AccuracyLowerBound(max(accuracy - gap - margin, 0.0), accuracy, gap, margin, delta)


@dataclass(frozen=True)
class _DomainRows:
    """Rows in random order, an intercept among their inputs, and what the model calls them."""

    inputs: Floats
    classes: Ints

    @classmethod
    def from_predictions(cls, rows: Predictions, rng: np.random.Generator) -> _DomainRows:
        some = rows.rows(np.sort(rng.permutation(rows.n)[:MAX_ROWS_PER_SIDE]))
        order = rng.permutation(some.n)
        # With its outputs a critic can always say what the model says.
        parts = [some.log_probs] if some.features is None else [some.log_probs, some.features]
        return cls(np.hstack(parts).astype(np.float64)[order], some.classes[order])

    @property
    def n_training(self) -> int:
        return len(self.classes) // 2

    def agreement(self, critic: Floats) -> float:
        """How often a critic says what the model says, on the half it has not learned from."""
        rows = slice(self.n_training, None)
        said = (self.inputs[rows] @ critic).argmax(axis=1)
        return float((said == self.classes[rows]).mean())


def _standardize(source: _DomainRows, target: _DomainRows) -> tuple[_DomainRows, _DomainRows]:
    """Both sides standardised as the source is, with an intercept."""
    centre, spread = source.inputs.mean(axis=0), source.inputs.std(axis=0)
    spread = np.where(spread > EPSILON, spread, 1.0)

    def done(side: _DomainRows) -> _DomainRows:
        scaled = np.clip((side.inputs - centre) / spread, -10, 10)
        return _DomainRows(np.hstack([scaled, np.ones((len(scaled), 1))]), side.classes)

    return done(source), done(target)


def _fit_critics(source: _DomainRows, target: _DomainRows) -> Iterator[Floats]:
    """Linear critics (width, k), one for each pull and each count."""
    from scipy.optimize import minimize

    k = max(int(max(source.classes.max(), target.classes.max())) + 1, 2)
    start = np.zeros(source.inputs.shape[1] * k)
    for pull, count in itertools.product(L2_PENALTIES, DISAGREEMENT_WEIGHTS):
        settings = (source, target, (pull, count))
        found = minimize(
            _critic_loss, start, settings, "L-BFGS-B", jac=True, options={"maxiter": 200}
        )
        yield found.x.reshape(-1, k)


def _critic_loss(
    flat: Floats, source: _DomainRows, target: _DomainRows, settings: tuple[float, float]
) -> tuple[float, Floats]:
    """To agree on the source and to disagree on the target, on the halves that teach."""
    pull, count = settings
    weights = flat.reshape(source.inputs.shape[1], -1)
    value, slope = pull * float((weights**2).sum()), 2 * pull * weights
    for side, wanted, much in ((source, True, 1.0), (target, False, count)):
        rows = slice(0, side.n_training)
        inputs, classes = side.inputs[rows], side.classes[rows]
        scores = inputs @ weights
        scores -= scores.max(axis=1, keepdims=True)
        probs = np.exp(scores)
        probs /= probs.sum(axis=1, keepdims=True)
        at = np.arange(len(classes)), classes
        chance = np.clip(probs[at], EPSILON, 1 - EPSILON)
        if wanted:
            value -= much * float(np.log(chance).mean())
            push = probs
            push[at] -= 1
        else:
            value -= much * float(np.log1p(-chance).mean())
            # d −log(1 − p_ŷ) / dz = p_ŷ / (1 − p_ŷ) · (e_ŷ − p)
            push = -probs * (chance / (1 - chance))[:, None]
            push[at] += chance / (1 - chance)
        slope += much * inputs.T @ push / len(classes)
    return value, slope.ravel()
