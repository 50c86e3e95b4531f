"""Gates of `estimate` and `monitor status`: conditions, exit codes, one-line reasons, JSON."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.monitor.conftest import draw, write_batch
from tests.support.command_line import CommandResult, assert_one_line_error, run

FILES = ("source.parquet", "target.parquet")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a target whose second month is harder than the others."""
    folder = tmp_path_factory.mktemp("gates")
    write_batch(folder / "source.parquet", draw(3000, 1, labelled=True))
    parts = [draw(600, 2 + month, shift=1.5 if month == 1 else 0.0) for month in range(3)]
    scores = np.vstack([part.scores for part in parts if part.scores is not None])
    times = np.repeat(np.array(["2026-01-05", "2026-02-05", "2026-03-05"], "datetime64[D]"), 600)
    rows = draw(1800, 9)
    write_batch(folder / "quiet.parquet", rows)
    object.__setattr__(rows, "scores", scores)
    write_batch(folder / "target.parquet", rows, ts=times)
    return folder


def gate(folder: Path, *words: str) -> CommandResult:
    return run(folder, "estimate", *FILES, "--method", "atc-mc", "--replicates", "20", "-q", *words)


def test_any_period_below_the_limit_fails(folder: Path) -> None:
    periods = ("--time-column", "ts", "--period", "month")
    result = gate(folder, *periods, "--fail-below", "0.62")
    assert (result.returncode, result.stderr.count("\n")) == (1, 1)
    assert "accuracy of 2026-02 (" in result.stderr
    assert "2026-03" not in result.stderr
    assert gate(folder, *periods, "--fail-below", "0.62", "--fail-at", "last").returncode == 0
    assert gate(folder, *periods, "--fail-below", "0.62", "--fail-at", "overall").returncode == 0


def test_reason_is_a_field_in_json(folder: Path) -> None:
    result = gate(folder, "--fail-below", "0.99", "--json")
    assert result.returncode == 1
    content = json.loads(result.stdout)["gate"]
    assert content["passed"] is False
    assert result.stderr == f"oodometer: {'; '.join(content['failed'])}\n"
    passed = gate(folder, "--fail-below", "0.1", "--json")
    assert passed.returncode == 0
    assert json.loads(passed.stdout)["gate"] == {"passed": True, "failed": [], "undecided": []}
    assert "gate" not in json.loads(gate(folder, "--json").stdout)


def test_lower_ends_are_stricter_than_values(folder: Path) -> None:
    value = json.loads(gate(folder, "--json").stdout)
    low, limit = value["interval"][0], (value["accuracy"] + value["interval"][0]) / 2
    assert low < limit < value["accuracy"]
    words = ("--fail-below", f"{limit:.6f}")
    assert gate(folder, *words).returncode == 0
    stricter = gate(folder, *words, "--use", "low")
    assert stricter.returncode == 1
    assert f"({100 * low:.1f} %, low) below" in stricter.stderr


def test_drop_is_relative_to_the_source(folder: Path) -> None:
    value = json.loads(gate(folder, "--json").stdout)
    drop = value["source_accuracy"] - value["accuracy"]
    assert drop > 0.01
    assert gate(folder, "--fail-drop", f"{drop + 0.005:.4f}").returncode == 0
    assert gate(folder, "--fail-drop", f"{drop - 0.005:.4f}").returncode == 1


def test_metrics_need_to_be_computed(folder: Path) -> None:
    words = ("--metric", "f1", "--fail-below")
    assert gate(folder, *words, "f1=0.1").returncode == 0
    failed = gate(folder, *words, "f1=0.999")
    assert (failed.returncode, failed.stderr[:14]) == (1, "oodometer: f1 ")
    assert "needs --metric f1" in gate(folder, "--fail-below", "f1=0.5").stderr


def test_status_can_fail(folder: Path) -> None:
    status = json.loads(gate(folder, "--json").stdout)["status"]
    assert status in ("warning", "critical")
    result = gate(folder, "--fail-on", status)
    assert (result.returncode, result.stderr) == (1, f"oodometer: the status is {status}\n")


def test_clear_loss_beyond_the_margin_is_unsuitable(folder: Path) -> None:
    result = gate(folder, "--margin", "0.001")
    assert result.returncode == 1
    assert result.stderr.startswith("oodometer: UNSUITABLE: the accuracy falls by more than 0.1")
    assert gate(folder, "--margin", "0.5").returncode == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--fail-below", "x"), "METRIC=FRACTION"),
        (("--fail-below", "80"), "Did you mean 0.8?"),
        (("--fail-drop", "2"), "--fail-drop must be a fraction"),
        (("--fail-on", "bad"), "bad"),
        (("--use", "high"), "high"),
        (("--fail-at", "first"), "first"),
    ],
)
def test_invalid_gates_are_rejected(folder: Path, words: tuple[str, ...], message: str) -> None:
    assert_one_line_error(gate(folder, *words), message)


def test_gates_of_a_monitor_concern_the_latest_batch(folder: Path, tmp_path: Path) -> None:
    write_batch(tmp_path / "2026-02-01.parquet", draw(600, 3, shift=1.5))
    write_batch(tmp_path / "2026-02-02.parquet", draw(600, 4))
    source = str(folder / "source.parquet")
    run(tmp_path, "monitor", "init", "watch", "--source", source)
    status = ("monitor", "status", "watch")
    empty = run(tmp_path, *status, "--fail-below", "0.5")
    assert empty.returncode == 3
    run(tmp_path, "monitor", "add", "watch", "2026-02-01.parquet", "2026-02-02.parquet")
    assert run(tmp_path, *status, "--fail-below", "0.72").returncode == 3  # burn-in
    failed = run(tmp_path, *status, "--fail-below", "0.72", "--fail-at", "any", "--json")
    assert failed.returncode == 1
    assert failed.stderr.startswith("oodometer: accuracy of batch 2026-02-01 (")
    assert json.loads(failed.stdout)["gate"]["passed"] is False
    unknown = run(tmp_path, *status, "--fail-below", "0.5", "--use", "typical-low")
    assert unknown.returncode == 3
