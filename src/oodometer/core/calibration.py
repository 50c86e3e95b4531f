"""Temperature scaling and expected calibration error (Guo et al., ICML 2017)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np

from oodometer.core import softmax_kernels
from oodometer.core.array_types import Floats, Ints
from oodometer.core.errors import InputError, NotApplicable
from oodometer.core.predictions import Predictions

# Bounds of the temperature; `Temperature.at_bound` tells whether a fit ended at one of them.
MIN_TEMPERATURE = 0.05
MAX_TEMPERATURE = 20.0
# The first Newton steps use about this many rows; the last steps use all rows.
WARM_START_ROWS = 20_000
MAX_NEWTON_STEPS = 60


@dataclass(frozen=True)
class Temperature:
    """Fitted temperature, with the negative log-likelihood per row before and after the fit."""

    value: float
    nll_before: float
    nll_after: float
    converged: bool
    at_bound: bool


def fit_temperature(source: Predictions) -> Temperature:
    """Return the maximum-likelihood temperature, argmin_T Σ −log softmax(z/T)_y for logits z.

    The negative log-likelihood is convex in 1/T, so Newton steps within a shrinking bracket find
    the minimum.
    """
    if source.scores is None:
        raise NotApplicable(f"a temperature needs probabilities or logits, not {source.score_type}")
    if source.labels is None:
        raise InputError("A temperature is fitted to labels; the source has none.")
    sample = source.rows(slice(None, None, max(source.n // WARM_START_ROWS, 1)))
    start = 1.0 / MIN_TEMPERATURE
    if _nll_derivatives(sample, start)[1] > 0:
        start, _ = _newton(sample, 1.0, tolerance=1e-4)
    inverse, converged = _newton(source, start, tolerance=1e-7)
    at_lower_bound = inverse >= 1 / MIN_TEMPERATURE * (1 - 1e-6)
    at_upper_bound = inverse <= 1 / MAX_TEMPERATURE * (1 + 1e-6)
    return Temperature(
        value=1.0 / inverse,
        nll_before=_nll_derivatives(source, 1.0)[0],
        nll_after=_nll_derivatives(source, inverse)[0],
        converged=converged,
        at_bound=at_lower_bound or at_upper_bound,
    )


def _nll_derivatives(source: Predictions, inverse: float) -> tuple[float, float, float]:
    labels = cast(Ints, source.labels)
    return softmax_kernels.nll_derivatives(*source.require_scores("a temperature"), labels, inverse)


def _newton(source: Predictions, inverse: float, *, tolerance: float) -> tuple[float, bool]:
    """Return the 1/T at which the derivative is zero, and whether the iteration converged.

    If the model classifies every row correctly, the derivative is negative for every 1/T and rounds
    to zero when 1/T is large. A derivative of zero therefore moves the bracket to larger 1/T.
    """
    low = 1.0 / MAX_TEMPERATURE
    high = 1.0 / MIN_TEMPERATURE
    for _ in range(MAX_NEWTON_STEPS):
        _, slope, curvature = _nll_derivatives(source, inverse)
        if slope <= 0:
            low = inverse
        else:
            high = inverse
        candidate = inverse - slope / curvature if curvature > 0 else np.inf * -slope
        following = candidate if low < candidate < high else (low + high) / 2
        if abs(following - inverse) <= tolerance * inverse or high - low <= tolerance * low:
            return float(following), True
        inverse = float(following)
    return inverse, False


def bin_reliability(
    confidence: Floats, correct: Floats, bins: int = 10
) -> tuple[Floats, Floats, Floats]:
    """Return the share of rows, mean confidence and accuracy of equal-width bins of confidence."""
    index = np.minimum((confidence * bins).astype(np.int64), bins - 1)
    counts = np.bincount(index, minlength=bins)
    divisors = np.maximum(counts, 1)
    mean = np.bincount(index, weights=confidence, minlength=bins) / divisors
    accuracy = np.bincount(index, weights=correct, minlength=bins) / divisors
    return counts / len(confidence), mean, accuracy


def calibration_error(source: Predictions, bins: int = 10) -> float:
    """Return the expected calibration error: mean |confidence − accuracy| over equal-width bins.

    >>> calibration_error(Predictions.from_probs([[0.9, 0.1], [0.1, 0.9]], labels=[0, 0]))
    0.4
    """
    share, mean, accuracy = bin_reliability(source.confidence, source.correct.astype(float), bins)
    return float(np.dot(share, np.abs(mean - accuracy)))
