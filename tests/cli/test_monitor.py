"""The `oodometer monitor` commands: files, exit codes, reasons, JSON."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from tests.monitor.conftest import draw, write_batch
from tests.support.command_line import assert_one_line_error, run, run_json


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with a source, twelve quiet days and six days after a shift."""
    write_batch(tmp_path / "source.parquet", draw(4000, 1, labelled=True))
    for day in range(1, 19):
        rows = draw(400, 100 + day, shift=0.0 if day <= 12 else 1.5)
        write_batch(tmp_path / f"2026-01-{day:02d}.parquet", rows)
    return tmp_path


def test_init_reports_the_cost_of_the_source(folder: Path) -> None:
    result = run(folder, "monitor", "init", "watch", "--source", "source.parquet")
    assert result.returncode == 0
    text = " ".join(result.stdout.split())
    assert "points for the size of the source (4,000 rows), minus 1 points of margin" in text
    again = run_json(folder, "monitor", "init", "watch", "--source", "source.parquet")
    assert again["schema"] == 1
    assert again["level"] == pytest.approx(again["source_mean"] - again["cost"] - 0.01)
    assert_one_line_error(
        run(folder, "monitor", "init", "watch", "--source", "source.parquet", "--form", "row"),
        "created from another source or with other settings",
    )


def test_exit_codes_and_reasons(folder: Path) -> None:
    run(folder, "monitor", "init", "watch", "--source", "source.parquet")
    first = run(folder, "monitor", "status", "watch")
    assert (first.returncode, first.stderr.count("\n")) == (3, 1)
    assert first.stderr.startswith("oodometer: cannot tell: 0 batches")
    run(folder, "monitor", "add", "watch", *(f"2026-01-{day:02d}.parquet" for day in range(1, 13)))
    quiet = run(folder, "monitor", "status", "watch")
    assert (quiet.returncode, quiet.stderr) == (0, "")
    run(folder, "monitor", "add", "watch", "2026-01-1[3-8].parquet")
    alarm = run(folder, "monitor", "status", "watch", "--json")
    assert (alarm.returncode, alarm.stderr.count("\n")) == (1, 1)
    content = json.loads(alarm.stdout)
    assert alarm.stderr == f"oodometer: alarm: {content['reason']}\n"
    assert content["schema"] == 1
    assert content["latest"]["time"] == "2026-01-18"
    assert_one_line_error(run(folder, "monitor", "status", "nowhere"), "There is no monitor")
    assert "1 alarms acknowledged" in run(folder, "monitor", "acknowledge", "watch").stdout


def test_run_equals_separate_commands_and_continues(folder: Path) -> None:
    words = ("monitor", "run", "--source", "source.parquet", "--store", "kept")
    first = run(folder, *words, "2026-01-0*.parquet", "2026-01-1[0-2].parquet")
    assert first.returncode == 0, first.stderr
    whole = run(folder, *words, "2026-01-*.parquet")
    assert whole.returncode == 1
    assert "known before" in whole.stdout
    once = run(folder, "monitor", "run", "--source", "source.parquet", "2026-01-*.parquet")
    assert (once.returncode, once.stderr) == (1, whole.stderr)
    assert not (folder / "monitor.sqlite").exists()


def test_periods_of_one_file(folder: Path) -> None:
    days = np.array("2026-01-01", dtype="datetime64[D]") + np.arange(1200) // 10
    write_batch(folder / "year.parquet", draw(1200, 5), ts=days)
    words = ("--source", "source.parquet", "--time-column", "ts", "--period", "month", "--json")
    result = run(folder, "monitor", "run", "year.parquet", *words)
    assert result.returncode == 3
    batches = json.loads(result.stdout)["batches"]
    assert [batch["time"] for batch in batches] == ["2026-01", "2026-02", "2026-03", "2026-04"]
    assert_one_line_error(
        run(folder, "monitor", "run", "year.parquet", *words[:2], "--period", "month"),
        "--period needs --time-column",
    )


def test_audited_rows_are_labelled_in_the_file(folder: Path) -> None:
    run(folder, "monitor", "init", "watch", "--source", "source.parquet")
    run(folder, "monitor", "add", "watch", "2026-01-01.parquet")
    run(folder, "monitor", "audit", "watch", "--rows", "30", "--output", "rows.csv")
    with (folder / "rows.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 30
    with (folder / "filled.csv").open("w") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows({**row, "label": row["predicted"]} for row in rows)
    result = run_json(folder, "monitor", "label", "watch", "filled.csv")
    assert (result["n_labels"], result["n_audited"]) == (30, 30)
    assert result["batches"][0]["label_estimate"] == 1
    status = run(folder, "monitor", "status", "watch")
    assert "30 of 30 labelled rows correct" in status.stdout
    assert_one_line_error(
        run(folder, "monitor", "label", "watch", "rows.csv"), "no row has a label"
    )


def test_forgotten_batches_disappear(folder: Path) -> None:
    run(folder, "monitor", "init", "watch", "--source", "source.parquet")
    run(folder, "monitor", "add", "watch", "2026-01-01.parquet", "2026-01-02.parquet")
    run(folder, "monitor", "forget", "watch", "2026-01-02.parquet")
    status = json.loads(run(folder, "monitor", "status", "watch", "--json").stdout)
    assert status["latest"]["time"] == "2026-01-01"
    assert_one_line_error(run(folder, "monitor", "forget", "watch", "9"), "There is no batch 9")


def test_time_needs_one_batch(folder: Path) -> None:
    run(folder, "monitor", "init", "watch", "--source", "source.parquet")
    files = ("2026-01-01.parquet", "2026-01-02.parquet")
    assert_one_line_error(
        run(folder, "monitor", "add", "watch", *files, "--time", "2026-02-01"),
        "--time applies to one batch",
    )
