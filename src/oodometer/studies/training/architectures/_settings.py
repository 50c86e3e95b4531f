"""Checks of architecture settings, and of the inputs that a network is built for."""

from __future__ import annotations

from typing import Annotated, Any

from oodometer.core.errors import InputError
from oodometer.studies._toml import Field, validate_fields
from oodometer.studies.training.architectures.base import Architecture, InputShape

DropoutRate = Annotated[float, Field(ge=0, lt=1)]


def check_settings(architecture: Any) -> None:
    """Raise if a setting has a wrong type or is outside the range in its annotation."""
    validate_fields(architecture, f"the architecture {architecture.name!r}")


def check_shape(architecture: Architecture, shape: InputShape) -> None:
    """Raise if the architecture does not accept the kind of inputs or there is only one class."""
    if shape.kind not in architecture.kinds:
        raise InputError(
            f"The architecture {architecture.name!r} accepts {' or '.join(architecture.kinds)}; "
            f"got {shape.kind}. Choose another architecture or another domain group."
        )
    if shape.classes < 2:
        raise InputError(
            f"A classifier needs at least two classes; got {shape.classes}. Name all classes of "
            "the domain group."
        )


def check_sides(architecture: Architecture, shape: InputShape, halvings: int) -> None:
    """Raise if the images are too small for a network that halves their sides `halvings` times."""
    _, height, width = shape.size
    if min(height, width) < 2**halvings:
        raise InputError(
            f"Images of {height} × {width} pixels are too small for the architecture "
            f"{architecture.name!r}, which halves their sides {halvings} times: the sides must be "
            f"at least {2**halvings} pixels. Lower the depth, or use larger images."
        )
