"""The `oodometer demo` command."""

from __future__ import annotations

from pathlib import Path

from tests.support.command_line import run_json


def test_every_shift_has_the_truth_and_all_estimates(tmp_path: Path) -> None:
    rows = run_json(tmp_path, "demo", "--html", "d.html")
    assert len(rows) >= 13
    for row in rows:
        assert {"atc-mc", "gde", "cot"} <= {estimate["method"] for estimate in row["estimates"]}
    assert rows[0]["name"] == "no shift"
    assert (tmp_path / "d.html").stat().st_size > 10_000
