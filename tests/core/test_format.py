"""Numbers, counts and durations as text."""

from __future__ import annotations

import pytest

from oodometer.core.format import few_rows_warning, format_duration, format_number, pluralize


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.12345, "0.123"), (-0.0001, "0.000"), (99.96, "100.0"), (100.4, "100"), (1e6, "1,000,000")],
)
def test_digits_depend_on_the_size_of_a_number(value: float, text: str) -> None:
    assert format_number(value) == text


def test_zero_and_many_are_plural() -> None:
    assert [pluralize(n, "row") for n in (0, 1, 2)] == ["0 rows", "1 row", "2 rows"]


@pytest.mark.parametrize(("seconds", "text"), [(89.4, "89 s"), (90, "2 min"), (5400, "1.5 h")])
def test_units_of_a_duration(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


def test_segments_of_few_rows_are_counted() -> None:
    assert few_rows_warning([30, 31]) == ""
    assert few_rows_warning([29, 30, 1]).startswith("2 of 3 have fewer than 30 rows")
