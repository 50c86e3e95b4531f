"""plan_labels(): how many rows to label for a given precision, and which.

Systematic sampling: rows are sorted by confidence and every k-th is selected from a random start, so
that there are as many strata as labels. Every row is selected with the same probability; no weights
are needed later.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from oodometer.assessment.ppi import MIN_LABELS, expected_correctness
from oodometer.core.array_types import Floats, Ints
from oodometer.core.errors import InputError
from oodometer.core.predictions import Predictions
from oodometer.core.stats import Z95, rng_for


@dataclass(frozen=True)
class LabelingPlan:
    """Rows to label for a wanted half-width of the 95 % interval.

    `n_labels` labels suffice if the scores are calibrated; simple random sampling would need
    `n_labels_without_scores`; `label_savings` is the share that is saved.
    """

    half_width: float
    rows: Ints
    n_labels: int
    n_labels_without_scores: int

    @property
    def label_savings(self) -> float:
        """The share of labels that need not be bought."""
        return (
            1 - self.n_labels / self.n_labels_without_scores
            if self.n_labels_without_scores
            else 0.0
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
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
    seed: int = 0,
) -> LabelingPlan:
    """Return how many rows to label for a confidence interval of a given half-width, and which.

    Parameters
    ----------
    target : Predictions
        Predictions on the unlabelled data.
    source : Predictions, optional
        Predictions on labelled data. The accuracy of its rows by confidence then replaces the
        confidences of the target, which are taken for calibrated otherwise.
    half_width : float
        Desired half-width of the 95 % confidence interval, a fraction above 0 and below 0.5.
    seed : int
        Random seed.

    Returns
    -------
    LabelingPlan
        Rows to label, their number, and the number that simple random sampling would need.

    Raises
    ------
    InputError
        If `half_width` is not a fraction above 0 and below 0.5.

    Examples
    --------
    >>> target = Predictions.from_confidence(np.repeat([0.5, 1.0], 5000), k=2)
    >>> found = plan_labels(target, half_width=0.02)
    >>> found.n_labels, found.n_labels_without_scores, len(found.rows)
    (1201, 1801, 1201)
    """
    scores = target.confidence.astype(float)
    if source is not None:
        scores = expected_correctness(source, target.reorder_classes(source.class_names))
    return plan_from_scores(scores, half_width=half_width, seed=seed)


def plan_from_scores(scores: Floats, *, half_width: float = 0.02, seed: int = 0) -> LabelingPlan:
    """Plan from the probability that each row is classified correctly.

    A row is correct with the probability f that its score states: simple random sampling has the
    variance θ(1 − θ), labels together with scores have mean f(1 − f).
    """
    if not 0 < half_width < 0.5:
        hint = f" Did you mean {half_width / 100:g}?" if 1 <= half_width < 50 else ""
        raise InputError(
            f"half_width is a fraction above 0 and below 0.5; got {half_width:g}.{hint}"
        )
    share = float(scores.mean())
    needed = _required_labels(float((scores * (1 - scores)).mean()), half_width, len(scores))
    alone = _required_labels(share * (1 - share), half_width, len(scores))
    return LabelingPlan(
        half_width, systematic_sample(scores, needed, seed), needed, max(alone, needed)
    )


def _required_labels(variance: float, half_width: float, n_rows: int) -> int:
    """n with z² · variance / n = half-width²; no fewer than an interval can be made of."""
    return min(max(math.ceil(variance * (Z95 / half_width) ** 2), MIN_LABELS), n_rows)


def systematic_sample(scores: Floats, n_labels: int, seed: int) -> Ints:
    """Select every k-th row in order of score, from a random start; ties in random order."""
    rng = rng_for(seed, "labelling")
    order = np.lexsort((rng.random(len(scores)), scores))
    step = len(scores) / n_labels
    places = ((np.arange(n_labels) + rng.random()) * step).astype(np.int64)
    return np.sort(order[np.minimum(places, len(scores) - 1)])
