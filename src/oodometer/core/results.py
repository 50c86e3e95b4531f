"""Results of estimators, measures and metrics: Estimate and Score."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from oodometer.core.errors import NotApplicable


@dataclass(frozen=True)
class Estimate:
    """A predicted accuracy, how sure it is, and of what.

    A value outside [0, 1] is clipped, and a note says so.

    >>> Estimate(1.25).value, Estimate(1.25).notes
    (1.0, ('the raw value 1.250 was clipped to [0, 1]',))
    """

    value: float
    method: str = ""
    low: float | None = None
    high: float | None = None
    assumes: str = ""
    temperature: float | None = None
    notes: tuple[str, ...] = ()
    facts: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        value = float(self.value)
        if not np.isfinite(value):
            raise NotApplicable(f"the estimate is {value}")
        clipped = min(max(value, 0.0), 1.0)
        if abs(clipped - value) > 1e-9:
            note = f"the raw value {value:.3f} was clipped to [0, 1]"
            object.__setattr__(self, "notes", (*self.notes, note))
        object.__setattr__(self, "value", clipped)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "method": self.method,
            "value": self.value,
            "low": self.low,
            "high": self.high,
            "assumes": self.assumes,
            "temperature": self.temperature,
            "notes": list(self.notes),
            "facts": {name: float(fact) for name, fact in self.facts.items()},
        }


@dataclass(frozen=True)
class Score:
    """A measure's or a metric's value in its own unit, and what must be said beside it.

    `low` and `high` are the ends of a 95 % interval where there is one; `facts` are numbers that
    came along, such as a bracket or how many rows were looked at; `by_class` is the value of every
    class, by its name.

    >>> Score(0.5, facts={"rows": 2}).to_dict()["facts"]
    {'rows': 2.0}
    """

    value: float
    low: float | None = None
    high: float | None = None
    notes: tuple[str, ...] = ()
    facts: Mapping[str, float] = field(default_factory=dict)
    by_class: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", float(self.value))
        if not np.isfinite(self.value):
            raise NotApplicable(f"the value is {self.value}")

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "value": self.value,
            "low": self.low,
            "high": self.high,
            "notes": list(self.notes),
            "facts": {name: float(fact) for name, fact in self.facts.items()},
            "by_class": {name: float(value) for name, value in self.by_class.items()},
        }
