"""Error rate, negative log-likelihood and calibration error, each with a 95 % confidence interval.

The metrics are defined as in Wenzel et al., "Assaying Out-Of-Distribution Generalization in
Transfer Learning", NeurIPS 2022.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, TypeVar

import numpy as np

from oodometer.core.array_types import Floats
from oodometer.core.calibration import calibration_error
from oodometer.core.errors import out_of_range
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
# For the bootstrap of the calibration error, each bin is divided into this many sub-bins, and the
# rows per sub-bin are counted. With 10 bins, a sub-bin has a width of 0.001.
SUBBINS_PER_BIN = 100
# With fewer rows, sampling error makes the estimated calibration error clearly too high.
MIN_RELIABLE_ROWS = 1000


@dataclass(frozen=True)
class Error:
    """Error rate, which is 1 − accuracy, with a Wilson confidence interval.

    Examples
    --------
    >>> from oodometer.core.predictions import Predictions
    >>> from oodometer.models.model_view import ViewSource
    >>> outputs = Predictions.from_probs([[0.9, 0.1], [0.4, 0.6]], labels=[0, 0])
    >>> Error().evaluate(ModelView(ViewSource("toy", outputs=outputs))).value
    0.5
    """

    name: ClassVar[str] = "error"
    label: ClassVar[str] = "Error"
    needs: ClassVar[tuple[Need, ...]] = ("outputs", "labels")
    assumes: ClassVar[str] = "share of rows whose predicted class is not the label"
    paper: ClassVar[str] = WENZEL_2022

    def evaluate(self, view: ModelView) -> Score:
        n_wrong = int(np.count_nonzero(view.labels != view.outputs.classes))
        return Score(n_wrong / view.n, *wilson_interval(n_wrong, view.n))


@dataclass(frozen=True)
class NegativeLogLikelihood:
    """Mean of −log p_y in nats, where p_y is the predicted probability of the label.

    Probabilities below 1e-12 are replaced by 1e-12. The confidence interval is the normal
    approximation for a mean. The score has an additional fact `squashed`, which is `squash_nll` of
    the mean.

    Examples
    --------
    >>> from oodometer.core.predictions import Predictions
    >>> from oodometer.models.model_view import ViewSource
    >>> outputs = Predictions.from_probs([[0.5, 0.5], [0.5, 0.5]], labels=[0, 1])
    >>> nll = NegativeLogLikelihood().evaluate(ModelView(ViewSource("toy", outputs=outputs)))
    >>> round(nll.value, 4)
    0.6931
    """

    name: ClassVar[str] = "nll"
    label: ClassVar[str] = "NLL"
    needs: ClassVar[tuple[Need, ...]] = ("outputs", "labels")
    assumes: ClassVar[str] = "mean negative log-probability of the labels"
    paper: ClassVar[str] = WENZEL_2022

    def evaluate(self, view: ModelView) -> Score:
        n = view.n
        label_probs = view.outputs.probs[np.arange(n), view.labels].astype(np.float64)
        losses = -np.log(np.maximum(label_probs, MIN_PROBABILITY))
        value = float(losses.mean())
        half_width = Z95 * float(losses.std(ddof=1)) / math.sqrt(n) if n > 1 else 0.0
        n_clipped = np.count_nonzero(label_probs < MIN_PROBABILITY)
        note = f"the label probability of {n_clipped:,} rows was raised to {MIN_PROBABILITY:g}"
        return score_with_interval(
            value,
            (value - half_width, value + half_width),
            max_value=math.inf,
            notes=(note,) if n_clipped else (),
            facts={"squashed": float(squash_nll(value))},
        )


FloatOrArray = TypeVar("FloatOrArray", float, Floats)


def squash_nll(nll: FloatOrArray) -> FloatOrArray:
    """Return 10 · (1 − exp(−x / 10)), which is nearly x for small x and never exceeds 10.

    The factor analysis uses this value to limit the influence of extreme log-likelihoods.

    >>> squash_nll(np.array([0.0, 0.1, 1.0, 1e9])).round(3).tolist()
    [0.0, 0.1, 0.952, 10.0]
    """
    squashed: FloatOrArray = -10.0 * np.expm1(-nll / 10.0)
    return squashed


@dataclass(frozen=True)
class CalibrationError:
    """Expected calibration error over confidence bins, Σ_b |Σ_{i∈b} conf_i − correct_i| / n.

    Parameters
    ----------
    bins : int
        Number of confidence bins, which have equal width.

    Examples
    --------
    >>> from oodometer.core.predictions import Predictions
    >>> from oodometer.models.model_view import ViewSource
    >>> outputs = Predictions.from_probs([[0.9, 0.1], [0.1, 0.9]], labels=[0, 0])
    >>> CalibrationError().evaluate(ModelView(ViewSource("toy", outputs=outputs))).value
    0.4
    """

    bins: int = 10

    name: ClassVar[str] = "ece"
    label: ClassVar[str] = "ECE"
    needs: ClassVar[tuple[Need, ...]] = ("outputs", "labels")
    assumes: ClassVar[str] = "mean gap between confidence and accuracy over bins of confidence"
    paper: ClassVar[str] = WENZEL_2022

    def __post_init__(self) -> None:
        if self.bins < 1:
            raise out_of_range("bins", self.bins, low=1)

    def evaluate(self, view: ModelView) -> Score:
        interval = self._interval(view)
        note = (
            f"biased upwards on few rows (fewer than {MIN_RELIABLE_ROWS:,}); there are {view.n:,}"
        )
        return score_with_interval(
            calibration_error(view.outputs, self.bins),
            interval,
            notes=(note,) if view.n < MIN_RELIABLE_ROWS else (),
        )

    def _interval(self, view: ModelView) -> tuple[float, float]:
        """Return the bootstrap interval, from resampled counts per sub-bin and correctness."""
        correct = view.labels == view.outputs.classes
        confidence = view.outputs.confidence
        bins = np.minimum((confidence * self.bins).astype(np.int64), self.bins - 1)
        subbins = np.clip(
            (confidence * self.bins - bins) * SUBBINS_PER_BIN, 0, SUBBINS_PER_BIN - 1
        ).astype(np.int64)
        cells = (bins * SUBBINS_PER_BIN + subbins) * 2 + correct
        n_cells = self.bins * SUBBINS_PER_BIN * 2
        counts = np.bincount(cells, minlength=n_cells)
        gaps = np.bincount(cells, confidence - correct.astype(np.float64), minlength=n_cells)
        drawn = bootstrap_counts(rng_for(view.view_source.seed, self.name), counts, N_REPLICATES)
        drawn_gaps = drawn * (gaps / np.maximum(counts, 1))
        observed, replicates = (
            values.reshape(-1, self.bins, SUBBINS_PER_BIN * 2).sum(axis=2) / view.n
            for values in (gaps, drawn_gaps)
        )
        return absolute_sum_interval(observed[0], replicates)
