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
REPLICATES = 200
# What is narrower than this is rounding.
ROUNDING = 1e-12


def of_replicates(value: float, drawn: Floats) -> tuple[float, float]:
    """The ends for a value, from the values of rows drawn again: the wider of two ways.

    Percentiles miss where drawing again is biased, as F1 is in classes of few rows; percentiles of
    the errors, taken off the value, miss near the ends of what is possible.

    >>> of_replicates(0.5, np.array([0.25, 0.5]))
    (0.25625, 0.74375)
    """
    low, high = np.quantile(drawn, (0.025, 0.975))
    return float(min(low, 2 * value - high)), float(max(high, 2 * value - low))


def of_sizes(parts: Floats, drawn: Floats) -> tuple[float, float]:
    """The ends for Σ |part|, from the parts of rows drawn again, (replicates, parts).

    Chance makes such a sum too large, and once more where rows are drawn from rows: percentiles
    would never reach down to a true 0. But by the triangle inequality the sum is too large by
    Σ |error| at most and too small by −Σ sign(part) · error at most, and both can be drawn.

    >>> of_sizes(np.array([0.5, -0.25]), np.array([[0.5, -0.25], [0.5, -0.25]]))
    (0.75, 0.75)
    """
    errors = drawn - parts
    above, below = np.abs(errors).sum(axis=1), -(errors @ np.sign(parts))
    value = np.abs(parts).sum()
    low, high = value - np.quantile(above, 0.975), value + np.quantile(below, 0.975)
    return float(low), float(high)


def between(
    value: float,
    ends: tuple[float, float],
    *,
    most: float = 1.0,
    notes: tuple[str, ...] = (),
    facts: Mapping[str, float] | None = None,
) -> Score:
    """A score from 0 to `most` with its interval; with none where rows drawn again are all alike.

    >>> between(0.75, (0.5, 1.25)).high, between(1.0, (1.0, 1.0)).high
    (1.0, None)
    """
    low, high = ends
    if high - low > ROUNDING:
        return Score(value, max(low, 0.0), min(high, most), notes, facts or {})
    alike = "rows drawn again all give the same value, so there is no interval"
    return Score(value, notes=(*notes, alike), facts=facts or {})
