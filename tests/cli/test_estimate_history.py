"""`oodometer estimate --history`: typical range from past domains."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from oodometer.testing import toy_predictions
from tests.support.command_line import assert_one_line_error, run, run_json

ESTIMATE = ("estimate", "source.parquet", "target.parquet", "--replicates", "20")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for seed, name in enumerate(("source", "target", *(f"past_{j}" for j in range(6)))):
        predictions = toy_predictions(300, seed=seed)
        columns = {f"prob_{j}": predictions.probs[:, j] for j in range(predictions.k)}
        labels = {} if name == "target" else {"label": predictions.labels}
        pq.write_table(pa.table(columns | labels), tmp_path / f"{name}.parquet")
    history = {"estimate": np.full(19, 0.8), "truth": np.linspace(0.7, 0.79, 19)}
    pq.write_table(pa.table(history), tmp_path / "past.parquet")
    return tmp_path


def history_options(*files: str) -> list[str]:
    return [word for file in files for word in ("--history", file)]


def estimated(folder: Path, *files: str) -> Any:
    return run_json(folder, *ESTIMATE, *history_options(*files))


def test_without_history_there_is_no_typical_range(folder: Path) -> None:
    result = estimated(folder)
    assert result["shift"] is None
    assert "unknown without past domains" in str(result["verdict"])
    shown = run(folder, *ESTIMATE).stdout
    assert "Confidence interval (sampling error only): " in shown
    assert "Typical range: unknown" in shown


def test_table_of_estimates_and_truths_gives_a_range(folder: Path) -> None:
    result = estimated(folder, "past.parquet")
    shift, headline = result["shift"], result["headline"]
    assert shift["n_domains"] == 19
    assert shift["level"] == 0.95
    assert shift["low"] == pytest.approx(headline["value"] - 0.1)
    assert shift["bias"] == pytest.approx(0.055)
    assert "points too high on average" in str(result["verdict"])
    words = (*history_options("past.parquet"), "--html", "page.html")
    assert "(95 %, 19 past domains)" in run(folder, *ESTIMATE, *words).stdout
    page = (folder / "page.html").read_text()
    assert 'class="shift"' in page
    assert "19 past domains" in page


def test_labelled_predictions_of_several_domains_give_a_range(folder: Path) -> None:
    shift = estimated(folder, *(f"past_{j}.parquet" for j in range(6)))["shift"]
    assert (shift["n_domains"], shift["scaled_by_spread"]) == (6, True)
    assert shift["level"] == pytest.approx(6 / 7)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"estimate": [80.0] * 6, "truth": [0.7] * 6}, "fractions from 0 to 1; row 0 has 80"),
        ({"estimate": [0.8] * 3, "truth": [0.7] * 3}, "3 domains; at least 5 are required"),
        ({"estimate": ["good"] * 6, "truth": [0.7] * 6}, "numbers from 0 to 1; got 'good'"),
    ],
)
def test_error_in_a_history_table_names_the_file(
    folder: Path, columns: dict[str, list[object]], message: str
) -> None:
    pq.write_table(pa.table(columns), folder / "odd.parquet")
    result = run(folder, *ESTIMATE, *history_options("odd.parquet"))
    assert_one_line_error(result, message, "odd.parquet")


def test_history_table_with_other_files_is_an_error(folder: Path) -> None:
    result = run(folder, *ESTIMATE, *history_options("past.parquet", "past_0.parquet"))
    assert_one_line_error(result, "Give one such table")


def test_past_domain_without_labels_is_an_error(folder: Path) -> None:
    result = run(folder, *ESTIMATE, *history_options(*["target.parquet"] * 5))
    assert_one_line_error(result, "--history target.parquet has no labels")
