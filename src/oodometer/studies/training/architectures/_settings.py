"""What the settings of an architecture must be, and what inputs it can be built for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

from oodometer.core.errors import InputError
from oodometer.studies.training.architectures.base import Architecture, InputShape

POOLINGS = ("mean", "cls")


def check_settings(architecture: Any) -> None:
    """Refuse a setting that is out of its range; what the range is hangs on its name alone."""
    for one in fields(architecture):
        holds, right = _RULES[one.name]
        value = getattr(architecture, one.name)
        if not holds(value):
            raise InputError(
                f"{one.name} of the architecture {architecture.name!r} must be {right}; got "
                f"{value!r}. Change it in the settings of the recipe."
            )


def check_shape(architecture: Architecture, shape: InputShape) -> None:
    """Refuse inputs of a kind that the architecture does not take, and fewer than two classes."""
    if shape.kind not in architecture.kinds:
        raise InputError(
            f"The architecture {architecture.name!r} takes {' or '.join(architecture.kinds)}; got "
            f"{shape.kind}. Choose another architecture, or another domain group."
        )
    if shape.classes < 2:
        raise InputError(
            f"A classifier has two classes or more; got {shape.classes}. Name all classes of the "
            "domain group."
        )


def check_sides(architecture: Architecture, shape: InputShape, halvings: int) -> None:
    """Refuse images of which nothing is left when their sides are halved so many times."""
    _, height, width = shape.size
    if min(height, width) < 2**halvings:
        raise InputError(
            f"Images of {height} × {width} pixels are too small for the architecture "
            f"{architecture.name!r}, which halves their sides {halvings} times: they must be "
            f"{2**halvings} or more. Lower its depth, or give larger images."
        )


def _is_positive_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _is_fraction(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1


_POSITIVE_INT_RULE = (_is_positive_int, "a whole number, 1 or more")
_RULES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "width": _POSITIVE_INT_RULE,
    "depth": _POSITIVE_INT_RULE,
    "embedding": _POSITIVE_INT_RULE,
    "hidden": _POSITIVE_INT_RULE,
    "vocabulary": _POSITIVE_INT_RULE,
    "length": _POSITIVE_INT_RULE,
    "dropout": (_is_fraction, "a number from 0 to below 1"),
    "batch_norm": (lambda value: isinstance(value, bool), "true or false"),
    "folder": (lambda value: isinstance(value, str) and bool(value), "the path of a folder"),
    "pooling": (lambda value: value in POOLINGS, " or ".join(map(repr, POOLINGS))),
}
