"""The `oodometer plan` command, from the plan to the estimate with labels."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import csv

from oodometer.assessment.ppi import MIN_LABELS
from oodometer.core.predictions import Predictions
from oodometer.testing import toy_predictions
from tests.support.command_line import assert_one_line_error, run, run_json


def table(predictions: Predictions, labels: object) -> pa.Table:
    columns = {f"prob_{j}": predictions.probs[:, j] for j in range(predictions.k)}
    return pa.table(columns | ({} if labels is None else {"label": labels}))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    source, target = toy_predictions(600), toy_predictions(3000, seed=1)
    pq.write_table(table(source, source.labels), tmp_path / "source.parquet")
    pq.write_table(table(target, None), tmp_path / "target.parquet")
    return tmp_path


def test_labelling_the_planned_rows_reaches_the_precision(folder: Path) -> None:
    words = ("plan", "target.parquet", "--source", "source.parquet", "--half-width", "0.04")
    plan = run_json(folder, *words)
    assert plan["n_labels"] == len(plan["rows"]) == len(set(plan["rows"]))
    assert MIN_LABELS <= plan["n_labels"] < plan["n_labels_without_scores"]
    shown = run(folder, *words, "--output", "to_label.csv")
    assert f"Label {plan['n_labels']:,} of 3,000 rows" in shown.stdout
    lines = (folder / "to_label.csv").read_text().splitlines()
    assert lines[0] == "row,confidence,label"
    assert [int(line.split(",")[0]) for line in lines[1:]] == plan["rows"]

    target = toy_predictions(3000, seed=1)
    assert target.labels is not None
    labels: list[int | None] = [None] * 3000
    for row in plan["rows"]:
        labels[row] = int(target.labels[row])
    pq.write_table(table(target, labels), folder / "labelled.parquet")
    result = run_json(folder, "estimate", "source.parquet", "labelled.parquet")
    headline = result["headline"]
    assert headline["method"] == "ppi++"
    assert headline["low"] <= target.correct.mean() <= headline["high"]
    assert (headline["high"] - headline["low"]) / 2 == pytest.approx(0.04, abs=0.01)
    assert "valid under any shift" in result["verdict"]


def test_number_of_labels_replaces_the_half_width(folder: Path) -> None:
    words = ("plan", "target.parquet", "--labels", "120")
    plan = run_json(folder, *words)
    assert plan["n_labels"] == len(set(plan["rows"])) == 120
    by_width = run_json(folder, "plan", "target.parquet", "--half-width", str(plan["half_width"]))
    assert by_width["n_labels"] == pytest.approx(120, abs=1)
    shown = run(folder, *words, "--output", "to_label.csv")
    assert "Label 120 of 3,000 rows for a confidence interval of ±" in shown.stdout
    lines = (folder / "to_label.csv").read_text().splitlines()
    assert [int(line.split(",")[0]) for line in lines[1:]] == plan["rows"]
    everything = run(folder, "plan", "target.parquet", "--labels", "99999", "--output", "all.csv")
    assert "Label all 3,000 rows" in everything.stdout


def test_number_of_labels_must_be_positive(folder: Path) -> None:
    result = run(folder, "plan", "target.parquet", "--labels", "0")
    assert result.returncode == 2
    assert "--labels" in result.stderr


def test_command_of_the_verdict_runs(folder: Path) -> None:
    shifted = toy_predictions(3000, sharpness=0.5, seed=1)
    pq.write_table(table(shifted, None), folder / "shifted.parquet")
    result = run_json(folder, "estimate", "source.parquet", "shifted.parquet")
    assert result["headline"]["status"] != "ok"
    command = str(result["verdict"]).partition(": oodometer ")[2].split()
    words = ["shifted.parquet" if word == "TARGET" else word for word in command]
    assert run(folder, *words).returncode == 0
    lines = (folder / "to_label.csv").read_text().splitlines()
    assert len(lines) - 1 == result["labels_needed"]


def test_rows_are_printed_without_output(folder: Path) -> None:
    result = run(folder, "plan", "target.parquet", "--half-width", "0.2")
    assert result.returncode == 0
    rows = result.stdout.partition("points.")[2]
    assert len(rows.split(",")) == MIN_LABELS


def test_output_must_be_a_csv_file(folder: Path) -> None:
    result = run(folder, "plan", "target.parquet", "--output", "rows.txt")
    assert_one_line_error(result, "--output of plan must be a .csv file; got 'rows.txt'.")


@pytest.mark.parametrize(
    ("width", "message"),
    [
        ("2", "--half-width must be a fraction above 0 and below 0.5; got 2. Did you mean 0.02?"),
        ("0", "--half-width must be a fraction above 0"),
        ("-1", "--half-width must be a fraction above 0"),
    ],
)
def test_half_width_must_be_a_fraction(folder: Path, width: str, message: str) -> None:
    assert_one_line_error(run(folder, "plan", "target.parquet", "--half-width", width), message)


@pytest.mark.parametrize("shown", ["text", "details", "json"])
def test_printed_command_repeats_the_source_and_the_columns(tmp_path: Path, shown: str) -> None:
    source, target = toy_predictions(600), toy_predictions(600, sharpness=0.3, seed=1)
    for name, rows in {"a source.csv": source, "new.csv": target}.items():
        columns: dict[str, Any] = {f"score_{j}": rows.probs[:, j] for j in range(rows.k)}
        if rows is source:
            columns["truth"] = rows.labels
        csv.write_csv(pa.table(columns), tmp_path / name)
    options = ("--prob-columns", "score_", "--label-column", "truth", "--method", "atc-mc")
    words = ("estimate", "a source.csv", "new.csv", *options)
    if shown == "json":
        text = run_json(tmp_path, *words)["verdict"]
    else:
        text = run(tmp_path, *words, *(["--verbose"] if shown == "details" else [])).stdout
    command = text[text.index("oodometer plan") :].splitlines()[0]
    _, *arguments = shlex.split(command)
    assert arguments[:4] == ["plan", "new.csv", "--source", "a source.csv"]
    result = run(tmp_path, *arguments)
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "to_label.csv").is_file()


def label_rows(folder: Path, n_labels: int) -> None:
    """Fill in the true classes of the first rows of to_label.csv."""
    target = toy_predictions(3000, seed=1)
    assert target.labels is not None
    first, *lines = (folder / "to_label.csv").read_text().splitlines()
    rows = [int(line.split(",")[0]) for line in lines]
    labels = [target.labels[row] if j < n_labels else "" for j, row in enumerate(rows)]
    filled = [f"{line}{label}" for line, label in zip(lines, labels, strict=True)]
    (folder / "to_label.csv").write_text("\n".join([first, *filled]) + "\n")


def test_rows_of_a_plan_are_in_random_order_and_may_be_partly_labelled(folder: Path) -> None:
    written = run(folder, "plan", "target.parquet", "--labels", "300", "-o", "to_label.csv")
    assert "in random order" in written.stderr
    rows = run_json(folder, "plan", "target.parquet", "--labels", "300")["rows"]
    assert rows != sorted(rows)
    assert 1200 < sum(rows[:100]) / 100 < 1800  # of 3,000 rows
    words = ("estimate", "source.parquet", "target.parquet", "--target-labels", "to_label.csv")
    label_rows(folder, 100)
    result = run_json(folder, *words)
    assert result["headline"]["method"] == "ppi++"
    assert result["notes"][0].startswith(
        "200 of 300 rows of the plan have no label; the interval is valid if the labelled rows are "
        "a random sample"
    )
    run(folder, "plan", "target.parquet", "--labels", "300", "-o", "to_label.csv")
    label_rows(folder, 300)
    assert run_json(folder, *words)["notes"] == []


def test_few_labels_are_reported_in_a_note(folder: Path) -> None:
    run(folder, "plan", "target.parquet", "--labels", "10", "-o", "to_label.csv")
    label_rows(folder, 10)
    words = ("estimate", "source.parquet", "target.parquet", "--target-labels", "to_label.csv")
    result = run_json(folder, *words)
    (known,) = [row for row in result["estimates"] if row["method"] == "wilson"]
    low, value, high = (f"{100 * known[name]:.1f}" for name in ("low", "value", "high"))
    assert result["headline"]["method"] != "ppi++"
    assert result["notes"] == [
        "10 labels are too few for the headline (at least 25 are needed); on these rows the "
        f"accuracy is {value} % ({low}–{high})."
    ]


def test_source_of_a_plan_needs_labels(folder: Path) -> None:
    words = ("plan", "target.parquet", "--source", "target.parquet")
    message = "target.parquet has no labels, which --source needs. Name the column with the true"
    assert_one_line_error(run(folder, *words), message, "--label-column COLUMN.")
