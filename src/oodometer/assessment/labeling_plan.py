"""Which rows to label, and how many, for an accuracy that is sure enough.

Rows are put in order of how sure the model is, and every so-manieth is taken from a random start on:
as many strata as labels. Every row has the same chance, so that no weights are needed later, and the
sample can't miss the unsure rows by bad luck.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from oodometer.assessment.ppi import MIN_LABELS
from oodometer.core.errors import InputError
from oodometer.core.softmax_kernels import Floats, Ints
from oodometer.core.stats import Z95, rng_for


@dataclass(frozen=True)
class LabelingPlan:
    """Rows to label for a wanted half-width of the 95 % interval.

    `n_labels` labels will do if scores are calibrated, `n_labels_without_scores` are needed by labels alone, drawn at
    random; `label_savings` is the share between the two.
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
            "needed": self.n_labels,
            "alone": self.n_labels_without_scores,
            "saved": self.label_savings,
            "rows": self.rows.tolist(),
        }


def plan_labels(scores: Floats, *, half_width: float = 0.02, seed: int = 0) -> LabelingPlan:
    """How many labels an interval of that half-width needs, and of which rows.

    Right is a coin of the chance that the score says: labels alone have to fight θ(1 − θ), with
    scores only what they leave open, mean f(1 − f).

    >>> found = plan_labels(np.repeat([0.5, 1.0], 5000), half_width=0.02)
    >>> found.n_labels, found.n_labels_without_scores, len(found.rows)
    (1201, 1801, 1201)
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
    """Every so-manieth row in order of score, from a random one on; ties in random order."""
    rng = rng_for(seed, "labelling")
    order = np.lexsort((rng.random(len(scores)), scores))
    step = len(scores) / n_labels
    places = ((np.arange(n_labels) + rng.random()) * step).astype(np.int64)
    return np.sort(order[np.minimum(places, len(scores) - 1)])
