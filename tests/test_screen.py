from __future__ import annotations

import io

import numpy as np
import pytest
from rich.console import Console
from rich.progress import Progress

import oodometer
from oodometer import screen
from oodometer.testing import toy_pair


def shown(width: int, **settings: object) -> str:
    source, target = toy_pair()
    found = oodometer.estimate(source, target, **settings)  # type: ignore[arg-type]
    out = io.StringIO()
    screen.show_assessment(Console(file=out, width=width), found)
    return out.getvalue()


@pytest.mark.parametrize("width", [60, 80, 160])
def test_tables_fit_the_terminal(width: int) -> None:
    assert max(len(line) for line in shown(width).splitlines()) <= width


def test_text_from_files_is_never_markup() -> None:
    by = np.where(np.arange(300) % 2, "[red]site[/red]", "[link=x]y[/link]")
    text = shown(120, by=by)
    assert "[red]site[/red]" in text
    assert "[link=x]y[/link]" in text


def test_lights_are_told_by_shape_and_word_as_well_as_colour() -> None:
    assert [str(screen.light(name)) for name in ("green", "amber", "red")] == [
        "● green",
        "▲ amber",
        "■ red",
    ]


def test_no_bar_is_drawn_where_there_is_no_terminal() -> None:
    out = io.StringIO()
    with screen.progress_bar(Console(file=out), after=0.0) as report:
        report(0, 2, "first")
        report(1, 2, "second")
    assert out.getvalue() == ""


def test_a_bar_is_drawn_on_a_terminal_once_work_takes_its_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    for after, drawn in ((0.0, True), (60.0, False)):
        out = io.StringIO()
        console = Console(file=out, force_terminal=True, width=80)
        with screen.progress_bar(console, after=after) as report:
            report(1, 2, "working [on] it")
        assert ("working [on] it" in out.getvalue()) is drawn


def test_numbers_stand_to_the_right_and_names_that_begin_with_a_digit_do_not() -> None:
    made = screen.table(
        "", ("model", "a", "b"), [("127.0.0.1:80/x", "-0.1", "0.1–0.2"), ("z", "", "")]
    )
    assert [column.justify for column in made.columns] == ["left", "right", "right"]


def test_nothing_is_shown_as_minus_nothing() -> None:
    assert [screen.number(value, "+.3f") for value in (-1e-9, -0.5, 0.5, None)] == [
        "+0.000",
        "-0.500",
        "+0.500",
        "",
    ]
    assert screen.number(-1e-9, ".2f") == "0.00"


@pytest.mark.parametrize(("words", "shown"), [("working", 1), ("working, about 3 min left", 0)])
def test_the_time_left_is_told_once(words: str, shown: int) -> None:
    bar = Progress(screen.TimeLeft())
    bar.add_task(words, total=10)
    assert bool(screen.TimeLeft().render(bar.tasks[0]).plain) == bool(shown)


@pytest.mark.parametrize("width", [40, 60, 72, 78, 80, 81, 82, 83, 100, 140])
def test_nothing_of_a_table_is_cut_off(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    heads = ("target", *(f"m{j}" for j in range(10)))
    rows = [("mean abs. error", *(f"{10 * j + 1}.5" for j in range(10)))]
    console = Console(file=io.StringIO(), width=width)
    console.print(screen.table("Table", heads, rows))
    lines = console.file.getvalue().splitlines()[1:]  # type: ignore[attr-defined]
    assert all(len(line) <= width for line in lines)
    shown = sorted(sign for line in lines for sign in line if not sign.isspace())
    assert shown == sorted(
        sign for cell in (*heads, *rows[0]) for sign in cell if not sign.isspace()
    )


def test_numbers_stay_in_one_line_where_they_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    rows = [("mean abs. error", *(f"{10 * j + 1}.5" for j in range(10)))]
    console = Console(file=io.StringIO(), width=80)
    console.print(screen.table("Table", ("target", *(f"m {j}" for j in range(10))), rows))
    said = console.file.getvalue()  # type: ignore[attr-defined]
    assert all(f"{10 * j + 1}.5" in said for j in range(10))
