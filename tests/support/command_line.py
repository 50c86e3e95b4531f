"""Commands run in this process, as users run them, and their results."""

from __future__ import annotations

import contextlib
import io
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from oodometer.cli import main


@dataclass(frozen=True)
class CommandResult:
    returncode: int
    stdout: str
    stderr: str


def run(folder: Path, *words: str) -> CommandResult:
    """Run a command in this process, which saves the seconds that imports take."""
    out, err = io.StringIO(), io.StringIO()
    with (
        contextlib.chdir(folder),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        mock.patch.object(sys, "argv", ["oodometer", *words]),
    ):
        try:
            main()
            code: Any = 0
        except SystemExit as stop:
            code = stop.code or 0
    return CommandResult(int(code), out.getvalue(), err.getvalue())


def run_json(folder: Path, *words: str) -> Any:
    """Run a command with --json that must succeed; return the parsed output."""
    result = run(folder, *words, "--json")
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def assert_one_line_error(result: CommandResult, *messages: str) -> None:
    """Assert that a command failed with code 2, no output, and one line with all messages."""
    assert (result.returncode, result.stdout) == (2, ""), result
    assert result.stderr.startswith("oodometer: "), result.stderr
    assert result.stderr.count("\n") == 1, result.stderr
    for message in messages:
        assert message in result.stderr, result.stderr
