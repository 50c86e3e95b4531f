"""Ctrl-C in the middle, in a real process: one line that says how to go on, and nothing half done."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

MINE = """
import time
from pathlib import Path
def slow(inputs):
    Path("began").touch()
    time.sleep(60)
def slow_demo(seed):
    slow(None)
"""
POOL = """
name = "long"
group = "hypersphere"
domains = ["0"]
architecture = "mlp"
fixed.epochs = 1000000
fixed.stop_at = 1e-12
"""
STUDY = """
name = "long"
group = "hypersphere"
domains = ["0", "30"]
rows = 40
estimators = ["ac"]
[[models]]
name = "slow"
path = "mine:slow"
trained_on = "0"
"""
START = """
import sys
import oodometer.studies.demo
from oodometer.cli import main
if "demo" in sys.argv:
    import mine
    oodometer.studies.demo.make_digits_suite = mine.slow_demo
main()
"""
# What shows that work has begun, and what is said of it.
BEGUN = {
    "pool run long.toml": ("pools/long/.lock", "Trained models are saved. Resume with: "),
    "pool run long.toml --workers 1": (
        "pools/long/.lock",
        "Trained models are saved. Resume with: ",
    ),
    "study run long.toml": ("began", "Evaluations are saved. Resume with: "),
    "invariance mine:slow data.npy": ("began", "No results were saved. Start again with: "),
    "measure mine:slow --source-data data.npy --target-data data.npy": (
        "began",
        "No results were saved. Start again with: ",
    ),
    "demo --html page.html --save 'a folder'": (
        "began",
        "No results were saved. Start again with: ",
    ),
}


def wait_for(file: Path, process: subprocess.Popen[str]) -> None:
    until = time.monotonic() + 60
    while not file.exists():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < until, f"no {file}"
        time.sleep(0.05)


@pytest.mark.skipif(sys.platform == "win32", reason="there Ctrl-C is no signal to a group")
@pytest.mark.parametrize("words", BEGUN)
def test_an_interrupt_says_how_to_go_on(words: str, tmp_path: Path) -> None:
    began, kept = BEGUN[words]
    (tmp_path / "mine.py").write_text(MINE)
    (tmp_path / "start.py").write_text(START)
    (tmp_path / "long.toml").write_text(POOL if words.startswith("pool") else STUDY)
    np.save(tmp_path / "data.npy", np.random.default_rng(0).random((8, 3)))
    before = {file.name for file in tmp_path.iterdir()}
    command = [sys.executable, "start.py", *shlex.split(words)]
    with subprocess.Popen(
        command, cwd=tmp_path, stdout=-1, stderr=-1, text=True, start_new_session=True
    ) as process:
        wait_for(tmp_path / began, process)
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, "")
    assert err == f"oodometer: Interrupted. {kept}oodometer {words}\n"
    left = {file.name for file in tmp_path.iterdir()} - before - {"__pycache__"}
    assert left <= {"began", "pools", "studies"}
    assert [file.name for file in tmp_path.glob("pools/long/*") if file.name != ".lock"] == []
