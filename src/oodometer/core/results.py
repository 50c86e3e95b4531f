"""Results of estimators, measures, metrics and checks: Estimate, Score and Diagnostic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from oodometer.core.errors import NotApplicable
from oodometer.core.jsonable import fields_to_jsonable

Status = Literal["ok", "warning", "critical"]
# A status is shown by a shape and a word, not by a colour alone, for colour-blind readers.
STATUS_SHAPES: dict[str, str] = {"ok": "●", "warning": "▲", "critical": "■"}
STATUSES_WORST_FIRST: tuple[Status, ...] = ("critical", "warning", "ok")


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


@dataclass(frozen=True)
class Diagnostic:
    """Value of one check, its status, its meaning, and what to do if the status is not ok.

    `methods` are the methods that the check concerns; empty if it concerns all methods.
    """

    name: str
    value: float
    status: Status
    meaning: str
    advice: str = ""
    methods: tuple[str, ...] = ()

    def concerns(self, method: str) -> bool:
        """Return whether the check concerns the estimates of a method.

        >>> Diagnostic("borrowed_bins", 0.1, "warning", "m", methods=("im",)).concerns("ac")
        False
        """
        return not self.methods or method in self.methods

    @property
    def advice_text(self) -> str:
        """Return the advice, or "nothing" if the status is ok.

        >>> Diagnostic("d", 3.0, "ok", "errors", "label more rows").advice_text
        'nothing'
        """
        return "nothing" if self.status == "ok" else self.advice

    @property
    def formatted_value(self) -> str:
        """Return the value as text: large numbers as integers, others with three digits.

        >>> Diagnostic("d", 11890.0, "ok", "m").formatted_value
        '11,890'
        >>> Diagnostic("d", 0.0123, "critical", "m").formatted_value
        '0.0123'
        """
        is_count = 100 <= abs(self.value) < 1e15
        return f"{self.value:,.0f}" if is_count else f"{self.value:.3g}"

    def to_dict(self) -> dict[str, Any]:
        return fields_to_jsonable(self)


def status_by_limits(value: float, warning: float, critical: float) -> Status:
    """Return the status of a value for which larger is worse.

    >>> status_by_limits(0.15, 0.1, 0.2)
    'warning'
    """
    if value >= critical:
        return "critical"
    return "warning" if value >= warning else "ok"


def worst_status(diagnostics: Sequence[Diagnostic]) -> Status:
    """Return the worst status of the diagnostics, or ok if there are no diagnostics."""
    statuses = {diagnostic.status for diagnostic in diagnostics}
    return next((status for status in STATUSES_WORST_FIRST if status in statuses), "ok")
