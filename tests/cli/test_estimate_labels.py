"""`oodometer estimate` with labels of target rows, and with additional analyses."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

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


ESTIMATE = ("estimate", "source.parquet")


def test_few_labels_have_a_wilson_interval(folder: Path) -> None:
    target = toy_predictions(3000, seed=1)
    assert target.labels is not None
    labels = [int(label) if row < 10 else None for row, label in enumerate(target.labels)]
    pq.write_table(table(target, labels), folder / "ten.parquet")
    result = run_json(folder, *ESTIMATE, "ten.parquet")
    assert result["headline"]["method"] == "regime"
    assert result["estimates"][-1]["method"] == "wilson"
    assert result["estimates"][-1]["value"] == target.correct[:10].mean()


def test_labels_of_a_fully_labelled_target_are_ignored_with_a_note(folder: Path) -> None:
    target = toy_predictions(3000, seed=1)
    pq.write_table(table(target, target.labels), folder / "whole.parquet")
    shown = run(folder, *ESTIMATE, "whole.parquet")
    assert "Every row of whole.parquet has a label; the labels are ignored." in shown.stderr
    assert run_json(folder, *ESTIMATE, "whole.parquet")["headline"]["method"] == "regime"


def test_label_of_an_unknown_class_is_named(folder: Path) -> None:
    target = toy_predictions(50, seed=1)
    pq.write_table(table(target, [9] + [None] * 49), folder / "odd.parquet")
    assert_one_line_error(run(folder, *ESTIMATE, "odd.parquet"), "9")


def write_labels(folder: Path, *lines: str) -> None:
    (folder / "labels.csv").write_text("\n".join(["row,confidence,label", *lines]) + "\n")


def test_target_labels_give_the_numbers_of_a_label_column(folder: Path) -> None:
    target = toy_predictions(3000, seed=1)
    assert target.labels is not None
    labels = [int(label) if row < 60 else None for row, label in enumerate(target.labels)]
    pq.write_table(table(target, labels), folder / "own.parquet")
    write_labels(folder, *(f"{row},0.5,{labels[row]}" for row in range(60)), "61,0.5,")
    words = (*ESTIMATE, "target.parquet", "--target-labels", "labels.csv")
    assert run(folder, *words).stderr == ""
    result = run_json(folder, *words)
    assert [note[:15] for note in result["notes"]] == ["1 of 61 rows of"]
    assert result | {"notes": []} == run_json(folder, *ESTIMATE, "own.parquet")


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (("9999,0.5,1",), "there is no row 9999; the target has rows 0 to 2999"),
        (("1,0.5,1", "1,0.5,0"), "row 1 is listed more than once"),
        (("one,0.5,1",), "the column row must be whole numbers"),
        (("1,0.5,",), "no row has a label"),
    ],
)
def test_invalid_target_labels_are_a_one_line_error(
    folder: Path, lines: tuple[str, ...], message: str
) -> None:
    write_labels(folder, *lines)
    words = (*ESTIMATE, "target.parquet", "--target-labels", "labels.csv")
    assert_one_line_error(run(folder, *words), message)


def test_target_labels_need_files_that_are_read_whole(folder: Path) -> None:
    write_labels(folder, "1,0.5,1")
    words = (*ESTIMATE, "target.parquet", "--stream", "--target-labels", "labels.csv")
    message = "--target-labels cannot be used if files are read in batches"
    assert_one_line_error(run(folder, *words), message)


def test_additional_analyses_are_shown_and_written(folder: Path) -> None:
    words = (*ESTIMATE, "target.parquet", "--metric", "all", "--bound", "--margin", "0.05",
             "--replicates", "20")  # fmt: skip
    shown = run(folder, *words, "--html", "page.html").stdout
    for part in ("average precision", "mean over classes", "Lower bound", "SUITABLE"):
        assert part in shown
    details = run(folder, *words, "--verbose").stdout
    for part in ("average precision", "macro", "at least", "SUITABLE"):
        assert part in details
    page = (folder / "page.html").read_text()
    assert "Other results" in page
    assert "Average precision" in page
    additional = run_json(folder, *words)["additional"]
    scopes = {metric["scope"] for metric in additional["metrics"]}
    assert scopes == {"all", "0", "1", "2", "3", "macro"}
    assert additional["bound"]["value"] < additional["suitability"]["target"]
    assert np.isclose(additional["suitability"]["margin"], 0.05)


def test_margin_in_percent_gets_a_suggestion(folder: Path) -> None:
    result = run(folder, *ESTIMATE, "target.parquet", "--margin", "5")
    assert_one_line_error(result, "Did you mean 0.05?")


def test_metrics_are_selected_by_name(folder: Path) -> None:
    words = (*ESTIMATE, "target.parquet", "--metric")
    result = run_json(folder, *words, "f1,average-precision", "--metric", "auroc")
    names = {row["metric"] for row in result["additional"]["metrics"]}
    assert names == {"f1", "average_precision", "auroc"}
    message = "No expected metric is called 'f2'. Did you mean 'f1'?"
    assert_one_line_error(run(folder, *words, "f2"), message)


def test_labels_show_the_falsely_identified_predictions(folder: Path) -> None:
    target = toy_predictions(3000, seed=1)
    assert target.labels is not None
    labels = [int(label) if row < 500 else None for row, label in enumerate(target.labels)]
    pq.write_table(table(target, labels), folder / "some.parquet")
    whole = run_json(folder, *ESTIMATE, "some.parquet")
    values = {row["name"]: row["value"] for row in whole["diagnostics"]}
    assert 0 < values["falsely_correct"] < 0.1
    assert 0 < values["falsely_incorrect"] < 0.1
    streamed = run_json(folder, *ESTIMATE, "some.parquet", "--stream")
    again = {row["name"]: row["value"] for row in streamed["diagnostics"]}
    for name in ("falsely_correct", "falsely_incorrect"):
        assert again[name] == pytest.approx(values[name])


@pytest.mark.parametrize("words", [(), ("--stream",)], ids=["memory", "stream"])
def test_source_as_target_shows_the_bound_of_atc(folder: Path, words: tuple[str, ...]) -> None:
    shown = run(folder, *ESTIMATE, "source.parquet", *words, "--html", "same.html")
    assert shown.returncode == 0, shown.stderr
    text = " ".join(shown.stdout.split())
    assert text.startswith("Source and target are the same rows")
    assert "■ critical" in text
    line = run(folder, *ESTIMATE, "source.parquet", *words, "--quiet").stdout
    assert line.endswith("status critical: source and target are the same rows\n")
    assert "is within 12.1 points of the accuracy with a probability of at least 95 %" in text
    page = (folder / "same.html").read_text()
    assert "Source and target are the same rows" in page
    assert "is within 12.1 points of the accuracy" in page
