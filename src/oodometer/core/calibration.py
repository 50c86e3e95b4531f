"""Temperature scaling (Guo et al. 2017) and calibration error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np

from oodometer.core import softmax_kernels
from oodometer.core.array_types import Floats, Ints
from oodometer.core.errors import InputError, NotApplicable
from oodometer.core.predictions import Predictions

# The range that a temperature is looked for in; one that ends at a bound is reported.
MIN_TEMPERATURE, MAX_TEMPERATURE = 0.05, 20.0
# Newton's first steps run on this many rows; the last ones on all.
WARM_START_ROWS = 20_000


@dataclass(frozen=True)
class Temperature:
    """A fitted temperature, and whether the fit can be believed."""

    value: float
    nll_before: float
    nll_after: float
    converged: bool
    at_bound: bool


def fit_temperature(source: Predictions) -> Temperature:
    """The T that makes the labels of the source most likely, min_T Σ −log softmax(z/T)_y.

    The likelihood is convex in 1/T: Newton steps, kept inside a shrinking bracket.
    """
    if source.scores is None:
        raise NotApplicable(f"a temperature needs probabilities or logits, not {source.score_type}")
    if source.labels is None:
        raise InputError("A temperature is fitted to labels; the source has none.")
    small = source.rows(slice(None, None, max(source.n // WARM_START_ROWS, 1)))
    start = 1.0 / MIN_TEMPERATURE
    if _nll_derivatives(small, start)[1] > 0:
        start, _ = _newton(small, 1.0, tolerance=1e-4)
    inverse, converged = _newton(source, start, tolerance=1e-7)
    before, after = (_nll_derivatives(source, b)[0] for b in (1.0, inverse))
    at_bound = inverse <= 1 / MAX_TEMPERATURE * (1 + 1e-6) or inverse >= 1 / MIN_TEMPERATURE * (
        1 - 1e-6
    )
    return Temperature(1.0 / inverse, before, after, converged, at_bound)


def _nll_derivatives(source: Predictions, inverse: float) -> tuple[float, float, float]:
    labels = cast(Ints, source.labels)
    return softmax_kernels.nll_derivatives(*source.require_scores("a temperature"), labels, inverse)


def _newton(source: Predictions, inverse: float, *, tolerance: float) -> tuple[float, bool]:
    """The 1/T where the slope is zero, and whether it was reached.

    Where every label has the largest score the slope is negative throughout, and so small from
    somewhere on that it is computed as zero: that still points to the lowest temperature.
    """
    low, high = 1.0 / MAX_TEMPERATURE, 1.0 / MIN_TEMPERATURE
    for _ in range(60):
        _, slope, curvature = _nll_derivatives(source, inverse)
        low, high = (inverse, high) if slope <= 0 else (low, inverse)
        step = inverse - slope / curvature if curvature > 0 else np.inf * -slope
        following = step if low < step < high else (low + high) / 2
        if abs(following - inverse) <= tolerance * inverse or high - low <= tolerance * low:
            return float(following), True
        inverse = float(following)
    return inverse, False


def bin_reliability(
    confidence: Floats, correct: Floats, bins: int = 10
) -> tuple[Floats, Floats, Floats]:
    """Share of rows, mean confidence and accuracy in equal-width bins; 0 share where empty."""
    index = np.minimum((confidence * bins).astype(np.int64), bins - 1)
    count = np.bincount(index, minlength=bins)
    filled = np.maximum(count, 1)
    mean = np.bincount(index, weights=confidence, minlength=bins) / filled
    accuracy = np.bincount(index, weights=correct, minlength=bins) / filled
    return count / len(confidence), mean, accuracy


def calibration_error(source: Predictions, bins: int = 10) -> float:
    """Expected calibration error: mean gap of confidence and accuracy over equal-width bins.

    >>> calibration_error(Predictions.from_probs([[0.9, 0.1], [0.1, 0.9]], labels=[0, 0]))
    0.4
    """
    share, mean, accuracy = bin_reliability(source.confidence, source.correct.astype(float), bins)
    return float(np.dot(share, np.abs(mean - accuracy)))
