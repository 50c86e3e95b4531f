"""Ctrl-C in a real process: one line that says how to continue, and no partial files."""

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
    Path("started").touch()
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
# Command -> (file that shows that the work has started, start of the message).
MESSAGES = {
    "pool run long.toml": ("pools/long/.lock", "Trained models are saved. Resume with: "),
    "pool run long.toml --workers 1": (
        "pools/long/.lock",
        "Trained models are saved. Resume with: ",
    ),
    "study run long.toml": ("started", "Evaluations are saved. Resume with: "),
    "invariance mine:slow data.npy": ("started", "No results were saved. Start again with: "),
    "measure mine:slow --source-data data.npy --target-data data.npy": (
        "started",
        "No results were saved. Start again with: ",
    ),
    "demo --html page.html --save 'a folder'": (
        "started",
        "No results were saved. Start again with: ",
    ),
}


def wait_for(file: Path, process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 60
    while not file.exists():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline, f"no {file}"
        time.sleep(0.05)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no signals to process groups")
@pytest.mark.parametrize("words", MESSAGES)
def test_interrupt_says_how_to_continue(words: str, tmp_path: Path) -> None:
    started, message = MESSAGES[words]
    (tmp_path / "mine.py").write_text(MINE)
    (tmp_path / "start.py").write_text(START)
    (tmp_path / "long.toml").write_text(POOL if words.startswith("pool") else STUDY)
    np.save(tmp_path / "data.npy", np.random.default_rng(0).random((8, 3)))
    before = {file.name for file in tmp_path.iterdir()}
    command = [sys.executable, "start.py", *shlex.split(words)]
    with subprocess.Popen(
        command, cwd=tmp_path, stdout=-1, stderr=-1, text=True, start_new_session=True
    ) as process:
        wait_for(tmp_path / started, process)
        os.killpg(process.pid, signal.SIGINT)
        try:
            out, err = process.communicate(timeout=60)
        finally:
            process.kill()
    assert (process.returncode, out) == (130, "")
    assert err == f"oodometer: Interrupted. {message}oodometer {words}\n"
    left = {file.name for file in tmp_path.iterdir()} - before - {"__pycache__"}
    assert left <= {"started", "pools", "studies"}
    assert [file.name for file in tmp_path.glob("pools/long/*") if file.name != ".lock"] == []
