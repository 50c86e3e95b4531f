"""The `oodometer toy` commands."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.command_line import run, run_json


def test_spurious_shows_eleven_agreements_and_the_bound(tmp_path: Path) -> None:
    words = ("toy", "spurious", "--n", "2000")
    result = run_json(tmp_path, *words)
    assert [row["agreement"] for row in result["rows"]] == [j / 10 for j in range(11)]
    assert result["bound"] == pytest.approx(0.7124, abs=1e-4)
    assert "Theorem 3 bounds" in run(tmp_path, *words).stdout
    assert run(tmp_path, "toy", "spurious", "--p-sp", "2").returncode == 2


def test_hypersphere_shows_a_table_and_writes_a_report(tmp_path: Path) -> None:
    words = ("toy", "hypersphere", "--models", "8", "--distances", "3", "--centres", "1",
             "--steps", "30")  # fmt: skip
    rows = run_json(tmp_path, *words)
    assert [round(row["distance"], 2) for row in rows] == [0.0, 1.57, 3.14]
    result = run(tmp_path, *words, "--html", "sphere.html")
    assert result.returncode == 0, result.stderr
    assert "Kendall" in result.stdout
    assert (tmp_path / "sphere.html").is_file()
