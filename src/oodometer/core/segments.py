"""Values of a segment column, made comparable."""

from __future__ import annotations

from oodometer.core.array_types import Array


def segment_values(values: Array) -> Array:
    """Numbers as they are, moments in time as days, all else as text: so segments are in order."""
    if values.dtype.kind == "M":
        return values.astype("datetime64[D]")
    return values if values.dtype.kind in "iuf" else values.astype(str)
