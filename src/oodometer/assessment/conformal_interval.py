"""Typical range: conformal interval from the errors of past estimates.

With past labelled domains (estimate, accuracy and, if known, estimator spread of each), the
conformal quantile of |estimate − accuracy| / spread, times the present spread, bounds the error of
the present estimate. It is valid if the present domain is exchangeable with the past ones.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from oodometer.core.array_types import Floats
from oodometer.core.errors import InputError
from oodometer.core.jsonable import fields_to_jsonable

CONFIDENCE_LEVEL = 0.95
# Lower limit of the spread: estimators may agree by chance and still be wrong.
MIN_SPREAD = 0.02
MIN_DOMAINS = 5
ASSUMES = "this domain is similar to (exchangeable with) those of the history"


@dataclass(frozen=True)
class ShiftInterval:
    """Typical range of the accuracy, at the `level` that the number of past domains allows.

    `bias` is the mean of estimate minus accuracy over the past domains.
    """

    low: float
    high: float
    level: float
    n_domains: int
    scaled_by_spread: bool
    bias: float

    def to_dict(self) -> dict[str, Any]:
        return {**fields_to_jsonable(self), "assumes": ASSUMES}


@dataclass(frozen=True, eq=False)
class History:
    """Past estimates with the accuracies that were measured later.

    Parameters
    ----------
    estimates : array of shape (n,)
        Estimated accuracy of each past domain, a fraction.
    truths : array of shape (n,)
        Measured accuracy of each past domain, a fraction.
    spreads : array of shape (n,), optional
        Difference between the highest and the lowest estimate of the compared methods.

    Raises
    ------
    InputError
        If values are not fractions, lengths differ, or there are fewer than five domains.

    Examples
    --------
    >>> history = History(np.full(19, 0.8), np.linspace(0.7, 0.79, 19))
    >>> typical_range = history.interval(0.6)
    >>> round(typical_range.low, 3), round(typical_range.high, 3), typical_range.level
    (0.5, 0.7, 0.95)
    """

    estimates: Floats
    truths: Floats
    spreads: Floats | None = None

    def __post_init__(self) -> None:
        for name, values in {"estimates": self.estimates, "truths": self.truths}.items():
            invalid = ~((values >= 0) & (values <= 1))
            if invalid.any():
                row = int(invalid.argmax())
                raise InputError(
                    f"{name} of the history must be fractions from 0 to 1; row {row} has "
                    f"{values[row]:g}."
                )
        if len(self.estimates) != len(self.truths):
            raise InputError(
                f"The history has {len(self.estimates)} estimates and {len(self.truths)} truths. "
                "Pass one of each per domain."
            )
        if len(self.estimates) < MIN_DOMAINS:
            raise InputError(
                f"The history has {len(self.estimates)} domains; at least {MIN_DOMAINS} are "
                "required. Add domains, or leave out the history."
            )

    def interval(self, estimate: float, spread: float | None = None) -> ShiftInterval:
        """Return the conformal interval around an estimate, scaled by spreads if all are known."""
        errors = np.abs(self.estimates - self.truths)
        scale = 1.0
        scaled_by_spread = self.spreads is not None and spread is not None
        if self.spreads is not None and spread is not None:
            errors = errors / np.maximum(self.spreads, MIN_SPREAD)
            scale = max(spread, MIN_SPREAD)
        n = len(errors)
        rank = min(math.ceil((n + 1) * CONFIDENCE_LEVEL), n)
        half = float(np.sort(errors)[rank - 1]) * scale
        return ShiftInterval(
            low=max(estimate - half, 0.0),
            high=min(estimate + half, 1.0),
            level=min(CONFIDENCE_LEVEL, n / (n + 1)),
            n_domains=n,
            scaled_by_spread=scaled_by_spread,
            bias=float((self.estimates - self.truths).mean()),
        )
