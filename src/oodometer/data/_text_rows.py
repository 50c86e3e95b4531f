"""Texts and pairs of texts, from lists."""

from __future__ import annotations

from typing import Any

import numpy as np

from oodometer.core.errors import InputError
from oodometer.data.options import RawRows, validate_labels

TextFields = tuple[str | None, ...]


def are_texts(rows: list[Any]) -> bool:
    """Whether the first row that holds anything holds a text, or two."""
    return _texts_per_row(rows) > 0


def read_texts(rows: list[Any], labels: Any) -> RawRows:
    """Texts, or pairs of texts; those that are missing or blank are bad rows."""
    width = _texts_per_row(rows)
    sides = [_row_texts(row, at, width) for at, row in enumerate(rows)]
    bad = np.array([not all(side and side.strip() for side in row) for row in sides], np.bool_)
    texts = [row[0] for row in sides] if width == 1 else sides
    first = int(np.argmax(bad)) if bad.any() else 0
    lacks = "no text" if None in sides[first] else "an empty text"
    return RawRows(texts, validate_labels(labels, len(rows)), bad, f"row {first} has {lacks}")


def _texts_per_row(rows: list[Any]) -> int:
    """1 of texts, 2 of pairs, 0 of anything else, by the first row that holds anything."""
    for row in rows:
        if isinstance(row, str):
            return 1
        if not _is_missing(row):
            return 2 if _may_be_pair(row) else 0
    return 0


def _row_texts(row: Any, row_number: int, width: int) -> TextFields:
    if _is_missing(row):
        return (None,) * width
    if width == 1 and isinstance(row, str):
        return (row,)
    if width == 2 and _may_be_pair(row):
        return tuple(side if isinstance(side, str) else None for side in row)
    what = "a text" if width == 1 else "a pair of texts"
    raise InputError(
        f"Row {row_number} is not {what}, as those before it are, but {type(row).__name__} {row!r:.40}. "
        "Give strings only, or pairs of strings only."
    )


def _may_be_pair(row: Any) -> bool:
    """Two texts, of which one may be missing."""
    if not (isinstance(row, tuple | list) and len(row) == 2):
        return False
    there = [side for side in row if not _is_missing(side)]
    return bool(there) and all(isinstance(side, str) for side in there)


def _is_missing(value: Any) -> bool:
    """None, or the not-a-number that stands for it in a data frame."""
    return value is None or (isinstance(value, float) and value != value)
