"""Lower bound of accuracy by disagreement discrepancy (DIS²; Rosenfeld & Garg, NeurIPS 2023).

A critic is a linear classifier that is trained to agree with the model on the source and to
disagree with the model on the target. If no critic succeeds, the model cannot be much worse on the
target than on the source:

    acc_t ≥ acc_s − Δ − √((n_s + 4 n_t) ln(1/δ) / (2 n_s n_t)),

where acc_s and acc_t are the accuracies on source and target, n_s and n_t are the numbers of
held-out rows, and the bound holds with probability 1 − δ. Δ is the largest drop, from source to
target, in the agreement of a critic with the model on held-out rows. The loss of a critic with
logits z on a target row is −log(1 − softmax(z)_ŷ), where ŷ is the class predicted by the model.
This loss is consistent for any number of classes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from oodometer.core.array_types import Floats, Ints
from oodometer.core.errors import InputError, NotApplicable, out_of_range
from oodometer.core.jsonable import fields_to_jsonable
from oodometer.core.predictions import Predictions
from oodometer.core.stats import rng_for

ASSUMES = (
    "a linear critic that agrees with the model on the source disagrees with it on the target at "
    "least as much as the true labels do"
)
# Settings of the critics. One critic is trained for each combination.
L2_PENALTIES = (1e-3,)
DISAGREEMENT_WEIGHTS = (0.7, 1.0, 1.4, 2.0)
MAX_ROWS_PER_SIDE = 5000
EPSILON = 1e-12


@dataclass(frozen=True)
class AccuracyLowerBound:
    """Lower bound `value` of the accuracy; it holds with probability 1 − δ under its assumption."""

    value: float
    source_accuracy: float
    discrepancy: float
    margin: float
    delta: float

    def to_dict(self) -> dict[str, Any]:
        return {**fields_to_jsonable(self), "assumes": ASSUMES}


def lower_bound(
    source: Predictions, target: Predictions, *, delta: float = 0.05, seed: int = 0
) -> AccuracyLowerBound:
    """Return the bound from critics whose inputs are log-probabilities and, if present, features.

    The critics are trained on one half of the source and of the target, and evaluated on the other
    half.
    """
    if not 0 < delta < 1:
        raise out_of_range("delta", delta, above=0, below=1)
    if min(source.n, target.n) < 4:
        raise NotApplicable("it requires at least four rows on each side")
    rng = rng_for(seed, "critics")
    source_rows = _DomainRows.from_predictions(source, rng)
    target_rows = _DomainRows.from_predictions(target, rng)
    if source_rows.inputs.shape[1] != target_rows.inputs.shape[1]:
        raise InputError(
            f"The source has {source_rows.inputs.shape[1]} features and outputs, the target "
            f"{target_rows.inputs.shape[1]}. Both must come from the same layer of one model."
        )
    source_rows, target_rows = _standardize(source_rows, target_rows)
    gaps = [
        source_rows.agreement(critic) - target_rows.agreement(critic)
        for critic in _fit_critics(source_rows, target_rows)
    ]
    n_s = len(source_rows.classes) - source_rows.n_training
    n_t = len(target_rows.classes) - target_rows.n_training
    margin = math.sqrt((n_s + 4 * n_t) * math.log(1 / delta) / (2 * n_s * n_t))
    accuracy = float(source.correct.mean())
    discrepancy = max(*gaps, 0.0)
    return AccuracyLowerBound(
        value=max(accuracy - discrepancy - margin, 0.0),
        source_accuracy=accuracy,
        discrepancy=discrepancy,
        margin=margin,
        delta=delta,
    )


@dataclass(frozen=True)
class _DomainRows:
    """Inputs of the critics in random row order, and the classes that the model predicts.

    The first half of the rows is used for training, and the second half is held out.
    """

    inputs: Floats
    classes: Ints

    @classmethod
    def from_predictions(cls, rows: Predictions, rng: np.random.Generator) -> _DomainRows:
        sample = rows.rows(np.sort(rng.permutation(rows.n)[:MAX_ROWS_PER_SIDE]))
        order = rng.permutation(sample.n)
        # The model's outputs are inputs of the critic, so that a critic can reproduce the model.
        columns = [sample.log_probs]
        if sample.features is not None:
            columns.append(sample.features)
        return cls(np.hstack(columns).astype(np.float64)[order], sample.classes[order])

    @property
    def n_training(self) -> int:
        return len(self.classes) // 2

    def agreement(self, critic: Floats) -> float:
        """Return how often a critic agrees with the model on held-out rows."""
        held_out = slice(self.n_training, None)
        predicted = (self.inputs[held_out] @ critic).argmax(axis=1)
        return float((predicted == self.classes[held_out]).mean())


def _standardize(source: _DomainRows, target: _DomainRows) -> tuple[_DomainRows, _DomainRows]:
    """Standardize both inputs by the mean and deviation of the source, and add an intercept."""
    center = source.inputs.mean(axis=0)
    deviation = source.inputs.std(axis=0)
    deviation = np.where(deviation > EPSILON, deviation, 1.0)

    def standardize(side: _DomainRows) -> _DomainRows:
        scaled = np.clip((side.inputs - center) / deviation, -10, 10)
        return _DomainRows(np.hstack([scaled, np.ones((len(scaled), 1))]), side.classes)

    return standardize(source), standardize(target)


def _fit_critics(source: _DomainRows, target: _DomainRows) -> Iterator[Floats]:
    """Yield the weights of linear critics, shape (inputs, k), one per combination of settings."""
    from scipy.optimize import minimize

    k = max(int(max(source.classes.max(), target.classes.max())) + 1, 2)
    start = np.zeros(source.inputs.shape[1] * k)
    for settings in itertools.product(L2_PENALTIES, DISAGREEMENT_WEIGHTS):
        solution = minimize(
            _critic_loss,
            start,
            (source, target, settings),
            "L-BFGS-B",
            jac=True,
            options={"maxiter": 200},
        )
        yield solution.x.reshape(-1, k)


def _critic_loss(
    flat: Floats, source: _DomainRows, target: _DomainRows, settings: tuple[float, float]
) -> tuple[float, Floats]:
    """Return the training loss of a critic and its gradient.

    The loss has one term for agreement on the source and one for disagreement on the target.
    `settings` are the L2 penalty and the weight of the disagreement term.
    """
    penalty, disagreement_weight = settings
    weights = flat.reshape(source.inputs.shape[1], -1)
    loss = penalty * float((weights**2).sum())
    gradient = 2 * penalty * weights
    for side, agree, factor in ((source, True, 1.0), (target, False, disagreement_weight)):
        inputs = side.inputs[: side.n_training]
        classes = side.classes[: side.n_training]
        scores = inputs @ weights
        scores -= scores.max(axis=1, keepdims=True)
        probs = np.exp(scores)
        probs /= probs.sum(axis=1, keepdims=True)
        predicted = np.arange(len(classes)), classes
        p = np.clip(probs[predicted], EPSILON, 1 - EPSILON)
        if agree:
            loss -= factor * float(np.log(p).mean())
            by_score = probs
            by_score[predicted] -= 1
        else:
            loss -= factor * float(np.log1p(-p).mean())
            # d −log(1 − p_ŷ) / dz = p_ŷ / (1 − p_ŷ) · (e_ŷ − p)
            by_score = -probs * (p / (1 - p))[:, None]
            by_score[predicted] += p / (1 - p)
        gradient += factor * inputs.T @ by_score / len(classes)
    return loss, gradient.ravel()
