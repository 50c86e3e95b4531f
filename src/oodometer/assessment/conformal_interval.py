"""Typical range: conformal interval from the errors of past estimates.

For each past domain, the estimate and the accuracy are known, and possibly the spread, which is the
difference between the highest and the lowest estimate of several methods. The past errors
|estimate − accuracy| are divided by the spread of their domain. The conformal quantile of these
ratios, multiplied by the present spread, bounds the error of the present estimate. The bound is
valid if the present domain is exchangeable with the past domains.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from oodometer.core.array_types import Floats
from oodometer.core.errors import InputError
from oodometer.core.jsonable import fields_to_jsonable
from oodometer.core.predictions import Predictions

CONFIDENCE_LEVEL = 0.95
# Smaller spreads are replaced by this value, because estimators may agree by chance and be wrong.
MIN_SPREAD = 0.02
MIN_DOMAINS = 5
ASSUMES = "this domain is similar to (exchangeable with) those of the history"
REFERENCE_ASSUMES = (
    "this case is similar to (exchangeable with) the reference cases of other suites"
)


@dataclass(frozen=True)
class ShiftInterval:
    """Typical range of the accuracy.

    `level` is the coverage of the interval, which depends on the number of past domains if there are
    no reference cases. `bias` is the mean of estimate minus accuracy over the past domains.
    `n_suites` is the number of suites of reference cases that were used, `n_source_batches` the
    number of batches of the source, `correction` what was added to the estimate because the past
    estimates were consistently too high or too low, `too_high_share` the share of similar reference
    cases whose estimate was too high, and `expected_error` the size of the error that the reference
    cases predict.
    """

    low: float
    high: float
    level: float
    n_domains: int
    scaled_by_spread: bool
    bias: float
    n_suites: int = 0
    n_source_batches: int = 0
    correction: float = 0.0
    too_high_share: float | None = None
    expected_error: float | None = None

    @property
    def assumes(self) -> str:
        """Return under which assumption the range is valid."""
        if self.n_suites and self.n_domains:
            return f"{ASSUMES}, or to the reference cases"
        return REFERENCE_ASSUMES if self.n_suites else ASSUMES

    def to_dict(self) -> dict[str, Any]:
        return {**fields_to_jsonable(self), "assumes": self.assumes}


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
        Difference between the highest and the lowest estimate of several methods in each past
        domain.
    expected_errors : array of shape (n,), optional
        Size of the error that was predicted for each past domain: `shift.expected_error` of its
        assessment. Past domains with a similar value count more in the typical range.

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
    expected_errors: Floats | None = None

    def __post_init__(self) -> None:
        columns = {"estimates": self.estimates, "truths": self.truths}
        if self.expected_errors is not None:
            columns["expected_errors"] = self.expected_errors
        for name, values in columns.items():
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
        """Return the conformal interval around an estimate.

        Errors are scaled by the spreads if the past spreads and the present spread are known.
        """
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


# Past domains: their estimates and accuracies, or labelled predictions.
HistoryInput = History | Sequence[Predictions] | None
