"""Segments: values of the column by which an estimate is split."""

from __future__ import annotations

from oodometer.core.array_types import Array


def segment_values(values: Array) -> Array:
    """Return values that can be sorted: numbers unchanged, times as days, all others as text."""
    if values.dtype.kind == "M":
        return values.astype("datetime64[D]")
    return values if values.dtype.kind in "iuf" else values.astype(str)
