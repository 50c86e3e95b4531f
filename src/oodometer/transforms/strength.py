"""Strength of the draws of a transform: at most the magnitude, or exactly the magnitude.

`"up_to"` draws the strength of each change at random, up to the magnitude. This is the set of
transforms with m(g) < r of Ng et al. (TMLR 2023). `"fixed"` applies the magnitude itself, as the
preprint of 2022 (local manifold smoothness, appendix A.5) and the authors of RandAugment do.
"""

from __future__ import annotations

import math
from dataclasses import fields, is_dataclass, replace
from typing import Any, Literal, get_args

from oodometer.core.errors import InputError

Strength = Literal["up_to", "fixed"]
STRENGTHS: tuple[Strength, ...] = get_args(Strength)
# Rounding can make the product of a fraction and a count slightly too small or too large:
# 0.29 * 100 < 29, and 0.1 * 30 > 3.
_ROUNDING_TOLERANCE = 1e-9


def check_strength(transform: Any) -> None:
    """Raise InputError unless the setting `strength` has one of the allowed values."""
    if transform.strength not in STRENGTHS:
        allowed = " or ".join(map(repr, STRENGTHS))
        raise InputError(
            f"The strength of {transform.name} must be {allowed}; got {transform.strength!r}."
        )


def at_fixed_strength(transform: Any) -> Any:
    """Return a copy at fixed strength; a transform without the setting is returned as it is."""
    settings = {f.name for f in fields(transform)} if is_dataclass(transform) else set()
    return replace(transform, strength="fixed") if "strength" in settings else transform


def draw_change_count(share: float, n: int, uniform: float, *, strength: Strength = "up_to") -> int:
    """Return the number of items to change among n.

    With the strength "up_to", the number is uniform in 1 … max(1, ⌊share · n⌋); `uniform` is a
    random number between 0 and 1 that determines it. With "fixed", the number is ⌈share · n⌉.

    >>> draw_change_count(0.1, 30, 0.0), draw_change_count(0.1, 30, 0.99), draw_change_count(0.1, 4, 0.99)
    (1, 3, 1)
    >>> [draw_change_count(0.1, n, 0.0, strength="fixed") for n in (0, 1, 30, 31)]
    [0, 1, 3, 4]
    """
    if strength == "fixed":
        return math.ceil(share * n - _ROUNDING_TOLERANCE)
    return 1 + int(uniform * max(1, int(share * n + _ROUNDING_TOLERANCE)))
