"""Mean and standard deviation over groups, with a count of the groups that have no answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class MeanStd:
    """The mean over groups, its standard deviation (ddof 1), and how many have none, by reason.

    >>> MeanStd.from_values([0.5, 0.7, "fewer than two models"])
    MeanStd(mean=0.6, sd=0.14142135623730948, groups=2, left_out={'fewer than two models': 1})
    """

    mean: float | None
    sd: float | None
    groups: int
    left_out: Mapping[str, int]

    @classmethod
    def from_values(cls, values_or_reasons: Iterable[float | str]) -> MeanStd:
        """Of a value a group, or the reason why a group has none."""
        told = list(values_or_reasons)
        values = np.array([one for one in told if not isinstance(one, str)], dtype=np.float64)
        reasons = Counter(one for one in told if isinstance(one, str))
        mean = float(values.mean()) if len(values) else None
        # Equal values have no deviation, whatever rounding makes of their mean.
        sd = (float(values.std(ddof=1)) if np.ptp(values) else 0.0) if len(values) > 1 else None
        return cls(mean, sd, len(values), dict(reasons))

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {"mean": self.mean, "sd": self.sd, "groups": self.groups,
                "left_out": dict(self.left_out)}  # fmt: skip
