"""Validation of a transform's magnitude."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any

from oodometer.core.errors import InputError
from oodometer.core.protocols import Transform


def check_magnitude(transform: Transform, maximum: float = math.inf) -> None:
    """Raise InputError unless the magnitude is a finite number from 0 to `maximum`."""
    magnitude: Any = transform.magnitude
    if isinstance(magnitude, Real):
        number = float(magnitude)
        if math.isfinite(number) and 0 <= number <= maximum:
            return
    limits = f"from 0 to {maximum:g}" if math.isfinite(maximum) else "of at least 0"
    raise InputError(
        f"The magnitude of {transform.name} must be a number {limits}; got {magnitude!r}. "
        f"The published value is {type(transform).magnitude:g}."
    )
