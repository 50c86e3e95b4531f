"""Layout of terminal tables: they fit, lose no text, and keep numbers and words whole."""

from __future__ import annotations

import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from oodometer.report.terminal import TerminalTable, table

WORDS = st.lists(st.text("abcdé漢\x1b\n", min_size=1, max_size=9), max_size=6).map(" ".join)
CELLS = st.one_of(WORDS, st.floats(-1e3, 1e3).map("{:.3f}".format))


def shown(grid: TerminalTable, width: int) -> list[str]:
    out = io.StringIO()
    Console(file=out, width=width).print(grid)
    return out.getvalue().splitlines()


def characters(cells: list[str]) -> list[str]:
    """Return all visible characters, sorted, with control characters replaced."""
    return sorted(re.sub(r"\s", "", "".join(cells)).replace("\x1b", "\ufffd"))


@given(st.data(), st.integers(20, 100))
def test_tables_fit_and_lose_no_text(data: st.DataObject, width: int) -> None:
    count = data.draw(st.integers(1, 7))
    rows = data.draw(st.lists(st.tuples(*[CELLS] * count), max_size=4))
    heads = [f"h{place}" for place in range(count)]
    lines = shown(table("A title", heads, rows), width)
    assert all(cell_len(line) <= width and line == line.rstrip() for line in lines)
    parts = sum(line.lstrip().startswith("h0") for line in lines)
    # The first column is repeated in every part.
    cells = [cell for row in [heads, *rows] for cell in (row[0],) * parts + tuple(row[1:])]
    assert characters(["A title", *cells]) == characters(lines)


@pytest.mark.parametrize("width", [40, 60, 80])
def test_words_and_numbers_stay_whole(width: int) -> None:
    heads = ("target", *(f"method{j}" for j in range(10)), "what it assumes")
    rows = [("mean abs. error", *(f"{10 * j + 1}.5–{10 * j + 2}.5" for j in range(10)), "x " * 40)]
    words = " ".join(shown(table("Table", heads, rows), width)).split()
    assert {*heads[:-1], *rows[0][1:-1], "mean", "abs.", "error", "assumes"} <= set(words)


def test_columns_are_side_by_side_if_they_fit() -> None:
    rows = [("one", "1", "a b c d e f g h i j k l"), ("two", "2", "")]
    assert shown(table("", ("name", "n", "about"), rows), 20) == [
        "name  n  about",
        "one   1  a b c d e f",
        "         g h i j k l",
        "two   2",
    ]


def test_columns_that_do_not_fit_follow_below() -> None:
    rows = [("one", "11111.1", "22222.2"), ("two", "3.1", "4.1")]
    assert shown(table("Both", ("name", "first", "second"), rows), 14) == [
        "Both",
        "name    first",
        "one   11111.1",
        "two       3.1",
        "",
        "name   second",
        "one   22222.2",
        "two       4.1",
    ]


def test_only_very_long_names_are_broken() -> None:
    rows = [("long" * 50, "0.912", "0.901–0.923"), ("short", "0.5", "0.4–0.6")]
    lines = shown(table("", ("model", "NI", "95 %"), rows), 60)
    assert lines[1].endswith("0.912  0.901–0.923")
    assert lines[-1].split() == ["short", "0.5", "0.4–0.6"]


def test_no_wrap_cells_are_never_broken() -> None:
    bar = "    │██  "
    grid = table("", ("a", ""), [("word " * 9, Text(bar, no_wrap=True))])
    assert any(bar.rstrip() in line for line in shown(grid, 20))


def test_control_characters_and_markup_are_neutralized() -> None:
    hostile = "[red]x[/red]\x1b[31m\ny\x07"
    neutral = "[red]x[/red]\ufffd[31m y\ufffd"
    lines = shown(table(hostile, (hostile,), [(hostile,), (Text(hostile),)]), 40)
    # rich itself removes the bell from a Text.
    assert lines == [neutral, neutral, neutral, neutral.removesuffix("\ufffd")]


def test_only_numbers_are_right_aligned() -> None:
    made = table("", ("model", "a", "b"), [("127.0.0.1:80/x", "-0.1", "0.1–0.2"), ("z", "", "")])
    assert [column.numeric for column in made.columns] == [False, True, True]
