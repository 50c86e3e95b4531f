"""Numbers, counts and durations as text."""

from __future__ import annotations

from collections.abc import Sequence

# Drawing fewer rows again hardly shows what other rows would have said.
MIN_RELIABLE_ROWS = 30


def format_number(value: float | None, digits: int = 3) -> str:
    """A number as a table has it, with a true minus sign.

    >>> format_number(-0.25, 2), format_number(None), format_number(-12345.6), format_number(12.3456)
    ('−0.25', '–', '−12,346', '12.3')
    """
    if value is None:
        return "–"
    size = abs(value)
    digits = 0 if size >= 100 else min(digits, 1) if size >= 10 else digits
    return format(value, f"z,.{digits}f").replace("-", "−")


def pluralize(n: int, noun: str) -> str:
    """A number with its noun.

    >>> pluralize(1, "model"), pluralize(1200, "model")
    ('1 model', '1,200 models')
    """
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"


def format_duration(seconds: float) -> str:
    """A time in words.

    >>> format_duration(40), format_duration(400), format_duration(40_000)
    ('40 s', '7 min', '11.1 h')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def few_rows_warning(sizes: Sequence[int]) -> str:
    """A warning where the intervals of some segments can't be believed; empty where there are none.

    >>> few_rows_warning([1, 100])
    '1 of 2 has fewer than 30 rows: their intervals are too narrow, and that of a single row has no width.'
    """
    few = sum(size < MIN_RELIABLE_ROWS for size in sizes)
    if not few:
        return ""
    return (
        f"{few:,} of {len(sizes):,} {'has' if few == 1 else 'have'} fewer than {MIN_RELIABLE_ROWS} rows: "
        "their intervals are too narrow, and that of a single row has no width."
    )
