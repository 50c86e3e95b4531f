"""However a command ends, it is one line that can't steer the terminal, and the right code."""

from __future__ import annotations

from pathlib import Path
from unittest import mock

import numpy as np
import pytest

from tests.support.command_line import Done, run
from tests.support.stub_models import forget_modules


def classify(folder: Path, body: str) -> Done:
    (folder / "mine.py").write_text(f"def classify(inputs):\n    {body}\n")
    np.save(folder / "data.npy", np.random.default_rng(0).random((8, 3)))
    try:
        return run(folder, "invariance", "mine:classify", "data.npy")
    finally:
        forget_modules(folder)


def test_an_interrupted_command_says_so_and_ends_with_130(tmp_path: Path) -> None:
    done = classify(tmp_path, "raise KeyboardInterrupt")
    again = "oodometer invariance mine:classify data.npy"
    told = f"oodometer: Interrupted. No results were saved. Start again with: {again}\n"
    assert done == Done(130, "", told)


def test_what_a_model_says_cannot_steer_the_terminal(tmp_path: Path) -> None:
    done = classify(tmp_path, r"raise ValueError('\x1b[2J\x07 no\x00')")
    assert done.returncode == 2
    assert "ValueError: \ufffd[2J\ufffd no\ufffd." in done.stderr
    assert done.stderr.rstrip("\n").isprintable()


def test_a_full_disk_is_one_line(tmp_path: Path) -> None:
    full = OSError(28, "No space left on device")
    with mock.patch("oodometer.report.terminal.show_neighborhoods", side_effect=full):
        done = classify(tmp_path, "return [0] * len(inputs)")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("oodometer: Cannot read or write: [Errno 28] No s")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("swapped", [("data.npy", "mine:classify")])
def test_swapped_arguments_are_recognised(swapped: tuple[str, str], tmp_path: Path) -> None:
    np.save(tmp_path / "data.npy", np.ones((8, 3)))
    done = run(tmp_path, "invariance", *swapped)
    assert done.returncode == 2
    assert "It looks like data: the model comes first" in done.stderr
