"""Every block of the README runs."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

README = Path(__file__).parent.parent / "README.md"


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README.read_text(), flags=re.DOTALL)


def test_the_python_block_prints_a_verdict(capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = blocks("python")
    exec(compile(code, "README.md", "exec"), {})
    assert "The model is right on about" in capsys.readouterr().out


def test_the_commands_run_one_after_the_other(tmp_path: Path) -> None:
    lines = [line for line in blocks("sh")[1].splitlines() if line.startswith("oodometer")]
    assert len(lines) == 4
    for line in lines:
        command = [sys.executable, "-m", *shlex.split(line)]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{line}: {done.stderr}"
        assert done.stdout


def test_the_two_commands_are_targets_of_the_makefile() -> None:
    makefile = (README.parent / "Makefile").read_text()
    commands = [line.split("#")[0].split() for line in blocks("sh")[0].splitlines()]
    assert commands == [["make", "demo"], ["make", "test"]]
    for _, target in commands:
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE)
