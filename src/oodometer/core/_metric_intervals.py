"""95 % intervals of metrics that are no plain shares.

Rows are drawn again by drawing how many there are of each sort, so that an interval costs about the
same for a million rows as for a thousand.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from oodometer.core.protocols import Score
from oodometer.core.softmax_kernels import Floats

# How often rows are drawn again.
N_REPLICATES = 200
# What is narrower than this is rounding.
MIN_INTERVAL_WIDTH = 1e-12


def interval_from_replicates(value: float, replicates: Floats) -> tuple[float, float]:
    """The ends for a value, from the values of rows drawn again: the wider of two ways.

    Percentiles miss where drawing again is biased, as F1 is in classes of few rows; percentiles of
    the errors, taken off the value, miss near the ends of what is possible.

    >>> interval_from_replicates(0.5, np.array([0.25, 0.5]))
    (0.25625, 0.74375)
    """
    low, high = np.quantile(replicates, (0.025, 0.975))
    return float(min(low, 2 * value - high)), float(max(high, 2 * value - low))


def absolute_sum_interval(parts: Floats, replicates: Floats) -> tuple[float, float]:
    """The ends for Σ |part|, from the parts of rows drawn again, (replicates, parts).

    Chance makes such a sum too large, and once more where rows are drawn from rows: percentiles
    would never reach down to a true 0. But by the triangle inequality the sum is too large by
    Σ |error| at most and too small by −Σ sign(part) · error at most, and both can be drawn.

    >>> absolute_sum_interval(np.array([0.5, -0.25]), np.array([[0.5, -0.25], [0.5, -0.25]]))
    (0.75, 0.75)
    """
    errors = replicates - parts
    above, below = np.abs(errors).sum(axis=1), -(errors @ np.sign(parts))
    value = np.abs(parts).sum()
    low, high = value - np.quantile(above, 0.975), value + np.quantile(below, 0.975)
    return float(low), float(high)


def score_with_interval(
    value: float,
    interval: tuple[float, float],
    *,
    max_value: float = 1.0,
    notes: tuple[str, ...] = (),
    facts: Mapping[str, float] | None = None,
) -> Score:
    """A score from 0 to `max_value` with its interval; with none where rows drawn again are all alike.

    >>> score_with_interval(0.75, (0.5, 1.25)).high, score_with_interval(1.0, (1.0, 1.0)).high
    (1.0, None)
    """
    low, high = interval
    if high - low > MIN_INTERVAL_WIDTH:
        return Score(value, max(low, 0.0), min(high, max_value), notes, facts or {})
    alike = "rows drawn again all give the same value, so there is no interval"
    return Score(value, notes=(*notes, alike), facts=facts or {})
