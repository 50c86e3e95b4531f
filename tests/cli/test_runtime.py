"""Streams, error messages and exit codes of commands."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

from oodometer.cli._runtime import console, error_console, print_json, print_note, set_quiet
from tests.support.command_line import CommandResult, assert_one_line_error, run

METHODS = "methods --family metric"
DISK_ERROR = "oodometer: Cannot read or write: [Errno 28] No space"


def shell(line: str) -> subprocess.CompletedProcess[str]:
    """Run a line of bash in which $O is the command."""
    environment = os.environ | {"O": f"{sys.executable} -m oodometer"}
    command = ["bash", "-o", "pipefail", "-c", line]
    return subprocess.run(command, env=environment, capture_output=True, text=True)


def classify(folder: Path, body: str) -> CommandResult:
    """Run `invariance` on a model whose function has this body."""
    (folder / "mine.py").write_text(f"def classify(inputs):\n    {body}\n")
    np.save(folder / "data.npy", np.random.default_rng(0).random((8, 3)))
    return run(folder, "invariance", "mine:classify", "data.npy")


@pytest.mark.parametrize("option", ["", "--json"])
def test_closed_pipe_ends_the_command_silently(option: str) -> None:
    result = shell(f"$O methods {option} | true")
    assert (result.returncode, result.stdout, result.stderr) == (141, "", "")


@pytest.mark.parametrize("option", ["", "--json"])
def test_closed_standard_output_is_not_an_error(option: str) -> None:
    result = shell(f"$O {METHODS} {option} >&-")
    assert (result.returncode, result.stderr) == (0, "")


def test_exit_code_is_kept_with_closed_standard_error() -> None:
    assert shell("$O methods --family nothing 2>&-").returncode == 2


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="/dev/full exists on Linux only")
def test_full_disk_at_the_last_write_is_a_one_line_error() -> None:
    result = shell(f"$O {METHODS} >/dev/full")
    assert result.returncode == 2
    assert result.stderr.startswith(DISK_ERROR)
    assert len(result.stderr.splitlines()) == 1


def test_full_disk_during_the_command_is_a_one_line_error(tmp_path: Path) -> None:
    full = OSError(28, "No space left on device")
    with mock.patch("oodometer.report.terminal.show_neighborhoods", side_effect=full):
        result = classify(tmp_path, "return [0] * len(inputs)")
    assert_one_line_error(result)
    assert result.stderr.startswith(DISK_ERROR)


def test_interrupt_exits_with_130_and_shows_the_command(tmp_path: Path) -> None:
    command = "oodometer invariance mine:classify data.npy"
    message = f"oodometer: Interrupted. No results were saved. Start again with: {command}\n"
    assert classify(tmp_path, "raise KeyboardInterrupt") == CommandResult(130, "", message)


def test_control_characters_in_errors_are_replaced(tmp_path: Path) -> None:
    result = classify(tmp_path, r"raise ValueError('\x1b[2J\x07 no\x00')")
    assert_one_line_error(result, "ValueError: \ufffd[2J\ufffd no\ufffd.")
    assert result.stderr.rstrip("\n").isprintable()


def test_errors_go_to_standard_error_alone(tmp_path: Path) -> None:
    for words in (["methods", "--family", "x"], ["estimat"], ["estimate"], ["pool", "run", "x"]):
        assert_one_line_error(run(tmp_path, *words))


@pytest.mark.parametrize("option", ["--segment-by", "--label-column"])
def test_misspelled_column_gets_a_suggestion(option: str, tmp_path: Path) -> None:
    (tmp_path / "o.csv").write_text("prob_a,prob_b,site\n0.5,0.5,a\n0.9,0.1,b\n")
    words = ("estimate", "o.csv", "o.csv", "--label-column", "site", option, "syte")
    result = run(tmp_path, *words)
    assert result.returncode == 2
    message = (
        "There is no column 'syte' in the table. Did you mean 'site'? Columns: prob_a, prob_b,"
    )
    assert message in result.stderr


def test_group_without_a_command_shows_its_help(tmp_path: Path) -> None:
    result = run(tmp_path, "pool")
    assert "Usage: oodometer pool" in result.stderr + result.stdout


def test_help_lists_the_exit_codes(tmp_path: Path) -> None:
    lines = run(tmp_path, "--help").stdout.partition("Exit codes:\n")[2].split("\n")
    assert [line.split()[0] for line in lines if line] == ["0", "1", "2", "3", "130", "141"]


def test_notes_go_to_standard_error_unless_quiet(capsys: pytest.CaptureFixture[str]) -> None:
    print_note("Written to [a] file \x1b[2J")
    assert capsys.readouterr() == ("", "Written to [a] file \ufffd[2J\n")
    set_quiet(True)
    print_note("Written to a file")
    assert capsys.readouterr() == ("", "")
    set_quiet(False)


def test_quiet_applies_to_one_command_only(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.random.default_rng(0).random((20, 3)))
    words = ("invariance", "tests.support.study_tasks:classes_only", "a.npy", "-n", "1")
    quiet = run(tmp_path, *words, "--save-examples", "one", "--quiet")
    loud = run(tmp_path, *words, "--save-examples", "two")
    assert quiet.stdout == loud.stdout
    assert quiet.stderr == ""
    assert "written to two" in loud.stderr
    assert (tmp_path / "one").is_dir()


def test_json_has_null_for_numbers_that_are_not_finite(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"a": (1.5, float("nan")), "b": [float("inf"), None, "nan"]})
    printed = "".join(capsys.readouterr().out.split())
    assert printed == '{"a":[1.5,null],"b":[null,null,"nan"]}'


@pytest.mark.parametrize(
    ("name", "value", "coloured"),
    [("NO_COLOR", "1", False), ("CLICOLOR", "0", False), ("TERM", "dumb", False), ("X", "", True)],
)
def test_environment_variables_disable_colour(
    name: str, value: str, coloured: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("NO_COLOR", "CLICOLOR", "COLORTERM"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("FORCE_COLOR", "1")  # as on a terminal
    monkeypatch.setenv(name, value)
    for stream in (console(), error_console()):
        with stream.capture() as captured:
            stream.print("red", style="red")
        assert ("\x1b[31m" in captured.get()) == coloured
