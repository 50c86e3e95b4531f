"""Demographic disparity between two inferred environments (EIIL; Creager et al., ICML 2021).

An environment is a group of rows. The rows are divided into the two environments for which the
fixed model violates the invariance principle most, as measured by the EIIL penalty. The
environments need not correspond to real groups of people, so the metric implies nothing about
fairness.
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
    """Difference between the predicted class frequencies of two environments, from 0 to 1.

    The value is ½ Σ_c |P(ŷ = c | first environment) − P(ŷ = c | second environment)|. With two
    classes, it is the absolute difference between the frequencies of either class. The first
    environment contains the rows on which the model is overconfident, and the second contains all
    other rows. The facts of the score include the sizes of the environments and the EIIL penalty.

    Examples
    --------
    >>> from oodometer.models.model_view import ViewSource
    >>> outputs = Predictions.from_probs([[0.9, 0.1], [0.1, 0.9], [0.9, 0.1]], labels=[0, 1, 1])
    >>> DemographicDisparity().evaluate(ModelView(ViewSource("toy", outputs=outputs))).value
    0.5
    """

    name: ClassVar[str] = "demographic_disparity"
    label: ClassVar[str] = "Demographic disparity"
    needs: ClassVar[tuple[Need, ...]] = ("outputs", "labels")
    assumes: ClassVar[str] = "difference in predictions between overconfident rows and the others"
    paper: ClassVar[str] = "Creager et al., ICML 2021; Wenzel et al., NeurIPS 2022"

    def evaluate(self, view: ModelView) -> Score:
        slopes = scale_slopes(view.outputs, view.labels)
        first = first_environment(slopes)
        counts = np.stack([_class_counts(view, rows) for rows in (first, ~first)])
        sizes = counts.sum(axis=1)
        if not sizes.all():
            raise NotApplicable(
                "one environment is empty: the model is overconfident on no row, or on all rows"
            )
        drawn = bootstrap_counts(rng_for(view.view_source.seed, self.name), counts, N_REPLICATES)
        drawn = drawn[drawn.sum(axis=2).all(axis=1)]  # replicates without an empty environment
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
    """Return the derivative of each row's loss with respect to a factor w on its logits, at w = 1.

    With the logits z and the label y, the derivative is Σ_j p_j z_j − z_y. It does not change if a
    constant is added to the logits, so log-probabilities can be used instead of logits. It is
    positive on rows on which the model is overconfident.

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
        label_logits = z[np.arange(len(z)), labels[rows]]
        slopes[rows] = (weights * z).sum(axis=1) / weights.sum(axis=1) - label_logits
    return slopes


def first_environment(slopes: Floats) -> Bools:
    """Return which rows are in the first environment, namely those with a positive slope.

    This assignment maximizes the EIIL penalty. Let q_i in [0, 1] be the degree to which row i is in
    the first environment, and a = Σ q_i slope_i. The penalty a² + (Σ slope_i − a)² is convex in a,
    so it is largest at the largest or the smallest a. The largest a has q_i = 1 where slope_i > 0
    and q_i = 0 elsewhere. The smallest a has the opposite assignment, which only swaps the two
    environments.

    >>> first_environment(np.array([0.5, -2.0, 0.0]))
    array([ True, False, False])
    """
    return np.asarray(slopes > 0)


def environment_penalty(slopes: Floats, shares: Floats | Bools) -> float:
    """Return the EIIL penalty Σ_e (Σ_i q_i(e) slope_i / n)², summed over two environments e.

    `shares` are the degrees q_i to which the rows are in the first environment.

    >>> environment_penalty(np.array([1.0, -3.0]), np.array([True, False]))
    2.5
    """
    first = float(shares @ slopes)
    return (first**2 + (float(slopes.sum()) - first) ** 2) / len(slopes) ** 2


def _class_counts(view: ModelView, rows: Bools) -> Ints:
    return np.bincount(view.outputs.classes[rows], minlength=view.outputs.k)


def _rate_gaps(counts: Ints) -> Floats:
    """Return half the difference between the environments' class frequencies, (n, k).

    `counts` has shape (n, 2, k) and contains the numbers of rows per environment and class.
    """
    rates = counts / counts.sum(axis=2, keepdims=True)
    gaps: Floats = (rates[:, 0] - rates[:, 1]) / 2
    return gaps
