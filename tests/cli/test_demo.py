"""The `oodometer demo` command."""

from __future__ import annotations

from pathlib import Path

from tests.support.command_line import run, run_json


def test_every_shift_has_the_truth_and_all_estimates(tmp_path: Path) -> None:
    rows = run_json(tmp_path, "demo", "--html", "d.html")
    assert len(rows) >= 13
    for row in rows:
        assert {"atc-mc", "gde", "cot"} <= {estimate["method"] for estimate in row["estimates"]}
    assert rows[0]["name"] == "no shift"
    assert (tmp_path / "d.html").stat().st_size > 10_000


def test_output_counts_the_hits_in_at_most_30_lines(tmp_path: Path) -> None:
    rows = run_json(tmp_path, "demo")
    assert len(rows) == 15
    n_hits = sum(row["shift"]["low"] <= row["truth"] <= row["shift"]["high"] for row in rows)
    error = 100 * sum(abs(row["headline"]["value"] - row["truth"]) for row in rows) / 15
    shown = run(tmp_path, "demo")
    assert len(shown.stdout.splitlines()) <= 30
    text = " ".join(shown.stdout.split())
    assert text.startswith(
        f"The estimates are {error:.1f} points off on average over 15 test sets; the typical range "
        f"contains the truth in {n_hits} of 15 cases."
    )
    for row in rows:
        assert f"{row['name']} {100 * row['headline']['value']:.1f} " in text
    assert "mean abs. error" not in text
    details = run(tmp_path, "demo", "--verbose").stdout
    assert "mean abs. error" in details
    assert "Falsely identified predictions" in details
