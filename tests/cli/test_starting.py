"""Help is quick, for nothing heavy is loaded for it; and shells complete what is begun."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = ("torch", "sklearn", "scipy", "pandas", "polars", "pyarrow", "altair", "jinja2", "cv2", "PIL",
         "onnxruntime", "transformers", "dask", "markdown_it")  # fmt: skip


@pytest.mark.parametrize("words", [["--help"], ["pool", "run", "--help"], ["--version"]])
def test_help_loads_nothing_heavy(words: list[str]) -> None:
    code = f"""
import sys
sys.argv = ["oodometer", *{words!r}]
from oodometer.cli import main
try:
    main()
except SystemExit as stop:
    print(stop.code, [name for name in {HEAVY!r} if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "0 []"


def bash(script: str, folder: Path) -> str:
    """What bash says, where `oodometer` is this one."""
    (folder / "oodometer").write_text(f'#!/bin/sh\nexec {sys.executable} -m oodometer "$@"\n')
    (folder / "oodometer").chmod(0o755)
    env = os.environ | {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}", "HOME": str(folder)}
    command = ["bash", "--norc", "-c", script]
    done = subprocess.run(command, env=env, cwd=folder, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


COMPLETED = """
source shown
COMP_WORDS=({words}); COMP_CWORD={place}
_oodometer_completion oodometer
echo "${{COMPREPLY[@]}}"
"""


def test_bash_completes_commands_options_and_names(tmp_path: Path) -> None:
    # A second line, or bash would hand itself over to the command and not be its parent.
    (tmp_path / "shown").write_text(bash("oodometer --show-completion\ntrue", tmp_path))
    begun = {
        "oodometer inv": "invariance",
        "oodometer pool st": "status",
        "oodometer estimate --fail": "--fail-below",
        "oodometer study run --qui": "--quiet",
        "oodometer rank --transform rot": "rotate",
        "oodometer methods --family est": "estimator",
        "oodometer domains --group vl": "vlcs",
        "oodometer pool run toy": "toy-mlp",
    }
    scripts = [COMPLETED.format(words=words, place=len(words.split()) - 1) for words in begun]
    assert bash("".join(scripts), tmp_path).split() == list(begun.values())


def test_completion_is_installed_for_bash(tmp_path: Path) -> None:
    said = bash("oodometer --install-completion\ntrue", tmp_path)
    assert "bash completion installed" in said
    assert ".bash_completions" in (tmp_path / ".bashrc").read_text()
    assert "_oodometer_completion" in (tmp_path / ".bash_completions" / "oodometer.sh").read_text()
