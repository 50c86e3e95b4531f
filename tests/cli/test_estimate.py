"""The command line, run as users run it."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

import oodometer
from oodometer.core.predictions import Predictions
from oodometer.testing import toy_pair
from tests.support.command_line import run

NAMES = ("cat", "dog", "eel", "fox")


def columns(rows: Predictions, labelled: bool) -> dict[str, Any]:
    table: dict[str, Any] = {f"prob_{j}": rows.probs[:, j] for j in range(rows.k)}
    if labelled:
        table["label"] = rows.labels
    return table


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    source, target = toy_pair()
    pq.write_table(pa.table(columns(source, True)), tmp_path / "source.parquet")
    extra = {"site": np.array(["north", "south"])[np.arange(target.n) % 2]}
    pq.write_table(pa.table(columns(target, False) | extra), tmp_path / "target.parquet")
    pq.write_table(pa.table(columns(target.other_models[0], False)), tmp_path / "second.parquet")
    return tmp_path


def test_a_process_of_its_own_says_the_same(folder: Path) -> None:
    words = ("estimate", "source.parquet", "target.parquet", "--json")
    command = [sys.executable, "-m", "oodometer", *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, run(folder, *words).stdout)
    command = [sys.executable, "-m", "oodometer", "estimate", "nowhere.csv", "target.parquet"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    expected = "expected a table or an .npz file. Check the path."
    assert done.stderr == f"oodometer: There is no file 'nowhere.csv'; {expected}\n"


def estimated(folder: Path, *words: str) -> dict[str, Any]:
    done = run(folder, "estimate", *words, "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert isinstance(found, dict)
    return found


def test_json_has_the_promised_keys(folder: Path) -> None:
    found = estimated(folder, "source.parquet", "target.parquet")
    assert {"n_source", "n_target", "k", "source_accuracy", "temperature", "estimates",
            "headline", "diagnostics"} <= set(found)  # fmt: skip
    assert (found["n_source"], found["n_target"], found["k"]) == (400, 300, 4)
    for one in found["estimates"]:
        assert {"method", "value", "low", "high", "assumes"} <= set(one)
        assert 0 <= one["low"] <= one["value"] <= one["high"] <= 1
    for light in found["diagnostics"]:
        assert {"name", "value", "status", "meaning"} <= set(light)
    assert {one["method"] for one in found["skipped"]} == {"gde", "atc-near", "aline-s", "aline-d"}


def test_it_says_what_the_library_says(folder: Path) -> None:
    source, target = toy_pair()
    found = oodometer.estimate(
        Predictions.from_probs(source.probs, labels=source.labels),
        Predictions.from_probs(target.probs),
        seed=3,
    )
    shown = estimated(folder, "source.parquet", "target.parquet", "--seed", "3")
    assert shown == json.loads(json.dumps(found.to_dict()))


def test_a_second_model_brings_gde(folder: Path) -> None:
    _, target = toy_pair()
    agree = float((target.classes == target.other_models[0].classes).mean())
    found = estimated(folder, "source.parquet", "target.parquet", "--other-model", "second.parquet")
    assert {e["method"]: e["value"] for e in found["estimates"]}["gde"] == pytest.approx(agree)


def test_methods_can_be_chosen(folder: Path) -> None:
    words = ("--method", "doc", "--method", "ac")
    found = estimated(folder, "source.parquet", "target.parquet", *words)
    assert [e["method"] for e in found["estimates"]] == ["doc", "ac"]
    assert found["headline"]["method"] == "doc"


def test_the_table_shows_every_method_and_light(folder: Path) -> None:
    done = run(folder, "estimate", "source.parquet", "target.parquet", "--segment-by", "site")
    assert done.returncode == 0
    for word in (
        "atc-mc",
        "doc",
        "estimator_spread",
        "north",
        "south",
        "not applicable",
        "assumption",
    ):
        assert word in done.stdout
    assert done.stderr == ""


def test_by_gives_an_estimate_a_segment(folder: Path) -> None:
    found = estimated(folder, "source.parquet", "target.parquet", "--segment-by", "site")
    assert [(s["segment"], s["n"]) for s in found["segments"]] == [("north", 150), ("south", 150)]
    source, target = toy_pair()
    north = Predictions.from_probs(target.probs[::2])
    alone = oodometer.estimate(
        Predictions.from_probs(source.probs, labels=source.labels), north, methods=["atc-mc"]
    )
    assert found["segments"][0]["value"] == pytest.approx(alone["atc-mc"].value)
    assert found["segments"][0]["low"] < found["segments"][0]["value"]


def test_by_a_moment_in_time_gives_an_estimate_a_day(folder: Path) -> None:
    _, target = toy_pair()
    moments = np.datetime64("2026-03-01T08:00:00") + np.arange(target.n) * np.timedelta64(15, "m")
    table = pa.table(columns(target, False) | {"at": moments})
    pq.write_table(table, folder / "dated.parquet")
    found = estimated(folder, "source.parquet", "dated.parquet", "--segment-by", "at")
    days = [segment["segment"] for segment in found["segments"]]
    assert days == ["2026-03-01", "2026-03-02", "2026-03-03", "2026-03-04"]


@pytest.mark.parametrize(("limit", "code"), [("0.05", 0), ("0.99", 1)])
def test_a_gate_fails_with_1_when_the_headline_is_under_it(
    folder: Path, limit: str, code: int
) -> None:
    done = run(folder, "estimate", "source.parquet", "target.parquet", "--fail-below", limit)
    assert done.returncode == code
    assert "Accuracy on the target" in done.stdout


def npz(path: Path, rows: dict[str, Any]) -> None:
    probs = np.stack([value for name, value in rows.items() if name != "label"], axis=1)
    more = {"labels": rows["label"]} if "label" in rows else {}
    np.savez(path, probs=probs, **more)


WRITERS: dict[str, Callable[[Path, dict[str, Any]], None]] = {
    ".csv": lambda path, rows: pyarrow.csv.write_csv(pa.table(rows), path),
    ".feather": lambda path, rows: pyarrow.feather.write_feather(pa.table(rows), path),
    ".arrow": lambda path, rows: pyarrow.feather.write_feather(pa.table(rows), path),
    ".npz": npz,
}


@pytest.mark.parametrize("ending", WRITERS)
def test_every_format_gives_the_same_answer(folder: Path, ending: str) -> None:
    source, target = toy_pair()
    WRITERS[ending](folder / f"source{ending}", columns(source, True))
    WRITERS[ending](folder / f"target{ending}", columns(target, False))
    found = estimated(folder, f"source{ending}", f"target{ending}")
    expected = estimated(folder, "source.parquet", "target.parquet")
    for one, other in zip(found["estimates"], expected["estimates"], strict=True):
        assert one["value"] == pytest.approx(other["value"], abs=1e-6)


def test_named_columns_named_classes_and_another_order_of_classes(folder: Path) -> None:
    source, target = toy_pair()
    assert source.labels is not None
    one = {f"score_{NAMES[j]}": source.probs[:, j] for j in range(4)}
    one["truth"] = np.array(NAMES)[source.labels]
    other = {f"score_{NAMES[j]}": target.probs[:, j] for j in (2, 0, 3, 1)}
    pq.write_table(pa.table(one), folder / "a.parquet")
    pq.write_table(pa.table(other), folder / "b.parquet")
    words = ("--prob-columns", "score_", "--label-column", "truth")
    found = estimated(folder, "a.parquet", "b.parquet", *words)
    expected = estimated(folder, "source.parquet", "target.parquet")
    for a, b in zip(found["estimates"], expected["estimates"], strict=True):
        assert a["value"] == pytest.approx(b["value"], abs=1e-9)


def test_a_list_column_takes_its_class_names_from_the_command(folder: Path) -> None:
    source, target = toy_pair()
    assert source.labels is not None
    named = {"probs": source.probs.tolist(), "label": np.array(NAMES)[source.labels]}
    pq.write_table(pa.table(named), folder / "a.parquet")
    pq.write_table(pa.table({"probs": target.probs.tolist()}), folder / "b.parquet")
    found = estimated(folder, "a.parquet", "b.parquet", "--class-names", "cat,dog,eel,fox")
    expected = estimated(folder, "source.parquet", "target.parquet")
    assert found["headline"]["value"] == pytest.approx(expected["headline"]["value"])
    done = run(folder, "estimate", "a.parquet", "b.parquet", "--class-names", "cat,dog,eel,gnu")
    assert done.returncode == 2
    assert "'fox'" in done.stderr


def test_a_warning_is_one_line(folder: Path) -> None:
    source, _ = toy_pair()
    logits = {f"logit_{j}": source.probs[:, j] for j in range(4)} | {"label": source.labels}
    pq.write_table(pa.table(logits), folder / "odd.parquet")
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        done = run(folder, "estimate", "odd.parquet", "target.parquet", "--json")
    assert done.returncode == 0
    assert done.stderr.startswith("oodometer: warning: These logits are all between 0 and 1")
    assert done.stderr.count("\n") == 1


def test_labels_in_the_target_file_are_never_read(folder: Path) -> None:
    _, target = toy_pair()
    table = columns(target, False) | {"label": ["rubbish"] * target.n}
    pq.write_table(pa.table(table), folder / "planted.parquet")
    found = estimated(folder, "source.parquet", "planted.parquet")
    assert found == estimated(folder, "source.parquet", "target.parquet")


def test_html_writes_one_page_and_says_where(folder: Path) -> None:
    words = (
        "estimate",
        "source.parquet",
        "target.parquet",
        "--html",
        "r.html",
        "--segment-by",
        "site",
    )
    done = run(folder, *words)
    assert done.returncode == 0
    assert "Report written to r.html" in done.stderr
    page = (folder / "r.html").read_text()
    assert "<html" in page
    assert "north" in page
    assert "SHA-256 of source.parquet" in page


def test_temperature_may_be_left_out_or_given(folder: Path) -> None:
    pair = ("source.parquet", "target.parquet")
    fitted = estimated(folder, *pair)
    plain = estimated(folder, *pair, "--temperature", "none")
    again = estimated(folder, *pair, "--temperature", str(fitted["temperature"]))
    assert plain["temperature"] is None
    values = [{e["method"]: e["value"] for e in found["estimates"]}
              for found in (fitted, plain, again)]  # fmt: skip
    assert values[0]["ac"] != values[1]["ac"]
    assert values[0] == values[2]


def broken(folder: Path) -> dict[str, tuple[tuple[str, ...], str]]:
    """Name → (words after `estimate`, what the one line must say)."""
    source, target = toy_pair()
    assert source.labels is not None
    good = columns(source, True)

    def saved(name: str, table: dict[str, Any]) -> str:
        pq.write_table(pa.table(table), folder / name)
        return name

    whole = (folder / "source.parquet").read_bytes()
    (folder / "cut.parquet").write_bytes(whole[: len(whole) // 2])
    lines = ["prob_0,prob_1,label", *["0.5,0.5,0"] * 20]
    (folder / "text.csv").write_text("\n".join([*lines, "0.5,maybe,1"]))
    (folder / "hole.csv").write_text("\n".join([*lines[:18], "0.5,nan,1", *lines[18:]]))
    (folder / "twice.csv").write_text("prob_0,prob_1,prob_1,label\n0.5,0.5,0.5,1\n")
    nan = source.probs.copy()
    nan[17, 2] = np.nan
    with_nan = {f"prob_{j}": nan[:, j] for j in range(4)} | {"label": source.labels}
    three = {f"prob_{j}": np.full(9, 1 / 3) for j in range(3)}
    empty = {name: np.asarray(value)[:0] for name, value in good.items()}
    logits = {f"prob_{j}": np.asarray(target.scores)[:, j] for j in range(4)}
    wrong = good | {"label": np.where(np.arange(400) == 5, 4, source.labels)}
    ok = "target.parquet"
    return {
        "missing file": (("nowhere.parquet", ok), "There is no file 'nowhere.parquet'"),
        "unknown ending": (("source.xlsx", ok), "unknown extension"),
        "truncated": (("cut.parquet", ok), "cut.parquet can't be read as Parquet"),
        "text": (("text.csv", ok), "row 20 is 'maybe'"),
        "hole": (("hole.csv", ok), "'prob_1' has no value in row 17"),
        "nan": ((saved("nan.parquet", with_nan), ok), "row 17, class 2 is nan"),
        "duplicate": (("twice.csv", ok), "more than one column 'prob_1'"),
        "no rows": ((saved("empty.parquet", empty), ok), "no rows"),
        "no labels": (("target.parquet", ok), "The source has no labels"),
        "other k": (("source.parquet", saved("k3.parquet", three)), "has 4 classes, the target has 3"),
        "logits": (("source.parquet", saved("logits.parquet", logits)), "probs must be between 0 and 1"),
        "label 4": ((saved("wrong.parquet", wrong), ok), "labels must be between 0 and 3; row 5 is 4"),
        "no scores": ((saved("none.parquet", {"label": [1, 0]}), ok), "There are no scores"),
        "method": (("source.parquet", ok, "--method", "acc"), "Did you mean 'ac'?"),
        "no second": (("source.parquet", ok, "--method", "gde"), "give the second one's"),
        "by": (("source.parquet", ok, "--segment-by", "region"), "There is no column 'region'"),
        "gate": (("source.parquet", ok, "--fail-below", "80"), "Did you mean 0.8?"),
        "temperature": (("source.parquet", ok, "--temperature", "hot"), "got 'hot'"),
        "replicates": (("source.parquet", ok, "--replicates", "3"), "at least 20; got 3"),
        "folder": (("source.parquet", ok, "--html", "no/where.html"), "There is no folder"),
    }  # fmt: skip


CASES = ("missing file", "unknown ending", "truncated", "text", "hole", "nan", "duplicate",
         "no rows", "no labels", "other k", "logits", "label 4", "no scores", "method",
         "no second", "by", "gate", "temperature", "replicates", "folder")  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_bad_input_is_one_line_and_exit_code_2_and_writes_nothing(folder: Path, case: str) -> None:
    words, says = broken(folder)[case]
    before = sorted(folder.rglob("*"))
    report = () if case == "folder" else ("--html", "r.html")
    done = run(folder, "estimate", *words, *report)
    assert done.returncode == 2, done.stdout + done.stderr
    assert says in done.stderr
    assert done.stderr.startswith("oodometer: ")
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""
    assert sorted(folder.rglob("*")) == before


def test_every_broken_case_is_tried(folder: Path) -> None:
    assert set(broken(folder)) == set(CASES)


def test_methods_lists_every_estimator_with_what_it_needs_and_assumes(tmp_path: Path) -> None:
    done = run(tmp_path, "methods", "--json")
    rows = json.loads(done.stdout)
    from oodometer import estimators

    own = [row["name"] for row in rows if row["family"] == "estimator"]
    assert own == [member.name for member in estimators.available()]
    assert all(row["needs"] and row["assumes"] and row["paper"] for row in rows)
    assert "Garg et al." in run(tmp_path, "methods").stdout


def test_the_toy_prints_eleven_rows_and_the_bound(tmp_path: Path) -> None:
    done = run(tmp_path, "toy", "spurious", "--n", "2000", "--json")
    found = json.loads(done.stdout)
    assert [row["agreement"] for row in found["rows"]] == [j / 10 for j in range(11)]
    assert found["bound"] == pytest.approx(0.7124, abs=1e-4)
    assert "Theorem 3 allows" in run(tmp_path, "toy", "spurious", "--n", "2000").stdout
    assert run(tmp_path, "toy", "spurious", "--p-sp", "2").returncode == 2


def test_the_demo_shows_every_shift_beside_the_truth(tmp_path: Path) -> None:
    done = run(tmp_path, "demo", "--html", "d.html", "--json")
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)
    assert len(rows) >= 13
    for row in rows:
        assert {"atc-mc", "gde", "cot"} <= {one["method"] for one in row["estimates"]}
    assert rows[0]["name"] == "no shift"
    assert (tmp_path / "d.html").stat().st_size > 10_000


def test_version_and_help_answer(tmp_path: Path) -> None:
    assert run(tmp_path, "--version").stdout == f"oodometer {oodometer.__version__}\n"
    for command in ("estimate", "methods", "demo"):
        text = run(tmp_path, command, "--help").stdout
        assert f"Example: oodometer {command}" in " ".join(text.split())
