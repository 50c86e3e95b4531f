"""Results of estimators, measures and metrics: Estimate and Score."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from oodometer.core.errors import NotApplicable
from oodometer.core.jsonable import fields_to_jsonable


@dataclass(frozen=True)
class Estimate:
    """Estimated accuracy with its confidence interval.

    Parameters
    ----------
    value : float
        Estimated accuracy. A value outside [0, 1] is clipped, and a note says so.
    method : str
        Name of the estimator.
    low, high : float, optional
        Bounds of the 95 % confidence interval.
    assumes : str
        Assumption under which the estimate is correct.
    temperature : float, optional
        Temperature by which the predictions were calibrated; None if they were not calibrated.
    notes : tuple of str
        Remarks for the user.
    facts : mapping of str to float
        Further numbers that the method reports, by name.
    calibration : str
        How the scores were calibrated: "none", "temperature", "isotonic", "beta" or "platt".

    Raises
    ------
    NotApplicable
        If the value is not finite.

    Examples
    --------
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
    calibration: str = ""

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
        facts = {name: float(fact) for name, fact in self.facts.items()}
        return {"method": self.method, **fields_to_jsonable(self), "facts": facts}


@dataclass(frozen=True)
class Score:
    """Value of a measure or metric, in its own unit.

    Parameters
    ----------
    value : float
        The value.
    low, high : float, optional
        Bounds of the 95 % confidence interval.
    notes : tuple of str
        Remarks for the user.
    facts : mapping of str to float
        Further numbers by name, such as the number of rows used.
    by_class : mapping of str to float
        Value per class, by class name.

    Raises
    ------
    NotApplicable
        If the value is not finite.

    Examples
    --------
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
        facts = {name: float(fact) for name, fact in self.facts.items()}
        by_class = {name: float(value) for name, value in self.by_class.items()}
        return {**fields_to_jsonable(self), "facts": facts, "by_class": by_class}
