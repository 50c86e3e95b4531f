"""Inputs that people try first: models with data, classes only, several formats, filled-in plans."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
import skops.io
from sklearn.ensemble import RandomForestClassifier

from tests.support.command_line import assert_one_line_error, run, run_json

NAMES = np.array(["cat", "dog", "fox"])
N = 400


def outputs(seed: int, *, n: int = N) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 3, n)
    scores = rng.normal(size=(n, 3))
    scores[np.arange(n), labels] += 2
    probs = np.exp(scores)
    return probs / probs.sum(axis=1, keepdims=True), NAMES[labels]


def write_outputs(folder: Path) -> None:
    for seed, name in enumerate(("source", "target")):
        probs, labels = outputs(seed)
        columns: dict[str, Any] = {f"prob_{each}": probs[:, j] for j, each in enumerate(NAMES)}
        columns |= {
            "region": np.array(["north", "south"])[np.arange(N) % 2],
            "sex": np.array(["f", "m"])[np.arange(N) // 2 % 2],
            "id": [f"row {number}" for number in range(N)],
        }
        classes: dict[str, Any] = {"pred": NAMES[probs.argmax(axis=1)]}
        if name == "source":
            columns["label"] = classes["label"] = labels
        pq.write_table(pa.table(columns), folder / f"{name}.parquet")
        pa_csv.write_csv(pa.table(classes), folder / f"{name}_classes.csv")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_outputs(tmp_path)
    return tmp_path


ESTIMATE = ("estimate", "source.parquet", "target.parquet", "--replicates", "20")


# Model and data ---------------------------------------------------------------------------------


@pytest.fixture
def forest(tmp_path: Path) -> Path:
    """Return a folder with a random forest, labelled data and data without labels."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(700, 3))
    labels = np.array(["ill", "well"])[(rows[:, 0] + 0.5 * rng.normal(size=700) > 0).astype(int)]
    fitted = RandomForestClassifier(10, min_samples_leaf=5, random_state=0)
    skops.io.dump(fitted.fit(rows[:300], labels[:300]), tmp_path / "forest.skops")
    for name, part in (("val", slice(300, 500)), ("new", slice(500, 700))):
        columns: dict[str, Any] = {f"x{j}": rows[part, j] for j in range(3)}
        columns["region"] = np.array(["north", "south"])[np.arange(200) % 2]
        if name == "val":
            columns["label"] = labels[part]
        pa_csv.write_csv(pa.table(columns), tmp_path / f"{name}.csv")
    return tmp_path


INPUTS = ("--inputs", "x0,x1,x2")


def test_predict_then_estimate_equals_estimate_with_a_model(forest: Path) -> None:
    for name, output in (("val", "source.csv"), ("new", "target.parquet")):
        result = run(forest, "predict", "forest.skops", f"{name}.csv", "-o", output, *INPUTS)
        assert result.returncode == 0, result.stderr
    assert "200 rows of new.csv to target.parquet, without labels" in result.stdout
    source = pa_csv.read_csv(forest / "source.csv")
    assert source.column_names == ["prob_ill", "prob_well", "label"]
    files = run_json(forest, "estimate", "source.csv", "target.parquet", "--replicates", "20")
    direct = run_json(
        forest, "estimate", "--model", "forest.skops", "--source-data", "val.csv",
        "--target-data", "new.csv", *INPUTS, "--segment-by", "region", "--replicates", "20",
    )  # fmt: skip
    assert direct["source_accuracy"] == files["source_accuracy"]
    assert [each["value"] for each in direct["estimates"]] == pytest.approx(
        [each["value"] for each in files["estimates"]]
    )
    assert [segment["segment"] for segment in direct["segments"]] == ["north", "south"]


def test_label_column_of_the_data_can_have_any_name(forest: Path) -> None:
    table = pa_csv.read_csv(forest / "val.csv")
    names = ["diagnosis" if name == "label" else name for name in table.column_names]
    pa_csv.write_csv(table.rename_columns(names), forest / "named.csv")
    words = (
        "estimate", "--model", "forest.skops", "--target-data", "new.csv", *INPUTS,
        "--replicates", "20", "--source-data",
    )  # fmt: skip
    named = run_json(forest, *words, "named.csv", "--label-column", "diagnosis")
    assert named["estimates"] == run_json(forest, *words, "val.csv")["estimates"]
    assert_one_line_error(
        run(forest, *words, "named.csv"),
        "named.csv has no labels",
        "Columns: x0, x1, x2, region, diagnosis.",
        "name the column with --label-column",
    )
    renamed = ["truth" if name == "diagnosis" else name for name in names]
    pa_csv.write_csv(table.rename_columns(renamed), forest / "named.csv")
    assert_one_line_error(run(forest, *words, "named.csv"), "name it with --label-column truth")


def test_report_of_a_model_is_the_same_by_both_commands(forest: Path) -> None:
    pytest.importorskip("altair")
    words = (
        "--model", "forest.skops", "--source-data", "val.csv", "--target-data", "new.csv",
        *INPUTS, "--replicates", "20", "--html", "report.html",
    )  # fmt: skip
    pages = []
    for command in ("estimate", "report"):
        result = run(forest, command, *words)
        assert result.returncode == 0, result.stderr
        page = (forest / "report.html").read_text()
        assert "SHA-256 of val.csv" in page
        assert f"<code>oodometer {command} --model" in page
        pages.append(page.replace(f"<code>oodometer {command} ", ""))
    assert pages[0] == pages[1]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--model", "forest.skops", "--source-data", "val.csv"), "--target-data is missing"),
        (("--source-data", "val.csv", "--target-data", "new.csv"), "--model is missing"),
        (("val.csv", "new.csv", "--model", "forest.skops"), "Both SOURCE (val.csv) and --model"),
        (("val.csv",), "TARGET is missing"),
        ((), "SOURCE is missing"),
        (("val.csv", "new.csv", "--size", "8"), "--size applies to --model"),
        (
            ("--model", "forest.skops", "--source-data", "val.csv", "--target-data", "new.csv",
             "--stream"),
            "--stream applies to files of predictions",
        ),
        (
            ("--model", "forest.skops", "--source-data", "new.csv", "--target-data", "val.csv",
             *INPUTS),
            "val.csv has labels: SOURCE and TARGET seem to be swapped",
        ),
    ],
)  # fmt: skip
def test_contradictory_or_missing_model_options(
    forest: Path, words: tuple[str, ...], message: str
) -> None:
    assert_one_line_error(run(forest, "estimate", *words), message)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("pacs",), "'pacs' is a domain group, and DOMAIN is missing"),
        (("val.csv", "-o", "out.txt"), "must end with .parquet or .csv"),
        (("val.csv", "--rows", "3"), "--rows applies to a domain"),
        (("none.csv",), "There is no file or folder 'none.csv'"),
    ],
)
def test_predict_reports_what_is_missing(
    forest: Path, words: tuple[str, ...], message: str
) -> None:
    assert_one_line_error(run(forest, "predict", "forest.skops", *words), message)


def test_model_of_classes_only_writes_a_pred_column(forest: Path) -> None:
    (forest / "rule.py").write_text(
        "def rule(frame):\n    return ['ill' if x < 0 else 'well' for x in frame['x0']]\n"
    )
    for name in ("val", "new"):
        result = run(
            forest, "predict", "rule:rule", f"{name}.csv", "-o", f"{name}.parquet",
            "--class-names", "ill,well",
        )  # fmt: skip
        assert result.returncode == 0, result.stderr
    assert pq.read_table(forest / "val.parquet").column_names == ["pred", "label"]
    result = run_json(forest, "estimate", "val.parquet", "new.parquet", "--replicates", "20")
    assert [each["method"] for each in result["estimates"]] == ["bbse"]


# Classes without scores -------------------------------------------------------------------------


def test_predicted_classes_suffice_for_bbse_and_gde(folder: Path) -> None:
    words = ("estimate", "source_classes.csv", "target_classes.csv", "--replicates", "20")
    result = run_json(folder, *words, "--other-model", "target_classes.csv")
    methods = {each["method"]: each["value"] for each in result["estimates"]}
    assert set(methods) == {"bbse", "gde"}
    assert methods["gde"] == 1.0
    probs, labels = outputs(0)
    assert result["source_accuracy"] == np.mean(NAMES[probs.argmax(axis=1)] == labels)


def test_target_that_lacks_a_class_is_numbered_as_the_source(folder: Path) -> None:
    (folder / "two.csv").write_text("pred\n" + "fox\n" * 30 + "dog\n" * 30)
    result = run_json(folder, "estimate", "source_classes.csv", "two.csv", "--replicates", "20")
    assert result["k"] == 3
    # A source with scores and a target with classes only.
    mixed = run_json(folder, "estimate", "source.parquet", "two.csv", "--replicates", "20")
    assert [each["method"] for each in mixed["estimates"]] == ["bbse"]


def test_unknown_class_and_inapplicable_method_say_what_would_help(folder: Path) -> None:
    (folder / "odd.csv").write_text("pred\nowl\nfox\n")
    assert_one_line_error(
        run(folder, "estimate", "source_classes.csv", "odd.csv"),
        "odd.csv: classes has 'owl' in row 0, which is not a class. Classes: cat, dog, fox.",
        "name all classes with --class-names",
    )
    assert_one_line_error(
        run(folder, "estimate", "source_classes.csv", "target_classes.csv", "--method", "atc-mc"),
        "Most methods need scores of source and target: one column per class, prob_…",
    )


def write_classes(folder: Path) -> None:
    """Write files of predicted classes with regions: source, target, and a target with some labels."""
    rng = np.random.default_rng(5)
    for name, n, shares in (("val", 900, (0.4, 0.3, 0.3)), ("new", 700, (0.2, 0.5, 0.3))):
        labels = rng.choice(3, n, p=shares)
        predicted = np.where(rng.random(n) < 0.8, labels, rng.integers(0, 3, n))
        columns: dict[str, Any] = {
            "pred": NAMES[predicted],
            "region": np.array(["north", "south"])[rng.integers(0, 2, n)],
        }
        pq.write_table(pa.table(columns), folder / f"{name}.parquet", row_group_size=200)
        known = np.arange(n) < (n if name == "val" else 80)
        columns["label"] = np.where(known, NAMES[labels], "")
        pq.write_table(pa.table(columns), folder / f"{name}_labels.parquet", row_group_size=200)
    (folder / "parts").mkdir()
    table = pq.read_table(folder / "new.parquet")
    for number, start in enumerate((0, 250, 400)):
        stop = (250, 400, 700)[number]
        pq.write_table(table.slice(start, stop - start), folder / "parts" / f"{number}.parquet")


@pytest.mark.parametrize(
    "words", [("--stream",), ("--workers", "2"), ("--stream", "--segment-by", "region")]
)
@pytest.mark.parametrize("target", ["new.parquet", "new_labels.parquet"])
def test_predicted_classes_are_read_in_batches(
    tmp_path: Path, words: tuple[str, ...], target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_classes(tmp_path)
    files = ("estimate", "val_labels.parquet", target, "--replicates", "20")
    monkeypatch.setattr("oodometer.data.batch_reader.PARTITION_ROWS", 200)
    batches = run_json(tmp_path, *files, *words)
    whole = run_json(tmp_path, *files, *words[1:] if "--stream" in words else ())
    assert batches["headline"] == whole["headline"]
    assert "bbse" in [each["method"] for each in batches["estimates"]]
    assert batches["estimates"] == whole["estimates"]
    assert batches["diagnostics"] == whole["diagnostics"]
    for first, second in zip(batches["segments"], whole["segments"], strict=True):
        assert first["segment"] == second["segment"]
        assert first["value"] == pytest.approx(second["value"], abs=1e-9)


def test_folders_of_predicted_classes_are_one_target(tmp_path: Path) -> None:
    write_classes(tmp_path)
    words = ("estimate", "val_labels.parquet", "--replicates", "20")
    parts = run_json(tmp_path, *words, "parts")
    assert parts["estimates"] == run_json(tmp_path, *words, "new.parquet")["estimates"]
    pq.write_table(pa.table({"pred": ["cat", "wolf"]}), tmp_path / "parts" / "3.parquet")
    assert_one_line_error(
        run(tmp_path, *words, "parts"),
        "3.parquet: ",
        "'wolf' in row 1",
        "name all classes with --class-names",
    )
    pq.write_table(pa.table({"prob": [0.1, 0.2]}), tmp_path / "parts" / "3.parquet")
    assert_one_line_error(run(tmp_path, *words, "parts"), "different columns")


def test_rows_to_label_are_planned_from_predicted_classes(tmp_path: Path) -> None:
    write_classes(tmp_path)
    words = ("plan", "new.parquet", "--source", "val_labels.parquet", "--labels", "60")
    result = run(tmp_path, *words, "-o", "to_label.csv")
    assert result.returncode == 0, result.stderr
    assert result.stdout == "Label 60 of 700 rows for a confidence interval of ±8.4 points.\n"
    lines = (tmp_path / "to_label.csv").read_text().splitlines()
    assert lines[0] == "row,label"
    assert len(lines) == 61


def test_npz_with_predicted_classes(folder: Path) -> None:
    probs, labels = outputs(0)
    pred = NAMES[probs.argmax(axis=1)]
    np.savez(folder / "source.npz", pred=pred, labels=labels)
    np.savez(folder / "target.npz", pred=pred[:100])
    result = run_json(folder, "estimate", "source.npz", "target.npz", "--replicates", "20")
    assert result["source_accuracy"] == np.mean(pred == labels)


# Formats ----------------------------------------------------------------------------------------


def write_as(table: Any, path: Path) -> None:
    if path.suffix == ".tsv":
        pa_csv.write_csv(table, path, pa_csv.WriteOptions(delimiter="\t"))
        return
    path.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))


@pytest.mark.parametrize("extension", [".tsv", ".jsonl", ".ndjson"])
@pytest.mark.parametrize("words", [(), ("--stream",)], ids=["whole", "batches"])
def test_text_formats_give_the_estimates_of_parquet(
    folder: Path, extension: str, words: tuple[str, ...]
) -> None:
    for name in ("source", "target"):
        write_as(pq.read_table(folder / f"{name}.parquet"), folder / f"{name}{extension}")
    expected = run_json(folder, *ESTIMATE, *words)
    files = (f"source{extension}", f"target{extension}")
    result = run_json(folder, "estimate", *files, "--replicates", "20", *words)
    assert result["headline"]["value"] == pytest.approx(expected["headline"]["value"])


def test_json_lines_that_begin_with_whole_numbers_are_read_in_batches(folder: Path) -> None:
    probs, labels = outputs(3)
    rows = [{"probs": [1, 0, 0], "label": "cat"}, *(
        {"probs": row.tolist(), "label": str(label)} for row, label in zip(probs, labels, strict=True)
    )]  # fmt: skip
    (folder / "lists.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    words = ("lists.jsonl", "lists.jsonl", "--class-names", "cat,dog,fox", "--replicates", "20")
    whole = run_json(folder, "estimate", *words)
    batches = run_json(folder, "estimate", *words, "--stream")
    assert batches["n_target"] == whole["n_target"] == N + 1


# Labels of target rows --------------------------------------------------------------------------


def fill_in(folder: Path, n: int, *columns: str) -> None:
    """Fill in the label of the first n rows of to_label.csv; write the columns to done.csv."""
    _, labels = outputs(1)
    with (folder / "to_label.csv").open() as file:
        rows = list(csv.DictReader(file))
    for row in rows[:n]:
        row["label"] = labels[int(row["row"])]
    with (folder / "done.csv").open("w") as file:
        writer = csv.DictWriter(file, columns or list(rows[0]), extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)


@pytest.mark.parametrize("columns", [(), ("row", "label"), ("id", "label")], ids=str)
def test_filled_in_plan_is_accepted_as_it_is(folder: Path, columns: tuple[str, ...]) -> None:
    planned = run(folder, "plan", "target.parquet", "--labels", "80", "-o", "to_label.csv")
    assert planned.returncode == 0, planned.stderr
    assert (folder / "to_label.csv").read_text().startswith("row,id,confidence,label\n")
    fill_in(folder, 50, *columns)
    result = run_json(folder, *ESTIMATE, "--target-labels", "done.csv")
    (estimate,) = (each for each in result["estimates"] if each["method"] == "ppi++")
    assert estimate["facts"]["labels"] == 50
    probs, labels = outputs(1)
    truth = np.mean(NAMES[probs.argmax(axis=1)] == labels)
    assert estimate["low"] < truth < estimate["high"]


def test_plan_that_is_not_filled_in_or_does_not_fit_is_an_error(folder: Path) -> None:
    run(folder, "plan", "target.parquet", "--labels", "40", "-o", "to_label.csv")
    words = (*ESTIMATE, "--target-labels")
    assert_one_line_error(run(folder, *words, "to_label.csv"), "no row has a label")
    fill_in(folder, 30, "confidence", "label")
    assert_one_line_error(run(folder, *words, "done.csv"), "neither a column row nor a column id")
    fill_in(folder, 30)
    table = pq.read_table(folder / "target.parquet")
    pq.write_table(table.take(np.arange(N)[::-1]), folder / "target.parquet")
    assert_one_line_error(run(folder, *words, "done.csv"), "changed or sorted after the rows")
    pq.write_table(table.drop_columns(["id"]), folder / "target.parquet")
    fill_in(folder, 30, "id", "label")
    assert_one_line_error(run(folder, *words, "done.csv"), "the target has no column id")
    (folder / "done.csv").write_text("row,label\n7,cat\n7,dog\n")
    assert_one_line_error(run(folder, *words, "done.csv"), "row 7 is listed more than once")


# Segments and history ---------------------------------------------------------------------------


@pytest.mark.parametrize("words", [(), ("--stream",)], ids=["whole", "batches"])
def test_several_segment_columns_are_combined(folder: Path, words: tuple[str, ...]) -> None:
    result = run_json(folder, *ESTIMATE, "--segment-by", "region", "--segment-by", "sex", *words)
    segments = {segment["segment"]: segment["n"] for segment in result["segments"]}
    assert segments == {
        "north, f": 100, "north, m": 100, "south, f": 100, "south, m": 100
    }  # fmt: skip
    assert all(segment["source_accuracy"] is not None for segment in result["segments"])


def test_unknown_segment_column_is_named(folder: Path) -> None:
    words = ("--segment-by", "region", "--segment-by", "age")
    assert_one_line_error(run(folder, *ESTIMATE, *words), "There is no column 'age'")


def test_history_is_a_folder_or_a_pattern(folder: Path) -> None:
    (folder / "past").mkdir()
    for seed in range(6):
        probs, labels = outputs(10 + seed, n=200)
        columns = {f"prob_{each}": probs[:, j] for j, each in enumerate(NAMES)}
        pq.write_table(pa.table({**columns, "label": labels}), folder / f"past/{seed}.parquet")
    listed = [word for seed in range(6) for word in ("--history", f"past/{seed}.parquet")]
    expected = run_json(folder, *ESTIMATE, *listed)["shift"]
    assert expected is not None
    for location in ("past", "past/*.parquet"):
        assert run_json(folder, *ESTIMATE, "--history", location)["shift"] == expected
    assert_one_line_error(run(folder, *ESTIMATE, "--history", "past/*.csv"), "matches no file")


# Rounded probabilities --------------------------------------------------------------------------


@pytest.mark.parametrize("decimals", [1, 2, 3])
@pytest.mark.parametrize("words", [(), ("--stream",)], ids=["whole", "batches"])
@pytest.mark.parametrize("rounded", ["source", "target"])
def test_rounded_probabilities_are_accepted_in_files(
    tmp_path: Path, decimals: int, words: tuple[str, ...], rounded: str
) -> None:
    for seed, name in enumerate(("source", "target")):
        rng = np.random.default_rng(seed)
        probs = rng.dirichlet(np.full(12, 0.4), 300)
        columns: dict[str, Any] = {"label": rng.integers(0, 12, 300)} if name == "source" else {}
        probs = probs.round(decimals) if name == rounded else probs
        columns |= {f"prob_{j}": probs[:, j] for j in range(12)}
        pa_csv.write_csv(pa.table(columns), tmp_path / f"{name}.csv")
    files = ("source.csv", "target.csv", "--replicates", "20", "--method", "ac,doc")
    result = run_json(tmp_path, "estimate", *files, *words)
    assert len(result["estimates"]) >= 2
    if not words or rounded == "source":
        assert any("because of rounding" in note for note in result["notes"])
