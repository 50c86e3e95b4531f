"""Start of the command line: quick help without heavy imports, and shell completion."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import oodometer
from tests.support.command_line import run

HEAVY = ("torch", "sklearn", "scipy", "pandas", "polars", "pyarrow", "altair", "jinja2", "cv2", "PIL",
         "onnxruntime", "transformers", "dask", "markdown_it")  # fmt: skip


@pytest.mark.parametrize("words", [["--help"], ["pool", "run", "--help"], ["--version"]])
def test_help_imports_no_heavy_package(words: list[str]) -> None:
    code = f"""
import sys
sys.argv = ["oodometer", *{words!r}]
from oodometer.cli import main
try:
    main()
except SystemExit as stop:
    print(stop.code, [name for name in {HEAVY!r} if name in sys.modules])
"""
    command = [sys.executable, "-c", code]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert result.stdout.splitlines()[-1] == "0 []"


def test_version_is_that_of_the_package(tmp_path: Path) -> None:
    assert run(tmp_path, "--version").stdout == f"oodometer {oodometer.__version__}\n"


def bash(script: str, folder: Path) -> str:
    """Return the output of a bash script in which `oodometer` is this one."""
    (folder / "oodometer").write_text(f'#!/bin/sh\nexec {sys.executable} -m oodometer "$@"\n')
    (folder / "oodometer").chmod(0o755)
    env = os.environ | {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}", "HOME": str(folder)}
    command = ["bash", "--norc", "-c", script]
    result = subprocess.run(
        command, env=env, cwd=folder, capture_output=True, text=True, timeout=60
    )
    assert (result.returncode, result.stderr) == (0, "")
    return result.stdout


COMPLETION = """
source completion
COMP_WORDS=({words}); COMP_CWORD={index}
_oodometer_completion oodometer
echo "${{COMPREPLY[@]}}"
"""


def test_bash_completes_commands_options_and_names(tmp_path: Path) -> None:
    # The second line keeps bash from replacing itself by the command, which looks at its parent.
    (tmp_path / "completion").write_text(bash("oodometer --show-completion\ntrue", tmp_path))
    expected = {
        "oodometer inv": "invariance",
        "oodometer pool st": "status",
        "oodometer estimate --fail-b": "--fail-below",
        "oodometer study run --qui": "--quiet",
        "oodometer rank --transform rot": "rotate",
        "oodometer methods --family est": "estimator",
        "oodometer domains --group vl": "vlcs",
        "oodometer pool run toy": "toy-mlp",
    }
    scripts = [COMPLETION.format(words=line, index=len(line.split()) - 1) for line in expected]
    assert bash("".join(scripts), tmp_path).split() == list(expected.values())


def test_completion_is_installed_for_bash(tmp_path: Path) -> None:
    output = bash("oodometer --install-completion\ntrue", tmp_path)
    assert "bash completion installed" in output
    assert ".bash_completions" in (tmp_path / ".bashrc").read_text()
    script = (tmp_path / ".bash_completions" / "oodometer.sh").read_text()
    assert "_oodometer_completion" in script
