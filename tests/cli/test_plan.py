"""Labels that are worth buying, and what is made of those that were bought."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from oodometer.assessment.ppi import MIN_LABELS
from oodometer.core.predictions import Predictions
from oodometer.testing import toy_predictions
from tests.support.command_line import run


def table(rows: Predictions, labels: object) -> pa.Table:
    columns = {f"prob_{j}": rows.probs[:, j] for j in range(rows.k)}
    return pa.table(columns | ({} if labels is None else {"label": labels}))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    source, target = toy_predictions(600), toy_predictions(3000, seed=1)
    pq.write_table(table(source, source.labels), tmp_path / "source.parquet")
    pq.write_table(table(target, None), tmp_path / "target.parquet")
    return tmp_path


def test_a_plan_is_carried_out(folder: Path) -> None:
    words = ("plan", "target.parquet", "--source", "source.parquet", "--half-width", "0.04")
    found = json.loads(run(folder, *words, "--json").stdout)
    assert found["n_labels"] == len(found["rows"]) == len(set(found["rows"]))
    assert MIN_LABELS <= found["n_labels"] < found["n_labels_without_scores"]
    done = run(folder, *words, "--output", "to_label.csv")
    assert f"Label {found['n_labels']:,} of 3,000 rows" in done.stdout
    lines = (folder / "to_label.csv").read_text().splitlines()
    assert lines[0] == "row,confidence,label"
    assert [int(line.split(",")[0]) for line in lines[1:]] == found["rows"]

    target = toy_predictions(3000, seed=1)
    assert target.labels is not None
    labels: list[int | None] = [None] * 3000
    for row in found["rows"]:
        labels[row] = int(target.labels[row])
    pq.write_table(table(target, labels), folder / "labelled.parquet")
    after = json.loads(
        run(folder, "estimate", "source.parquet", "labelled.parquet", "--json").stdout
    )
    best = after["headline"]
    assert best["method"] == "ppi++"
    assert best["low"] <= target.correct.mean() <= best["high"]
    assert (best["high"] - best["low"]) / 2 == pytest.approx(0.04, abs=0.01)
    assert "whatever has shifted" in after["verdict"]


def test_without_an_output_the_rows_are_printed(folder: Path) -> None:
    done = run(folder, "plan", "target.parquet", "--half-width", "0.2")
    assert done.returncode == 0
    listed = done.stdout.partition(").")[2]
    assert len(listed.split(",")) == MIN_LABELS


def test_a_few_labels_have_an_interval_by_themselves(folder: Path) -> None:
    target = toy_predictions(3000, seed=1)
    assert target.labels is not None
    labels = [int(label) if row < 10 else None for row, label in enumerate(target.labels)]
    pq.write_table(table(target, labels), folder / "ten.parquet")
    found = json.loads(run(folder, "estimate", "source.parquet", "ten.parquet", "--json").stdout)
    assert found["headline"]["method"] == "doc"
    assert found["estimates"][-1]["method"] == "wilson"
    assert found["estimates"][-1]["value"] == target.correct[:10].mean()


def test_a_target_that_is_labelled_all_through_is_not_peeped_at(folder: Path) -> None:
    target = toy_predictions(3000, seed=1)
    pq.write_table(table(target, target.labels), folder / "whole.parquet")
    done = run(folder, "estimate", "source.parquet", "whole.parquet", "--json")
    assert "Every row of whole.parquet has a label; the labels are ignored." in done.stderr
    assert json.loads(done.stdout)["headline"]["method"] == "doc"


@pytest.mark.parametrize(
    ("width", "said"),
    [("2", "half_width is a fraction above 0 and below 0.5; got 2. Did you mean 0.02?"),
     ("0", "half_width is a fraction above 0"), ("-1", "half_width is a fraction above 0")],
)  # fmt: skip
def test_no_width_is_refused(folder: Path, width: str, said: str) -> None:
    done = run(folder, "plan", "target.parquet", "--half-width", width)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr


def test_an_odd_label_is_named(folder: Path) -> None:
    target = toy_predictions(50, seed=1)
    pq.write_table(table(target, [9] + [None] * 49), folder / "odd.parquet")
    done = run(folder, "estimate", "source.parquet", "odd.parquet")
    assert done.returncode == 2
    assert "9" in done.stderr
    assert "\n" not in done.stderr.strip()


def test_more_is_shown_and_written(folder: Path) -> None:
    asked = ("--metric", "all", "--bound", "--margin", "0.05", "--replicates", "20")
    words = ("estimate", "source.parquet", "target.parquet", *asked)
    shown = run(folder, *words, "--html", "page.html").stdout
    for part in ("average precision", "macro", "At least", "SUITABLE"):
        assert part in shown
    page = (folder / "page.html").read_text()
    assert "More than accuracy" in page
    assert "Average precision" in page
    found = json.loads(run(folder, *words, "--json").stdout)["additional"]
    assert {one["scope"] for one in found["metrics"]} == {"all", "0", "1", "2", "3", "macro"}
    assert found["bound"]["value"] < found["suitability"]["target"]
    assert np.isclose(found["suitability"]["margin"], 0.05)


def test_a_margin_in_points_is_asked_back(folder: Path) -> None:
    done = run(folder, "estimate", "source.parquet", "target.parquet", "--margin", "5")
    assert done.returncode == 2
    assert "Did you mean 0.05?" in done.stderr


def write_labels(folder: Path, *lines: str) -> None:
    (folder / "labels.csv").write_text("\n".join(["row,confidence,label", *lines]) + "\n")


def test_target_labels_come_from_a_file_of_their_own(folder: Path) -> None:
    """The same numbers as with the labels in the target's own column."""
    target = toy_predictions(3000, seed=1)
    assert target.labels is not None
    labels = [int(label) if row < 60 else None for row, label in enumerate(target.labels)]
    pq.write_table(table(target, labels), folder / "own.parquet")
    pq.write_table(table(target, None), folder / "bare.parquet")
    write_labels(folder, *(f"{row},0.5,{labels[row]}" for row in range(60)), "61,0.5,")
    words = ("estimate", "source.parquet", "bare.parquet", "--target-labels", "labels.csv")
    found = run(folder, *words, "--json")
    own = run(folder, "estimate", "source.parquet", "own.parquet", "--json")
    assert (found.returncode, found.stderr) == (0, "")
    assert json.loads(found.stdout) == json.loads(own.stdout)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (("9999,0.5,1",), "there is no row 9999; the target has rows 0 to"),
        (("1,0.5,1", "1,0.5,0"), "row 1 is listed more than once"),
        (("one,0.5,1",), "the column row must be whole numbers"),
        (("1,0.5,",), "no row has a label"),
    ],
)
def test_target_labels_that_do_not_fit(folder: Path, lines: tuple[str, ...], message: str) -> None:
    write_labels(folder, *lines)
    done = run(
        folder, "estimate", "source.parquet", "target.parquet", "--target-labels", "labels.csv"
    )
    assert done.returncode == 2
    assert message in done.stderr


def test_target_labels_need_numbered_rows(folder: Path) -> None:
    write_labels(folder, "1,0.5,1")
    words = (
        "estimate",
        "source.parquet",
        "target.parquet",
        "--stream",
        "--target-labels",
        "labels.csv",
    )
    done = run(folder, *words)
    assert done.returncode == 2
    assert "--target-labels cannot be used if files are read in batches" in done.stderr


def test_metrics_are_selected_by_name(folder: Path) -> None:
    words = ("estimate", "source.parquet", "target.parquet", "--json", "--metric")
    found = json.loads(run(folder, *words, "f1,average-precision", "--metric", "auroc").stdout)
    names = {row["metric"] for row in found["additional"]["metrics"]}
    assert names == {"f1", "average_precision", "auroc"}
    wrong = run(folder, *words, "f2")
    assert wrong.returncode == 2
    assert "No expected metric is called 'f2'. Did you mean 'f1'?" in wrong.stderr
