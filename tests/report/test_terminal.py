"""Tables and progress bars in the terminal."""

from __future__ import annotations

import io
import time

import pytest
from rich.console import Console
from rich.progress import Progress

from oodometer.report import terminal


def test_status_has_a_shape_and_a_word() -> None:
    assert [str(terminal.status_text(name)) for name in ("ok", "warning", "critical")] == [
        "● ok",
        "▲ warning",
        "■ critical",
    ]


def on_terminal(monkeypatch: pytest.MonkeyPatch, width: int, quiet: bool = False) -> Console:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    return Console(file=io.StringIO(), force_terminal=True, width=width, quiet=quiet)


def drawn(console: Console, words: str, after: float = 0.0) -> str:
    """Return what a progress bar prints; wait until it appears, or for a moment."""
    with terminal.progress_bar(console, delay_seconds=after) as report:
        report(1, 2, words)
        until = time.monotonic() + 5.0
        while after == 0.0 and not printed(console) and time.monotonic() < until:
            time.sleep(0.01)
    return printed(console)


def printed(console: Console) -> str:
    text: str = console.file.getvalue()  # type: ignore[attr-defined]
    return text


def test_no_progress_bar_without_a_terminal() -> None:
    console = Console(file=io.StringIO())
    with terminal.progress_bar(console, delay_seconds=0.0) as report:
        report(0, 2, "first")
        time.sleep(0.05)
    assert printed(console) == ""


def test_no_progress_bar_if_stderr_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", None)
    console = Console(file=io.StringIO(), force_terminal=True)
    with terminal.progress_bar(console, delay_seconds=0.0):
        time.sleep(0.05)
    assert printed(console) == ""


def test_progress_bar_appears_after_a_delay(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    console = on_terminal(monkeypatch, 80)
    assert "working [on] it" in drawn(console, "working [on] it")
    assert drawn(on_terminal(monkeypatch, 80), "working", after=60.0) == ""


def test_progress_bar_appears_before_the_first_report(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    console = on_terminal(monkeypatch, 80)
    with terminal.progress_bar(console, delay_seconds=0.0):
        until = time.monotonic() + 5.0
        while "preparing" not in printed(console) and time.monotonic() < until:
            time.sleep(0.01)
    assert "preparing" in printed(console)


def test_quiet_console_has_no_progress_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    console = on_terminal(monkeypatch, 80, quiet=True)
    with terminal.progress_bar(console, delay_seconds=0.0) as report:
        report(1, 2, "working")
        time.sleep(0.05)
    assert printed(console) == ""


def test_narrow_terminal_shows_progress_as_text_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wide, narrow = (
        drawn(on_terminal(monkeypatch, width), "3 of 9 models, the one with a long name")
        for width in (80, 40)
    )
    assert "━" in wide
    assert "━" not in narrow
    assert all(word in narrow for word in ("3 of 9 models,", "long", "name"))


def test_zero_has_no_minus_sign() -> None:
    assert [terminal.format_number(value, "+.3f") for value in (-1e-9, -0.5, 0.5, None)] == [
        "+0.000",
        "-0.500",
        "+0.500",
        "",
    ]
    assert terminal.format_number(-1e-9, ".2f") == "0.00"


@pytest.mark.parametrize(("words", "shown"), [("working", True), ("about 3 min left", False)])
def test_remaining_time_is_shown_once_and_if_known(words: str, shown: bool) -> None:
    clock = iter(range(100))
    bar = Progress(get_time=lambda: float(next(clock)), auto_refresh=False)
    bar.add_task(words, total=10)
    task = bar.tasks[0]
    assert terminal.TimeLeftColumn().render(task).plain == ""
    for _ in range(3):
        bar.advance(task.id)
    assert terminal.TimeLeftColumn().render(task).plain.endswith(" left") == shown
