"""Format numbers, counts and durations as text."""

from __future__ import annotations

from collections.abc import Sequence

# Bootstrap intervals from fewer rows than this are too narrow.
MIN_RELIABLE_ROWS = 30


def format_number(value: float | None, digits: int = 3) -> str:
    """Return a number as text for a table, with a true minus sign; "–" for None.

    >>> format_number(-0.25, 2), format_number(None), format_number(-12345.6), format_number(12.3456)
    ('−0.25', '–', '−12,346', '12.3')
    """
    if value is None:
        return "–"
    if abs(value) >= 100:
        digits = 0
    elif abs(value) >= 10:
        digits = min(digits, 1)
    return format(value, f"z,.{digits}f").replace("-", "−")


def format_percent(fraction: float) -> str:
    """Return a fraction as text in percent, without the percent sign.

    >>> format_percent(0.8125)
    '81.2'
    """
    return f"{100 * fraction:.1f}"


def pluralize(n: int, noun: str) -> str:
    """Return a count with its noun in the singular or plural.

    >>> pluralize(1, "model"), pluralize(1200, "model")
    ('1 model', '1,200 models')
    """
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"


def format_duration(seconds: float) -> str:
    """Return a duration as text, in seconds, minutes or hours.

    >>> format_duration(40), format_duration(400), format_duration(40_000)
    ('40 s', '7 min', '11.1 h')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def few_rows_warning(sizes: Sequence[int]) -> str:
    """Return a warning if segments are too small for reliable intervals; "" otherwise.

    >>> few_rows_warning([1, 100])
    '1 of 2 has fewer than 30 rows: such intervals are too narrow, and the interval of a single row has no width.'
    """
    n_small = sum(size < MIN_RELIABLE_ROWS for size in sizes)
    if not n_small:
        return ""
    verb = "has" if n_small == 1 else "have"
    return (
        f"{n_small:,} of {len(sizes):,} {verb} fewer than {MIN_RELIABLE_ROWS} rows: such intervals "
        "are too narrow, and the interval of a single row has no width."
    )
