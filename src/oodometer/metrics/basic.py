"""Error, likelihood and calibration of a model on labelled data, each with a 95 % interval.

As in Wenzel et al., "Assaying Out-Of-Distribution Generalization in Transfer Learning", NeurIPS
2022.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from oodometer.core._metric_intervals import REPLICATES, between, of_sizes
from oodometer.core.calibration import calibration_error
from oodometer.core.errors import InputError
from oodometer.core.protocols import Need, Score
from oodometer.core.softmax_kernels import FLOOR
from oodometer.core.stats import Z95, draw_counts, stream, wilson
from oodometer.models.model_view import View

AO = "Wenzel et al., NeurIPS 2022"
# Rows of a bin are counted in so many parts of it: a thousandth of confidence apart.
PARTS = 100
# Below this many rows, what chance does in each bin adds up to much.
FEW = 1000


@dataclass(frozen=True)
class Error:
    """The share of wrong decisions; Wilson's interval.

    >>> from oodometer.core.predictions import Predictions
    >>> from oodometer.models.model_view import Given
    >>> said = Predictions.from_probs([[0.9, 0.1], [0.4, 0.6]], labels=[0, 0])
    >>> Error().score(View(Given("toy", outputs=said))).value
    0.5
    """

    name: ClassVar[str] = "error"
    label: ClassVar[str] = "Error"
    needs: ClassVar[tuple[Need, ...]] = ("outputs", "labels")
    assumes: ClassVar[str] = "how often the likeliest class is not the label"
    paper: ClassVar[str] = AO

    def score(self, view: View) -> Score:
        """1 − accuracy."""
        wrong = int(np.count_nonzero(view.labels != view.outputs.classes))
        return Score(wrong / view.n, *wilson(wrong, view.n))


@dataclass(frozen=True)
class NegativeLogLikelihood:
    """The mean of −log p_y in nats, no p_y below 1e-12; the normal interval of a mean."""

    name: ClassVar[str] = "nll"
    label: ClassVar[str] = "NLL"
    needs: ClassVar[tuple[Need, ...]] = ("outputs", "labels")
    assumes: ClassVar[str] = "how unlikely the model holds the labels to be"
    paper: ClassVar[str] = AO

    def score(self, view: View) -> Score:
        """The mean; what `squashed` makes of it is a fact."""
        labels, n = view.labels, view.n
        own = view.outputs.probs[np.arange(n), labels].astype(np.float64)
        losses = -np.log(np.maximum(own, FLOOR))
        value, floored = float(losses.mean()), np.count_nonzero(own < FLOOR)
        half = Z95 * float(losses.std(ddof=1)) / math.sqrt(n) if n > 1 else 0.0
        note = f"the labels of {floored:,} rows are less likely than {FLOOR:g}, and taken for that"
        return between(
            value,
            (value - half, value + half),
            most=math.inf,
            notes=(note,) if floored else (),
            facts={"squashed": squashed(value)},
        )


def squashed(nll: float) -> float:
    """The likelihood as factors are looked for in it, its extremes drawn in: 10 (1 − exp(−x / 10)).

    >>> squashed(0.0), round(squashed(1.0), 3), squashed(1e9)
    (0.0, 0.952, 10.0)
    """
    return 10.0 * -math.expm1(-nll / 10.0)


@dataclass(frozen=True)
class CalibrationError:
    """The mean gap of confidence and accuracy over equal-width bins: Σ_b |Σ_{i∈b} conf_i − right_i| / n.

    >>> from oodometer.core.predictions import Predictions
    >>> from oodometer.models.model_view import Given
    >>> said = Predictions.from_probs([[0.9, 0.1], [0.1, 0.9]], labels=[0, 0])
    >>> CalibrationError().score(View(Given("toy", outputs=said))).value
    0.4
    """

    bins: int = 10

    name: ClassVar[str] = "ece"
    label: ClassVar[str] = "ECE"
    needs: ClassVar[tuple[Need, ...]] = ("outputs", "labels")
    assumes: ClassVar[str] = "how far the confidence is from the accuracy of the rows that have it"
    paper: ClassVar[str] = AO

    def __post_init__(self) -> None:
        if self.bins < 1:
            raise InputError(f"bins must be 1 or more; got {self.bins}. 10 is usual.")

    def score(self, view: View) -> Score:
        """The error, and a word on its bias where there are few rows."""
        ends = self._interval(view)
        note = f"it comes out too high on few rows, and there are {view.n:,}"
        return between(
            calibration_error(view.outputs, self.bins), ends, notes=(note,) if view.n < FEW else ()
        )

    def _interval(self, view: View) -> tuple[float, float]:
        """Rows are drawn again by bin, by part of the bin, and by whether they are right."""
        right = view.labels == view.outputs.classes
        confidence = view.outputs.confidence
        bins = np.minimum((confidence * self.bins).astype(np.int64), self.bins - 1)
        parts = np.clip((confidence * self.bins - bins) * PARTS, 0, PARTS - 1).astype(np.int64)
        sorts, size = (bins * PARTS + parts) * 2 + right, self.bins * PARTS * 2
        counts = np.bincount(sorts, minlength=size)
        gaps = np.bincount(sorts, confidence - right.astype(np.float64), minlength=size)
        drawn = draw_counts(stream(view.given.seed, self.name), counts, REPLICATES)
        again = drawn * (gaps / np.maximum(counts, 1))
        found, replicates = (
            each.reshape(-1, self.bins, PARTS * 2).sum(axis=2) / view.n for each in (gaps, again)
        )
        return of_sizes(found[0], replicates)
