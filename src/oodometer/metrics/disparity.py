"""Demographic disparity: how differently a model decides on two groups of rows that it gives away.

The groups are the environments of EIIL (Creager et al., ICML 2021), which break a fixed model's
invariance the most. They need not mean anything, and nothing follows from them about fairness.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from oodometer.core.array_types import Bools, Floats, Ints
from oodometer.core.errors import NotApplicable
from oodometer.core.predictions import Predictions
from oodometer.core.protocols import Need
from oodometer.core.results import Score
from oodometer.core.softmax_kernels import MIN_PROBABILITY, row_blocks
from oodometer.core.stats import (
    N_REPLICATES,
    absolute_sum_interval,
    bootstrap_counts,
    rng_for,
    score_with_interval,
)
from oodometer.models.model_view import ModelView


@dataclass(frozen=True)
class DemographicDisparity:
    """Half of Σ_c |P(ŷ = c | first environment) − P(ŷ = c | second)|, from 0 to 1.

    Of two classes that is the difference of the rates of either.

    >>> from oodometer.models.model_view import ViewSource
    >>> said = Predictions.from_probs([[0.9, 0.1], [0.1, 0.9], [0.9, 0.1]], labels=[0, 1, 1])
    >>> DemographicDisparity().evaluate(ModelView(ViewSource("toy", outputs=said))).value
    0.5
    """

    name: ClassVar[str] = "demographic_disparity"
    label: ClassVar[str] = "Demographic disparity"
    needs: ClassVar[tuple[Need, ...]] = ("outputs", "labels")
    assumes: ClassVar[str] = "how differently it decides where it is too sure and where it is not"
    paper: ClassVar[str] = "Creager et al., ICML 2021; Wenzel et al., NeurIPS 2022"

    def evaluate(self, view: ModelView) -> Score:
        """The disparity; how large the environments are and their penalty are facts."""
        slopes = scale_slopes(view.outputs, view.labels)
        first = first_environment(slopes)
        counts = np.stack([_class_counts(view, side) for side in (first, ~first)])
        sizes = counts.sum(axis=1)
        if not sizes.all():
            raise NotApplicable(
                "one of the two environments is empty: the model is too sure of no row, or of all"
            )
        drawn = bootstrap_counts(rng_for(view.view_source.seed, self.name), counts, N_REPLICATES)
        drawn = drawn[drawn.sum(axis=2).all(axis=1)]
        gaps = _rate_gaps(counts[None])[0]
        return score_with_interval(
            float(np.abs(gaps).sum()),
            absolute_sum_interval(gaps, _rate_gaps(drawn)),
            facts={
                "rows_too_sure": int(sizes[0]),
                "rows_not_too_sure": int(sizes[1]),
                "penalty": environment_penalty(slopes, first),
            },
        )


def scale_slopes(outputs: Predictions, labels: Ints) -> Floats:
    """The derivative of each row's loss by a factor w = 1 of its logits: Σ_j p_j z_j − z_y.

    As Σ_j p_j = 1, logits plus a constant have the same one: logarithms of probabilities will do.

    >>> scale_slopes(Predictions.from_logits([[0.0, 0.0], [3.0, 3.0]]), np.array([0, 1]))
    array([0., 0.])
    """
    scores, form = outputs.require_scores("the penalty")
    slopes = np.empty(outputs.n)
    for rows in row_blocks(*scores.shape):
        z = scores[rows].astype(np.float64)
        z = (np.log(np.maximum(z, MIN_PROBABILITY)) if form == "probs" else z) / outputs.temperature
        z -= z.max(axis=1, keepdims=True)
        weights = np.exp(z)
        own = z[np.arange(len(z)), labels[rows]]
        slopes[rows] = (weights * z).sum(axis=1) / weights.sum(axis=1) - own
    return slopes


def first_environment(slopes: Floats) -> Bools:
    """The rows of the first environment: those of which the model is too sure, slope > 0.

    With soft shares q in [0, 1] and a = Σ q_i slope_i, EIIL's penalty a² + (Σ slope_i − a)² is
    convex in a, so that it is largest where a is as large or as small as can be. Those are q = 1
    where slope > 0, and its complement, which is the same two environments in the other order.

    >>> first_environment(np.array([0.5, -2.0, 0.0]))
    array([ True, False, False])
    """
    return np.asarray(slopes > 0)


def environment_penalty(slopes: Floats, shares: Floats | Bools) -> float:
    """How far two environments are from having one best factor: Σ_e (Σ_i q_i(e) slope_i / n)².

    >>> environment_penalty(np.array([1.0, -3.0]), np.array([True, False]))
    2.5
    """
    first = float(shares @ slopes)
    return (first**2 + (float(slopes.sum()) - first) ** 2) / len(slopes) ** 2


def _class_counts(view: ModelView, where: Bools) -> Ints:
    return np.bincount(view.outputs.classes[where], minlength=view.outputs.k)


def _rate_gaps(counts: Ints) -> Floats:
    """Half of the differences of rates, (…, k), of counts by environment and class, (…, 2, k)."""
    rates = counts / counts.sum(axis=2, keepdims=True)
    gaps: Floats = (rates[:, 0] - rates[:, 1]) / 2
    return gaps
