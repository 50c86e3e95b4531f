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

from oodometer.assessment.ppi import FEWEST
from oodometer.core.errors import InputError
from oodometer.core.softmax_kernels import Floats, Ints
from oodometer.core.stats import Z95, stream


@dataclass(frozen=True)
class Plan:
    """Rows to label for a wanted half-width of the 95 % interval.

    `needed` labels will do if scores are calibrated, `alone` are needed by labels alone, drawn at
    random; `saved` is the share between the two.
    """

    half_width: float
    rows: Ints
    needed: int
    alone: int

    @property
    def saved(self) -> float:
        """The share of labels that need not be bought."""
        return 1 - self.needed / self.alone if self.alone else 0.0

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "half_width": self.half_width,
            "needed": self.needed,
            "alone": self.alone,
            "saved": self.saved,
            "rows": self.rows.tolist(),
        }


def planned_labels(scores: Floats, *, half_width: float = 0.02, seed: int = 0) -> Plan:
    """How many labels an interval of that half-width needs, and of which rows.

    Right is a coin of the chance that the score says: labels alone have to fight θ(1 − θ), with
    scores only what they leave open, mean f(1 − f).

    >>> found = planned_labels(np.repeat([0.5, 1.0], 5000), half_width=0.02)
    >>> found.needed, found.alone, len(found.rows)
    (1201, 1801, 1201)
    """
    if not 0 < half_width < 0.5:
        hint = f" Did you mean {half_width / 100:g}?" if 1 <= half_width < 50 else ""
        raise InputError(
            f"half_width is a fraction above 0 and below 0.5; got {half_width:g}.{hint}"
        )
    share = float(scores.mean())
    needed = _labels(float((scores * (1 - scores)).mean()), half_width, len(scores))
    alone = _labels(share * (1 - share), half_width, len(scores))
    return Plan(half_width, stratified(scores, needed, seed), needed, max(alone, needed))


def _labels(variance: float, half_width: float, rows: int) -> int:
    """n with z² · variance / n = half-width²; no fewer than an interval can be made of."""
    return min(max(math.ceil(variance * (Z95 / half_width) ** 2), FEWEST), rows)


def stratified(scores: Floats, needed: int, seed: int) -> Ints:
    """Every so-manieth row in order of score, from a random one on; ties in random order."""
    rng = stream(seed, "labelling")
    order = np.lexsort((rng.random(len(scores)), scores))
    step = len(scores) / needed
    places = ((np.arange(needed) + rng.random()) * step).astype(np.int64)
    return np.sort(order[np.minimum(places, len(scores) - 1)])
