"""Results go out, the rest goes to the error stream; a closed one is no failure; nor is a pipe's end."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from oodometer.cli._runtime import console, error_console, print_json, print_note, set_quiet
from tests.support.command_line import run

OODOMETER = [sys.executable, "-m", "oodometer"]
MANY = ["methods", "--family", "metric"]


def shell(line: str) -> subprocess.CompletedProcess[str]:
    """A line of bash, in which $O is the command."""
    named = {"O": f"{sys.executable} -m oodometer"}
    command = ["bash", "-o", "pipefail", "-c", line]
    return subprocess.run(command, env=os.environ | named, capture_output=True, text=True)


@pytest.mark.parametrize("form", ["", "--json"])
def test_a_pipe_that_is_closed_ends_it_without_a_word(form: str) -> None:
    done = shell(f"$O methods {form} | true")
    assert (done.returncode, done.stdout, done.stderr) == (141, "", "")


@pytest.mark.parametrize("form", ["", "--json"])
def test_without_an_output_there_is_nothing_to_say(form: str) -> None:
    done = shell(f"$O {' '.join(MANY)} {form} >&-")
    assert (done.returncode, done.stderr) == (0, "")


def test_without_an_error_stream_the_exit_code_still_tells() -> None:
    assert shell("$O methods --family nothing 2>&-").returncode == 2


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a disk that is full is of Linux")
def test_a_full_disk_is_one_line() -> None:
    done = shell(f"$O {' '.join(MANY)} >/dev/full")
    assert done.returncode == 2
    assert done.stderr.startswith("oodometer: Cannot read or write: ")
    assert len(done.stderr.splitlines()) == 1


def test_errors_are_not_among_results(tmp_path: Path) -> None:
    for words in (["methods", "--family", "x"], ["estimat"], ["estimate"], ["pool", "run", "x"]):
        done = run(tmp_path, *words)
        assert (done.returncode, done.stdout) == (2, "")
        assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("option", ["--segment-by", "--label-column"])
def test_a_column_that_is_not_there_may_be_another(option: str, tmp_path: Path) -> None:
    (tmp_path / "o.csv").write_text("prob_a,prob_b,site\n0.5,0.5,a\n0.9,0.1,b\n")
    words = ["estimate", "o.csv", "o.csv", "--label-column", "site", option, "syte"]
    said = run(tmp_path, *words).stderr
    assert (
        "There is no column 'syte' in the table. Did you mean 'site'? Columns: prob_a, prob_b,"
        in said
    )


def test_a_command_without_words_shows_its_help(tmp_path: Path) -> None:
    done = run(tmp_path, "pool")
    assert "Usage: oodometer pool" in done.stderr + done.stdout


def test_exit_codes_are_in_the_help(tmp_path: Path) -> None:
    said = run(tmp_path, "--help").stdout
    told = said.partition("Exit codes:\n")[2].split("\n")
    assert [line.split()[0] for line in told if line] == ["0", "1", "2", "130", "141"]


def test_a_note_is_for_the_error_stream_and_not_for_the_quiet(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_note("Written to [a] file \x1b[2J")
    assert capsys.readouterr() == ("", "Written to [a] file \ufffd[2J\n")
    set_quiet(True)
    print_note("Written to a file")
    assert capsys.readouterr() == ("", "")
    set_quiet(False)


def test_quiet_holds_for_one_command_alone(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.random.default_rng(0).random((20, 3)))
    words = ("invariance", "tests.support.study_tasks:classes_only", "a.npy", "-n", "1")
    first = run(tmp_path, *words, "--save-examples", "one", "--quiet")
    second = run(tmp_path, *words, "--save-examples", "two")
    assert first.stdout == second.stdout
    assert first.stderr == ""
    assert "written to two" in second.stderr
    assert (tmp_path / "one").is_dir()


def test_json_has_no_number_that_is_none(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"a": (1.5, float("nan")), "b": [float("inf"), None, "nan"]})
    said = "".join(capsys.readouterr().out.split())
    assert said == '{"a":[1.5,null],"b":[null,null,"nan"]}'


@pytest.mark.parametrize(
    ("name", "value", "coloured"),
    [("NO_COLOR", "1", False), ("CLICOLOR", "0", False), ("TERM", "dumb", False), ("X", "", True)],
)
def test_colour_is_left_out_where_it_is_not_wanted(
    name: str, value: str, coloured: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for other in ("NO_COLOR", "CLICOLOR", "COLORTERM"):
        monkeypatch.delenv(other, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("FORCE_COLOR", "1")  # as on a terminal
    monkeypatch.setenv(name, value)
    for made in (console(), error_console()):
        with made.capture() as said:
            made.print("red", style="red")
        assert ("\x1b[31m" in said.get()) == coloured
