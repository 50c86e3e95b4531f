"""plan_labels(): how many rows to label for a given precision, and which rows.

Rows are selected by systematic sampling: they are sorted by confidence, and every k-th row is
selected from a random start. This is like stratified sampling with one label per stratum. Every row
has the same probability of being selected, so the labels need no weights.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from oodometer.assessment.ppi import MIN_LABELS, expected_correctness
from oodometer.core.array_types import Floats, Ints
from oodometer.core.errors import InputError, out_of_range
from oodometer.core.predictions import Predictions
from oodometer.core.stats import Z95, rng_for


@dataclass(frozen=True)
class LabelingPlan:
    """Rows to label for a given half-width of the 95 % confidence interval.

    Parameters
    ----------
    half_width : float
        Half-width of the 95 % confidence interval, a fraction.
    rows : array of int
        Numbers of the rows to label, in ascending order. The first row has number 0.
    n_labels : int
        Number of labels that is sufficient if the scores are calibrated.
    n_labels_without_scores : int
        Number of labels that simple random sampling would need.

    Examples
    --------
    >>> LabelingPlan(0.02, np.array([3, 7]), n_labels=2, n_labels_without_scores=4).label_savings
    0.5
    """

    half_width: float
    rows: Ints
    n_labels: int
    n_labels_without_scores: int

    @property
    def label_savings(self) -> float:
        """Return the share of labels that is saved compared with simple random sampling."""
        if not self.n_labels_without_scores:
            return 0.0
        return 1 - self.n_labels / self.n_labels_without_scores

    def to_dict(self) -> dict[str, Any]:
        return {
            "half_width": self.half_width,
            "n_labels": self.n_labels,
            "n_labels_without_scores": self.n_labels_without_scores,
            "label_savings": self.label_savings,
            "rows": self.rows.tolist(),
        }


def plan_labels(
    target: Predictions,
    *,
    source: Predictions | None = None,
    half_width: float = 0.02,
    n_labels: int | None = None,
    seed: int = 0,
) -> LabelingPlan:
    """Return how many and which rows to label for a confidence interval of a given half-width.

    Parameters
    ----------
    target : Predictions
        Predictions on the unlabelled data.
    source : Predictions, optional
        Predictions on labelled data, to calibrate the confidences of the target. Without a source
        the confidences are assumed to be calibrated.
    half_width : float
        Desired half-width of the 95 % confidence interval, a fraction above 0 and below 0.5.
    n_labels : int, optional
        Number of rows to label. The half-width of the plan is then the one that this number of
        labels gives, and `half_width` is not used.
    seed : int
        Random seed.

    Returns
    -------
    LabelingPlan
        Rows to label, their number, and the number of labels that simple random sampling would
        need.

    Raises
    ------
    InputError
        If `half_width` is not a fraction above 0 and below 0.5, or `n_labels` is below 1.

    Examples
    --------
    >>> target = Predictions.from_confidence(np.repeat([0.5, 1.0], 5000), k=2)
    >>> plan = plan_labels(target, half_width=0.02)
    >>> plan.n_labels, plan.n_labels_without_scores, len(plan.rows)
    (1201, 1801, 1201)
    """
    scores = target.confidence.astype(float)
    if source is not None:
        scores = expected_correctness(source, target.reorder_classes(source.class_names))
    if n_labels is not None:
        return _plan_of_size(scores, n_labels, seed)
    return plan_from_scores(scores, half_width=half_width, seed=seed)


def _plan_of_size(scores: Floats, n_labels: int, seed: int) -> LabelingPlan:
    """Return a plan of a given number of labels."""
    if n_labels < 1:
        raise out_of_range("n_labels", n_labels, low=1)
    count = min(n_labels, len(scores))
    deviation = math.sqrt(float((scores * (1 - scores)).mean()) / count)
    half_width = min(max(Z95 * deviation, 1e-6), 0.499)
    mean = float(scores.mean())
    return LabelingPlan(
        half_width=half_width,
        rows=systematic_sample(scores, count, seed),
        n_labels=count,
        n_labels_without_scores=max(
            _required_labels(mean * (1 - mean), half_width, len(scores)), count
        ),
    )


def plan_from_scores(scores: Floats, *, half_width: float = 0.02, seed: int = 0) -> LabelingPlan:
    """Return the plan for rows, given the probability f of each row that the model is correct.

    For simple random sampling, the variance per label is θ(1 − θ), where θ is the mean of f. If
    labels are combined with the scores f, the variance per label is the mean of f(1 − f).
    """
    if not 0 < half_width < 0.5:
        hint = f" Did you mean {half_width / 100:g}?" if 1 <= half_width < 50 else ""
        raise InputError(
            f"half_width must be a fraction above 0 and below 0.5; got {half_width:g}.{hint}"
        )
    mean = float(scores.mean())
    n_labels = _required_labels(float((scores * (1 - scores)).mean()), half_width, len(scores))
    n_without_scores = _required_labels(mean * (1 - mean), half_width, len(scores))
    return LabelingPlan(
        half_width=half_width,
        rows=systematic_sample(scores, n_labels, seed),
        n_labels=n_labels,
        n_labels_without_scores=max(n_without_scores, n_labels),
    )


def labels_for_accuracy(accuracy: float, n_rows: int, half_width: float = 0.03) -> int:
    """Return how many of `n_rows` rows to label for a given half-width, without using scores.

    >>> labels_for_accuracy(0.9, 5000)
    385
    """
    return _required_labels(accuracy * (1 - accuracy), half_width, n_rows)


def _required_labels(variance: float, half_width: float, n_rows: int) -> int:
    """Return n with z² · variance / n = half_width², at least `MIN_LABELS` and at most `n_rows`."""
    return min(max(math.ceil(variance * (Z95 / half_width) ** 2), MIN_LABELS), n_rows)


def systematic_sample(scores: Floats, n_labels: int, seed: int) -> Ints:
    """Select every k-th row by score, from a random start; order rows of equal score at random."""
    rng = rng_for(seed, "labelling")
    order = np.lexsort((rng.random(len(scores)), scores))
    step = len(scores) / n_labels
    ranks = ((np.arange(n_labels) + rng.random()) * step).astype(np.int64)
    return np.sort(order[np.minimum(ranks, len(scores) - 1)])
