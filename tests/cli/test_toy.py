"""The `oodometer toy` commands."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.command_line import assert_one_line_error, run, run_json


def test_spurious_shows_eleven_agreements_and_the_bound(tmp_path: Path) -> None:
    words = ("toy", "spurious", "--n", "2000")
    result = run_json(tmp_path, *words)
    assert [row["agreement"] for row in result["rows"]] == [j / 10 for j in range(11)]
    assert result["bound"] == pytest.approx(0.7124, abs=1e-4)
    assert (result["min_rows"], result["theorem_applies"]) == (350_563, False)
    shares = result["rows"][0]["falsely_identified"]
    error = result["rows"][0]["estimates"]["atc-mc"] - result["rows"][0]["truth"]
    assert shares["correct"] - shares["incorrect"] == pytest.approx(error)
    text = " ".join(run(tmp_path, *words, "--html", "spurious.html").stdout.split())
    assert "Theorem 3 bounds" not in text
    assert "does not apply at n = 2,000: it requires at least 350,563 source rows" in text
    assert (tmp_path / "spurious.html").is_file()
    enough = run_json(tmp_path, *words, "--p-sp", "0.9")
    assert (enough["min_rows"], enough["theorem_applies"]) == (877, True)
    assert run(tmp_path, "toy", "spurious", "--p-sp", "2").returncode == 2


def test_covariate_or_label_shows_both_worlds_and_writes_a_report(tmp_path: Path) -> None:
    words = ("toy", "covariate-or-label", "--n", "1000")
    rows = run_json(tmp_path, *words)
    assert [row["beta"] for row in rows] == [j / 10 for j in range(1, 10)]
    assert set(rows[0]["estimates"]) == {"iw", "bbse", "mlls", "atc-mc"}
    result = run(tmp_path, *words, "--html", "worlds.html")
    assert result.returncode == 0, result.stderr
    text = " ".join(result.stdout.split())
    assert "81.0 % under covariate shift and of 73.8 % under label shift" in text
    assert (tmp_path / "worlds.html").is_file()
    assert_one_line_error(
        run(tmp_path, *words, "--alpha", "1"), "alpha must be above 0 and below 1"
    )


def test_skews_shows_margins_and_writes_a_report(tmp_path: Path) -> None:
    words = ("toy", "skews", "--max-rows", "100", "--epochs", "20", "--repeats", "2")
    rows = run_json(tmp_path, *words)
    assert [row["n"] for row in rows] == [10, 30, 100]
    assert list(rows[0]["descent"]) == ["10", "20"]
    result = run(tmp_path, *words, "--html", "skews.html")
    assert result.returncode == 0, result.stderr
    assert "20 epochs" in result.stdout
    assert (tmp_path / "skews.html").is_file()
    assert_one_line_error(run(tmp_path, *words, "--p-sp", "0.4"), "--p-sp must be above 0.5")


def test_hypersphere_shows_a_table_and_writes_a_report(tmp_path: Path) -> None:
    words = ("toy", "hypersphere", "--models", "8", "--distances", "3", "--centres", "1",
             "--steps", "30")  # fmt: skip
    rows = run_json(tmp_path, *words)
    assert [round(row["distance"], 2) for row in rows] == [0.0, 1.57, 3.14]
    result = run(tmp_path, *words, "--html", "sphere.html")
    assert result.returncode == 0, result.stderr
    assert "Kendall" in result.stdout
    assert (tmp_path / "sphere.html").is_file()
