"""Past domains, from files."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from oodometer.testing import toy_predictions
from tests.support.command_line import run


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for number, name in enumerate(("source", "target", *(f"past_{j}" for j in range(6)))):
        rows = toy_predictions(300, seed=number)
        columns = {f"prob_{j}": rows.probs[:, j] for j in range(rows.k)}
        labels = {} if name == "target" else {"label": rows.labels}
        pq.write_table(pa.table(columns | labels), tmp_path / f"{name}.parquet")
    truths = np.linspace(0.7, 0.79, 19)
    pq.write_table(
        pa.table({"estimate": np.full(19, 0.8), "truth": truths}), tmp_path / "past.parquet"
    )
    return tmp_path


def estimated(folder: Path, *history: str) -> dict[str, object]:
    given = [word for name in history for word in ("--history", name)]
    done = run(
        folder,
        "estimate",
        "source.parquet",
        "target.parquet",
        "--replicates",
        "20",
        "--json",
        *given,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert isinstance(found, dict)
    return found


def test_without_a_history_no_interval_is_invented(folder: Path) -> None:
    found = estimated(folder)
    assert found["shift"] is None
    assert "unknown without past domains" in str(found["verdict"])
    shown = run(folder, "estimate", "source.parquet", "target.parquet", "--replicates", "20").stdout
    assert "Interval by sampling alone: " in shown
    assert "Interval with shift: unknown" in shown


def test_a_table_of_estimates_and_truths_makes_one(folder: Path) -> None:
    found = estimated(folder, "past.parquet")
    shift, best = found["shift"], found["headline"]
    assert isinstance(shift, dict)
    assert isinstance(best, dict)
    assert shift["n_domains"] == 19
    assert shift["level"] == 0.95
    assert shift["low"] == pytest.approx(best["value"] - 0.1)
    assert shift["bias"] == pytest.approx(0.055)
    assert "points too high on average" in str(found["verdict"])
    words = ("estimate", "source.parquet", "target.parquet", "--replicates", "20")
    shown = run(folder, *words, "--history", "past.parquet", "--html", "page.html").stdout
    assert "(95 %, 19 past domains)" in shown
    page = (folder / "page.html").read_text()
    assert 'class="shift"' in page
    assert "19 past domains" in page


def test_labelled_outputs_of_several_domains_make_one(folder: Path) -> None:
    found = estimated(folder, *(f"past_{j}.parquet" for j in range(6)))
    shift = found["shift"]
    assert isinstance(shift, dict)
    assert (shift["n_domains"], shift["scaled_by_spread"]) == (6, True)
    assert shift["level"] == pytest.approx(6 / 7)


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"estimate": [80.0] * 6, "truth": [0.7] * 6}, "fractions from 0 to 1; row 0 has 80"),
        ({"estimate": [0.8] * 3, "truth": [0.7] * 3}, "3 domains; 5 are the fewest"),
        (
            {"estimate": ["good"] * 6, "truth": [0.7] * 6},
            "must contain numbers from 0 to 1; got 'good'",
        ),
    ],
)
def test_a_table_that_is_no_history_is_refused(
    folder: Path, columns: dict[str, list[object]], said: str
) -> None:
    pq.write_table(pa.table(columns), folder / "odd.parquet")
    done = run(folder, "estimate", "source.parquet", "target.parquet", "--history", "odd.parquet")
    assert done.returncode == 2
    assert said in done.stderr
    assert "odd.parquet" in done.stderr


def test_a_table_and_other_files_are_refused(folder: Path) -> None:
    words = ("--history", "past.parquet", "--history", "past_0.parquet")
    done = run(folder, "estimate", "source.parquet", "target.parquet", *words)
    assert done.returncode == 2
    assert "Give one such table" in done.stderr


def test_a_past_domain_without_labels_is_refused(folder: Path) -> None:
    words = [word for _ in range(5) for word in ("--history", "target.parquet")]
    done = run(folder, "estimate", "source.parquet", "target.parquet", *words)
    assert done.returncode == 2
    assert "Domain 0 of the history has no labels" in done.stderr
