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


def test_without_history_the_range_is_that_of_reference_cases(folder: Path) -> None:
    result = estimated(folder)
    shift, headline = result["shift"], result["headline"]
    assert (shift["n_domains"], shift["correction"], shift["level"]) == (0, 0.0, 0.9)
    assert shift["n_suites"] >= 12
    assert shift["low"] <= headline["low"] <= headline["high"] <= shift["high"]
    assert "similar to (exchangeable with) the reference cases" in shift["assumes"]
    shown = " ".join(run(folder, *ESTIMATE, "--verbose").stdout.split())
    assert "Confidence interval (sampling error only): " in shown
    assert f"{shift['n_suites']} suites of reference cases" in shown


def test_without_history_and_calibration_the_range_is_unknown(folder: Path) -> None:
    words = ("--calibration", "none", "--temperature", "none")
    result = run_json(folder, *ESTIMATE, *words)
    assert result["shift"] is None
    assert "unknown without past domains" in str(result["verdict"])
    assert "Typical range: unknown" in run(folder, *ESTIMATE, *words, "--verbose").stdout


def test_table_of_estimates_and_truths_gives_a_range(folder: Path) -> None:
    result = estimated(folder, "past.parquet")
    shift, headline = result["shift"], result["headline"]
    assert (shift["n_domains"], shift["level"]) == (19, 0.9)
    assert shift["bias"] == pytest.approx(0.055)
    # All past estimates were too high, so the estimate is corrected by their mean error.
    assert shift["correction"] == pytest.approx(-0.055)
    plain = estimated(folder)
    assert headline["value"] == pytest.approx(plain["headline"]["value"] - 0.055)
    assert shift["low"] < headline["value"] < shift["high"]
    assert shift["high"] < plain["shift"]["high"]
    assert "points too high on average" in str(result["verdict"])
    words = (*history_options("past.parquet"), "--html", "page.html", "--verbose")
    shown = " ".join(run(folder, *ESTIMATE, *words).stdout.split())
    assert "(90 %, typical of 19 past domains and " in shown
    page = (folder / "page.html").read_text()
    assert 'class="shift"' in page
    assert "19 past domains" in page


def test_labelled_predictions_of_several_domains_give_a_range(folder: Path) -> None:
    """The expected errors of the past domains are computed, and replace the spreads."""
    shift = estimated(folder, *(f"past_{j}.parquet" for j in range(6)))["shift"]
    assert (shift["n_domains"], shift["scaled_by_spread"]) == (6, False)
    assert shift["level"] == 0.9
    assert shift["low"] < shift["high"]


def write_history(folder: Path, expected_error: float | None) -> str:
    """Write past domains with small errors in both directions as a CSV file."""
    lines = ["estimate,truth" + ("" if expected_error is None else ",expected_error")]
    for row in range(40):
        cells = [0.7, 0.7 + (0.001 if row % 2 else -0.001)]
        cells += [] if expected_error is None else [expected_error]
        lines.append(",".join(map(str, cells)))
    name = f"past_{expected_error}.csv"
    (folder / name).write_text("\n".join(lines) + "\n")
    return name


def test_expected_errors_of_a_history_file_weight_its_domains(folder: Path) -> None:
    plain = estimated(folder)["shift"]
    size = plain["expected_error"]
    similar, other = (
        estimated(folder, write_history(folder, error))["shift"] for error in (size, size / 30)
    )
    widths = [each["high"] - each["low"] for each in (similar, plain)]
    assert similar["n_domains"] == other["n_domains"] == 40
    assert widths[0] < widths[1]
    # Domains with another expected error hardly count.
    assert (other["low"], other["high"]) == pytest.approx((plain["low"], plain["high"]), abs=0.005)


def test_expected_error_that_is_not_a_fraction_is_an_error(folder: Path) -> None:
    result = run(folder, *ESTIMATE, *history_options(write_history(folder, 5.0)))
    assert_one_line_error(result, "expected_error", "past_5.0.csv")


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


def test_past_domain_with_other_classes_is_an_error(folder: Path) -> None:
    prob = np.linspace(0.1, 0.9, 50)
    table = pa.table({"prob": prob, "label": (prob > 0.4).astype(int)})
    pq.write_table(table, folder / "past_0.parquet")
    files = [f"past_{j}.parquet" for j in range(6)]
    k = toy_predictions(3).k
    assert_one_line_error(
        run(folder, *ESTIMATE, *history_options(*files)),
        f"the source has {k} classes, domain 0 of the history has 2",
    )


def test_short_answer_says_that_past_domains_were_used(folder: Path) -> None:
    files = [f"past_{j}.parquet" for j in range(6)]
    shown = run(folder, *ESTIMATE, *history_options(*files)).stdout
    (line,) = (line for line in shown.splitlines() if line.startswith("Typical range"))
    assert line.endswith("(error from shift; uses 6 past domains)")
    assert len(line) <= 80
