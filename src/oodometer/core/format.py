"""Numbers, counts and durations as text."""

from __future__ import annotations

from collections.abc import Sequence

# Drawing fewer rows again hardly shows what other rows would have said.
FEW_ROWS = 30


def number(value: float | None, digits: int = 3) -> str:
    """A number as a table has it, with a true minus sign.

    >>> number(-0.25, 2), number(None), number(-12345.6), number(12.3456)
    ('−0.25', '–', '−12,346', '12.3')
    """
    if value is None:
        return "–"
    size = abs(value)
    digits = 0 if size >= 100 else min(digits, 1) if size >= 10 else digits
    return format(value, f"z,.{digits}f").replace("-", "−")


def counted(n: int, noun: str) -> str:
    """A number with its noun.

    >>> counted(1, "model"), counted(1200, "model")
    ('1 model', '1,200 models')
    """
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"


def span(seconds: float) -> str:
    """A time in words.

    >>> span(40), span(400), span(40_000)
    ('40 s', '7 min', '11.1 h')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def of_few_rows(sizes: Sequence[int]) -> str:
    """A warning where the intervals of some segments can't be believed; empty where there are none.

    >>> of_few_rows([1, 100])
    '1 of 2 has fewer than 30 rows: their intervals are too narrow, and that of a single row has no width.'
    """
    few = sum(size < FEW_ROWS for size in sizes)
    if not few:
        return ""
    return (
        f"{few:,} of {len(sizes):,} {'has' if few == 1 else 'have'} fewer than {FEW_ROWS} rows: "
        "their intervals are too narrow, and that of a single row has no width."
    )
