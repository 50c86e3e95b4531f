"""An interval for shift: how far past estimates were from what later turned out to be true.

With past labelled domains (a row each: the estimate and the truth, and the spread of estimators
where it is known) the conformal quantile of |estimate − truth| / spread, times the spread here, is
as far as this estimate may be off. It holds as far as this domain is one more like those.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from oodometer.core.array_types import Floats
from oodometer.core.errors import InputError

CONFIDENCE_LEVEL = 0.95
# Estimators that happen to agree are no proof of truth: a spread counts as at least this.
MIN_SPREAD = 0.02
MIN_DOMAINS = 5
ASSUMES = "this domain is one more like those of the history"


@dataclass(frozen=True)
class ShiftInterval:
    """Where the accuracy is, if this domain is like past ones; `level` is what they can promise."""

    low: float
    high: float
    level: float
    n_domains: int
    scaled_by_spread: bool
    bias: float

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "low": self.low,
            "high": self.high,
            "level": self.level,
            "n_domains": self.n_domains,
            "scaled_by_spread": self.scaled_by_spread,
            "bias": self.bias,
            "assumes": ASSUMES,
        }


@dataclass(frozen=True, eq=False)
class History:
    """Past estimates with the truths that came later, and the spreads of estimators if known."""

    estimates: Floats
    truths: Floats
    spreads: Floats | None = None

    def __post_init__(self) -> None:
        sides = {"estimates": self.estimates, "truths": self.truths}
        for name, values in sides.items():
            bad = ~((values >= 0) & (values <= 1))
            if bad.any():
                row = int(bad.argmax())
                raise InputError(
                    f"{name} of the history are fractions from 0 to 1; row {row} has {values[row]:g}."
                )
        if len(self.estimates) != len(self.truths):
            raise InputError(
                f"The history has {len(self.estimates)} estimates and {len(self.truths)} truths; "
                "give one of each a domain."
            )
        if len(self.estimates) < MIN_DOMAINS:
            raise InputError(
                f"The history has {len(self.estimates)} domains; {MIN_DOMAINS} are the fewest that say "
                "anything. Leave --history out."
            )

    def interval(self, estimate: float, spread: float | None = None) -> ShiftInterval:
        """The conformal interval around an estimate.

        >>> past = History(np.full(19, 0.8), np.linspace(0.7, 0.79, 19))
        >>> found = past.interval(0.6)
        >>> round(found.low, 3), round(found.high, 3), found.level
        (0.5, 0.7, 0.95)
        """
        off = np.abs(self.estimates - self.truths)
        scaled = self.spreads is not None and spread is not None
        here = 1.0
        if self.spreads is not None and spread is not None:
            off = off / np.maximum(self.spreads, MIN_SPREAD)
            here = max(spread, MIN_SPREAD)
        n = len(off)
        rank = min(math.ceil((n + 1) * CONFIDENCE_LEVEL), n)
        half = float(np.sort(off)[rank - 1]) * here
        bias = float((self.estimates - self.truths).mean())
        level = min(CONFIDENCE_LEVEL, n / (n + 1))
        return ShiftInterval(
            max(estimate - half, 0.0), min(estimate + half, 1.0), level, n, scaled, bias
        )
