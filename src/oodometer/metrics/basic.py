"""Error, likelihood and calibration of a model on labelled data, each with a 95 % interval.

As in Wenzel et al., "Assaying Out-Of-Distribution Generalization in Transfer Learning", NeurIPS
2022.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, TypeVar

import numpy as np

from oodometer.core.array_types import Floats
from oodometer.core.calibration import calibration_error
from oodometer.core.errors import InputError
from oodometer.core.protocols import Need
from oodometer.core.results import Score
from oodometer.core.softmax_kernels import MIN_PROBABILITY
from oodometer.core.stats import (
    N_REPLICATES,
    Z95,
    absolute_sum_interval,
    bootstrap_counts,
    rng_for,
    score_with_interval,
    wilson_interval,
)
from oodometer.models.model_view import ModelView

WENZEL_2022 = "Wenzel et al., NeurIPS 2022"
# Rows of a bin are counted in so many parts of it: a thousandth of confidence apart.
SUBBINS_PER_BIN = 100
# Below this many rows, what chance does in each bin adds up to much.
MIN_RELIABLE_ROWS = 1000


@dataclass(frozen=True)
class Error:
    """The share of wrong decisions; Wilson's interval.

    >>> from oodometer.core.predictions import Predictions
    >>> from oodometer.models.model_view import ViewSource
    >>> said = Predictions.from_probs([[0.9, 0.1], [0.4, 0.6]], labels=[0, 0])
    >>> Error().evaluate(ModelView(ViewSource("toy", outputs=said))).value
    0.5
    """

    name: ClassVar[str] = "error"
    label: ClassVar[str] = "Error"
    needs: ClassVar[tuple[Need, ...]] = ("outputs", "labels")
    assumes: ClassVar[str] = "how often the likeliest class is not the label"
    paper: ClassVar[str] = WENZEL_2022

    def evaluate(self, view: ModelView) -> Score:
        """1 − accuracy."""
        wrong = int(np.count_nonzero(view.labels != view.outputs.classes))
        return Score(wrong / view.n, *wilson_interval(wrong, view.n))


@dataclass(frozen=True)
class NegativeLogLikelihood:
    """The mean of −log p_y in nats, no p_y below 1e-12; the normal interval of a mean."""

    name: ClassVar[str] = "nll"
    label: ClassVar[str] = "NLL"
    needs: ClassVar[tuple[Need, ...]] = ("outputs", "labels")
    assumes: ClassVar[str] = "how unlikely the model holds the labels to be"
    paper: ClassVar[str] = WENZEL_2022

    def evaluate(self, view: ModelView) -> Score:
        """The mean; what `squash_nll` makes of it is a fact."""
        labels, n = view.labels, view.n
        own = view.outputs.probs[np.arange(n), labels].astype(np.float64)
        losses = -np.log(np.maximum(own, MIN_PROBABILITY))
        value, floored = float(losses.mean()), np.count_nonzero(own < MIN_PROBABILITY)
        half = Z95 * float(losses.std(ddof=1)) / math.sqrt(n) if n > 1 else 0.0
        note = f"the labels of {floored:,} rows are less likely than {MIN_PROBABILITY:g}, and taken for that"
        return score_with_interval(
            value,
            (value - half, value + half),
            max_value=math.inf,
            notes=(note,) if floored else (),
            facts={"squashed": float(squash_nll(value))},
        )


FloatOrArray = TypeVar("FloatOrArray", float, Floats)


def squash_nll(nll: FloatOrArray) -> FloatOrArray:
    """Return 10 · (1 − exp(−x / 10)): nearly x where it is small, at most 10.

    >>> squash_nll(np.array([0.0, 0.1, 1.0, 1e9])).round(3).tolist()
    [0.0, 0.1, 0.952, 10.0]
    """
    squashed: FloatOrArray = -10.0 * np.expm1(-nll / 10.0)
    return squashed


@dataclass(frozen=True)
class CalibrationError:
    """The mean gap of confidence and accuracy over equal-width bins: Σ_b |Σ_{i∈b} conf_i − right_i| / n.

    >>> from oodometer.core.predictions import Predictions
    >>> from oodometer.models.model_view import ViewSource
    >>> said = Predictions.from_probs([[0.9, 0.1], [0.1, 0.9]], labels=[0, 0])
    >>> CalibrationError().evaluate(ModelView(ViewSource("toy", outputs=said))).value
    0.4
    """

    bins: int = 10

    name: ClassVar[str] = "ece"
    label: ClassVar[str] = "ECE"
    needs: ClassVar[tuple[Need, ...]] = ("outputs", "labels")
    assumes: ClassVar[str] = "how far the confidence is from the accuracy of the rows that have it"
    paper: ClassVar[str] = WENZEL_2022

    def __post_init__(self) -> None:
        if self.bins < 1:
            raise InputError(f"bins must be 1 or more; got {self.bins}. 10 is usual.")

    def evaluate(self, view: ModelView) -> Score:
        """The error, and a word on its bias where there are few rows."""
        ends = self._interval(view)
        note = f"it comes out too high on few rows, and there are {view.n:,}"
        return score_with_interval(
            calibration_error(view.outputs, self.bins),
            ends,
            notes=(note,) if view.n < MIN_RELIABLE_ROWS else (),
        )

    def _interval(self, view: ModelView) -> tuple[float, float]:
        """Rows are drawn again by bin, by part of the bin, and by whether they are right."""
        right = view.labels == view.outputs.classes
        confidence = view.outputs.confidence
        bins = np.minimum((confidence * self.bins).astype(np.int64), self.bins - 1)
        parts = np.clip(
            (confidence * self.bins - bins) * SUBBINS_PER_BIN, 0, SUBBINS_PER_BIN - 1
        ).astype(np.int64)
        sorts, size = (bins * SUBBINS_PER_BIN + parts) * 2 + right, self.bins * SUBBINS_PER_BIN * 2
        counts = np.bincount(sorts, minlength=size)
        gaps = np.bincount(sorts, confidence - right.astype(np.float64), minlength=size)
        drawn = bootstrap_counts(rng_for(view.view_source.seed, self.name), counts, N_REPLICATES)
        again = drawn * (gaps / np.maximum(counts, 1))
        found, replicates = (
            each.reshape(-1, self.bins, SUBBINS_PER_BIN * 2).sum(axis=2) / view.n
            for each in (gaps, again)
        )
        return absolute_sum_interval(found[0], replicates)
