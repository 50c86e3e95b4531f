"""The `oodometer estimate` command."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import warnings
from collections.abc import Callable
from dataclasses import replace
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
from oodometer.testing import toy_pair, toy_predictions
from tests.support.command_line import CommandResult, assert_one_line_error, run, run_json

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


def test_a_separate_process_gives_the_same_output(folder: Path) -> None:
    for words in (("source.parquet", "--json"), ("nowhere.csv",)):
        arguments = ("estimate", words[0], "target.parquet", *words[1:])
        command = [sys.executable, "-m", "oodometer", *arguments]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        assert run(folder, *arguments) == CommandResult(done.returncode, done.stdout, done.stderr)
    message = "There is no file 'nowhere.csv'; expected a table or an .npz file. Check the path."
    assert_one_line_error(run(folder, *arguments), message)


def estimated(folder: Path, *words: str) -> Any:
    return run_json(folder, "estimate", *words)


def test_json_has_the_documented_keys(folder: Path) -> None:
    result = estimated(folder, "source.parquet", "target.parquet")
    assert {"n_source", "n_target", "k", "source_accuracy", "temperature", "estimates",
            "headline", "diagnostics"} <= set(result)  # fmt: skip
    assert (result["n_source"], result["n_target"], result["k"]) == (400, 300, 4)
    for estimate in result["estimates"]:
        assert {"method", "value", "low", "high", "assumes"} <= set(estimate)
        if estimate["low"] is None:
            # With 300 rows of four classes, these methods have no reliable interval.
            assert estimate["method"] in ("atc-class", "cot", "cott")
            assert estimate["high"] is None
            assert any("no interval" in note for note in estimate["notes"])
            continue
        assert 0 <= estimate["low"] <= estimate["value"] <= estimate["high"] <= 1
    for diagnostic in result["diagnostics"]:
        assert {"name", "value", "status", "meaning"} <= set(diagnostic)
    skipped = {method["method"] for method in result["skipped"]}
    assert skipped == {"gde", "atc-near", "aline-s", "aline-d"}


def test_results_equal_those_of_the_library(folder: Path) -> None:
    source, target = toy_pair()
    result = oodometer.estimate(
        Predictions.from_probs(source.probs, labels=source.labels),
        Predictions.from_probs(target.probs),
        seed=3,
    )
    shown = estimated(folder, "source.parquet", "target.parquet", "--seed", "3")
    command = ("target.parquet", "--source", "source.parquet")
    expected = replace(result, plan_arguments=command).to_dict()
    assert shown == json.loads(json.dumps(expected))


def test_gde_uses_the_other_model(folder: Path) -> None:
    _, target = toy_pair()
    agree = float((target.classes == target.other_models[0].classes).mean())
    result = estimated(
        folder, "source.parquet", "target.parquet", "--other-model", "second.parquet"
    )
    assert {e["method"]: e["value"] for e in result["estimates"]}["gde"] == pytest.approx(agree)


def test_methods_are_selected_by_name(folder: Path) -> None:
    words = ("--method", "doc", "--method", "ac")
    result = estimated(folder, "source.parquet", "target.parquet", *words)
    assert [e["method"] for e in result["estimates"]] == ["doc", "ac", "regime"]
    assert result["headline"]["method"] == "regime"
    assert result["skipped"] == []


def test_verbose_output_shows_methods_diagnostics_and_segments(folder: Path) -> None:
    words = ("source.parquet", "target.parquet", "--segment-by", "site")
    shown = run(folder, "estimate", *words, "--verbose")
    assert shown.returncode == 0
    assert shown == run(folder, "estimate", *words, "-v")
    for word in (
        "atc-mc",
        "doc",
        "estimator_spread",
        "north",
        "south",
        "not applicable",
        "assumption",
    ):
        assert word in shown.stdout
    assert shown.stderr == ""


def test_output_is_short_and_names_the_target_in_the_next_step(folder: Path) -> None:
    (folder / "new site").mkdir()
    (folder / "target.parquet").rename(folder / "new site" / "target.parquet")
    words = ("source.parquet", "new site/target.parquet", "--segment-by", "site")
    shown = run(folder, "estimate", *words, "--required", "0.99")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert len(shown.stdout.splitlines()) <= 25
    text = " ".join(shown.stdout.split())
    assert "Below the required 99.0 %, including both intervals." in text
    assert "required 99.0 % ✗ missed" in text
    assert "✗ below" in text  # segments
    line = run(folder, "estimate", *words, "--required", "0.99", "--metric", "f1", "--quiet").stdout
    assert "required 99.0 %: missed; f1 0." in line
    result = run_json(folder, "estimate", *words, "--required", "0.99")["required"]
    assert result == {"level": 0.99, "result": "missed"}
    assert "not applicable" not in shown.stdout
    (command,) = [line for line in shown.stdout.splitlines() if line.startswith("  oodometer")]
    start = "  oodometer plan 'new site/target.parquet' --source source.parquet --labels "
    assert command.startswith(start)
    assert run(folder, *shlex.split(command)[1:]).returncode == 0
    assert (folder / "to_label.csv").is_file()


def test_quiet_output_is_one_line(folder: Path) -> None:
    words = ("source.parquet", "target.parquet", "--html", "r.html", "--quiet")
    shown = run(folder, "estimate", *words)
    assert (shown.returncode, shown.stderr) == (0, "")
    (line,) = shown.stdout.splitlines()
    value = estimated(folder, "source.parquet", "target.parquet")["headline"]["value"]
    assert line.startswith(f"{100 * value:.1f} % (95 % confidence interval ")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--verbose", "--quiet"), "Both --verbose and --quiet are given."),
        (("--required", "85"), "--required must be a fraction from 0 to 1; got 85. Did you mean 0.85?"),
        (("--title", "New"), "--title is a text of the HTML report. Give --html FILE too."),
        (("--date", "today"), "--date is a text of the HTML report. Give --html FILE too."),
    ],
)  # fmt: skip
def test_contradicting_output_options_are_rejected(
    folder: Path, words: tuple[str, ...], message: str
) -> None:
    result = run(folder, "estimate", "source.parquet", "target.parquet", *words)
    assert_one_line_error(result, message)


def test_segment_by_gives_one_estimate_per_segment(folder: Path) -> None:
    result = estimated(folder, "source.parquet", "target.parquet", "--segment-by", "site")
    assert [(s["segment"], s["n"]) for s in result["segments"]] == [("north", 150), ("south", 150)]
    source, target = toy_pair()
    in_memory = oodometer.estimate(
        Predictions.from_probs(source.probs, labels=source.labels),
        Predictions.from_probs(target.probs),
        segment_by=np.array(["north", "south"])[np.arange(target.n) % 2],
    )
    for segment, expected in zip(result["segments"], in_memory.segments, strict=True):
        assert expected.estimate is not None
        assert segment["value"] == pytest.approx(expected.estimate.value)
        assert segment["low"] < segment["value"] < segment["high"]
    mean = np.mean([segment["value"] for segment in result["segments"]])
    assert mean == pytest.approx(result["headline"]["value"])


def test_segments_are_periods_of_time_or_chunks_of_rows(folder: Path) -> None:
    _, target = toy_pair()
    times = np.datetime64("2026-01-30T12:00:00") + np.arange(target.n) * np.timedelta64(30, "m")
    table = pa.table({**columns(target, False), "at": pa.array(times)})
    pq.write_table(table, folder / "timed.parquet")
    words = ("source.parquet", "timed.parquet", "--time-column", "at", "--method", "doc,atc-mc")
    days = estimated(folder, *words)["segments"]
    assert [segment["segment"] for segment in days][:3] == [
        "2026-01-30",
        "2026-01-31",
        "2026-02-01",
    ]
    months = estimated(folder, *words, "--period", "month")["segments"]
    assert [(s["segment"], s["n"]) for s in months] == [("2026-01", 72), ("2026-02", 228)]
    streamed = estimated(folder, *words, "--period", "month", "--stream")["segments"]
    assert [s["value"] for s in streamed] == pytest.approx([s["value"] for s in months])
    chunks = estimated(folder, *words, "--chunk-rows", "200")["segments"]
    assert [(s["segment"], s["n"]) for s in chunks] == [("000–199", 200), ("200–299", 100)]
    for wrong, message in (
        (("--segment-by", "at"), "Both --segment-by and --time-column are given"),
        (("--period", "month", "--chunk-rows", "9"), "Both --period and --chunk-rows are given"),
        (("--period", "year"), "period"),
        (("--chunk-rows", "9", "--stream"), "--chunk-rows cannot be used"),
    ):
        shown = run(folder, "estimate", *words, *wrong)
        assert shown.returncode == 2
        assert message in shown.stderr


def test_decisions_of_a_column_or_a_threshold_are_assessed(folder: Path) -> None:
    rows = {name: toy_predictions(n, k=2, seed=n) for name, n in (("s", 800), ("t", 600))}
    for name, part in rows.items():
        decided = Predictions.from_probs(part.probs).decide(0.8).classes
        table = columns(part, name == "s")
        pq.write_table(pa.table(table), folder / f"{name}.parquet")
        pq.write_table(pa.table({**table, "pred": decided}), folder / f"{name}_pred.parquet")
    by_threshold = estimated(folder, "s.parquet", "t.parquet", "--threshold", "0.8")
    by_column = estimated(folder, "s_pred.parquet", "t_pred.parquet")
    assert by_threshold == by_column
    streamed = estimated(folder, "s_pred.parquet", "t_pred.parquet", "--stream")
    assert streamed["headline"]["value"] == pytest.approx(by_column["headline"]["value"])
    source = Predictions.from_probs(rows["s"].probs, labels=rows["s"].labels).decide(0.8)
    assert by_column["source_accuracy"] == pytest.approx(source.correct.mean())
    skipped = {entry["method"]: entry["reason"] for entry in by_column["skipped"]}
    assert "not of given decisions" in skipped["cot"]
    shown = run(folder, "estimate", "s_pred.parquet", "t.parquet")
    assert shown.returncode == 2
    assert "The source has decisions (a column pred), the target has none." in shown.stderr
    shown = run(folder, "estimate", "s.parquet", "t.parquet", "--threshold", "x")
    assert "--threshold must be a number between 0 and 1" in shown.stderr


def test_metrics_are_shown_for_each_segment(folder: Path) -> None:
    source, _ = toy_pair()
    sites = {"site": np.array(["north", "south"])[np.arange(source.n) % 2]}
    pq.write_table(pa.table(columns(source, True) | sites), folder / "sites.parquet")
    words = ("target.parquet", "--segment-by", "site", "--metric", "f1,auroc", "--method", "ac")
    result = estimated(folder, "sites.parquet", *words)["additional"]["segment_metrics"]
    assert [(s["value"], s["n"], s["n_source"]) for s in result] == [
        ("north", 150, 200), ("south", 150, 200),
    ]  # fmt: skip
    for segment in result:
        assert [(m["metric"], m["scope"]) for m in segment["metrics"]] == [
            ("f1", "macro"), ("auroc", "macro"),
        ]  # fmt: skip
        assert all(m["low"] <= m["value"] <= m["high"] for m in segment["metrics"])
        assert all(0 <= m["source_value"] <= 1 for m in segment["metrics"])
    shown = run(folder, "estimate", "sites.parquet", *words, "--html", "page.html", "-v").stdout
    assert "Expected metrics by segment (mean over classes)" in shown
    assert "auroc (source)" in shown
    page = (folder / "page.html").read_text()
    assert "Expected metrics by segment" in page
    assert "Auroc (source)" in page


def test_segment_by_a_timestamp_gives_one_estimate_per_day(folder: Path) -> None:
    _, target = toy_pair()
    moments = np.datetime64("2026-03-01T08:00:00") + np.arange(target.n) * np.timedelta64(15, "m")
    table = pa.table(columns(target, False) | {"at": moments})
    pq.write_table(table, folder / "dated.parquet")
    result = estimated(folder, "source.parquet", "dated.parquet", "--segment-by", "at")
    days = [segment["segment"] for segment in result["segments"]]
    assert days == ["2026-03-01", "2026-03-02", "2026-03-03", "2026-03-04"]


@pytest.mark.parametrize(("limit", "code"), [("0.05", 0), ("0.99", 1)])
def test_exit_code_is_1_if_the_headline_is_below_the_limit(
    folder: Path, limit: str, code: int
) -> None:
    shown = run(folder, "estimate", "source.parquet", "target.parquet", "--fail-below", limit)
    assert shown.returncode == code
    assert "Accuracy on the target" in shown.stdout


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
def test_every_file_format_gives_the_same_result(folder: Path, ending: str) -> None:
    source, target = toy_pair()
    WRITERS[ending](folder / f"source{ending}", columns(source, True))
    WRITERS[ending](folder / f"target{ending}", columns(target, False))
    result = estimated(folder, f"source{ending}", f"target{ending}")
    expected = estimated(folder, "source.parquet", "target.parquet")
    for one, other in zip(result["estimates"], expected["estimates"], strict=True):
        assert one["value"] == pytest.approx(other["value"], abs=1e-6)


def test_classes_are_matched_by_column_names_in_any_order(folder: Path) -> None:
    source, target = toy_pair()
    assert source.labels is not None
    one = {f"score_{NAMES[j]}": source.probs[:, j] for j in range(4)}
    one["truth"] = np.array(NAMES)[source.labels]
    other = {f"score_{NAMES[j]}": target.probs[:, j] for j in (2, 0, 3, 1)}
    pq.write_table(pa.table(one), folder / "a.parquet")
    pq.write_table(pa.table(other), folder / "b.parquet")
    words = ("--prob-columns", "score_", "--label-column", "truth")
    result = estimated(folder, "a.parquet", "b.parquet", *words)
    expected = estimated(folder, "source.parquet", "target.parquet")
    for a, b in zip(result["estimates"], expected["estimates"], strict=True):
        assert a["value"] == pytest.approx(b["value"], abs=1e-9)


def test_class_names_of_a_list_column_are_an_option(folder: Path) -> None:
    source, target = toy_pair()
    assert source.labels is not None
    named = {"probs": source.probs.tolist(), "label": np.array(NAMES)[source.labels]}
    pq.write_table(pa.table(named), folder / "a.parquet")
    pq.write_table(pa.table({"probs": target.probs.tolist()}), folder / "b.parquet")
    result = estimated(folder, "a.parquet", "b.parquet", "--class-names", "cat,dog,eel,fox")
    expected = estimated(folder, "source.parquet", "target.parquet")
    assert result["headline"]["value"] == pytest.approx(expected["headline"]["value"])
    shown = run(folder, "estimate", "a.parquet", "b.parquet", "--class-names", "cat,dog,eel,gnu")
    assert shown.returncode == 2
    assert "'fox'" in shown.stderr


def test_a_warning_is_one_line(folder: Path) -> None:
    source, _ = toy_pair()
    logits = {f"logit_{j}": source.probs[:, j] for j in range(4)} | {"label": source.labels}
    pq.write_table(pa.table(logits), folder / "odd.parquet")
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        shown = run(folder, "estimate", "odd.parquet", "target.parquet", "--json")
    assert shown.returncode == 0
    assert shown.stderr.startswith("oodometer: warning: These logits are all between 0 and 1")
    assert shown.stderr.count("\n") == 1


def test_labels_of_a_fully_labelled_target_are_ignored(folder: Path) -> None:
    _, target = toy_pair()
    table = columns(target, False) | {"label": ["rubbish"] * target.n}
    pq.write_table(pa.table(table), folder / "planted.parquet")
    result = estimated(folder, "source.parquet", "planted.parquet")
    result["verdict"] = result["verdict"].replace("planted.parquet", "target.parquet")
    assert result == estimated(folder, "source.parquet", "target.parquet")


def test_html_report_is_written_and_its_path_printed(folder: Path) -> None:
    words = ("source.parquet", "target.parquet", "--html", "r.html", "--segment-by", "site")
    shown = run(folder, "estimate", *words)
    assert shown.returncode == 0
    assert "Report written to r.html" in shown.stderr
    page = (folder / "r.html").read_text()
    assert "<html" in page
    assert "north" in page
    assert "SHA-256 of source.parquet" in page


def test_temperature_can_be_fitted_disabled_or_set(folder: Path) -> None:
    pair = ("source.parquet", "target.parquet")
    fitted = estimated(folder, *pair)
    plain = estimated(folder, *pair, "--temperature", "none")
    again = estimated(folder, *pair, "--temperature", str(fitted["temperature"]))
    assert plain["temperature"] is None
    values = [{e["method"]: e["value"] for e in result["estimates"]}
              for result in (fitted, plain, again)]  # fmt: skip
    assert values[0]["ac"] != values[1]["ac"]
    assert values[0] == values[2]


def write_invalid_files(folder: Path) -> dict[str, tuple[tuple[str, ...], str]]:
    """Write invalid files; return arguments of `estimate` and a part of the error, by case."""
    source, target = toy_pair()
    assert source.labels is not None
    good = columns(source, True)

    def save(name: str, table: dict[str, Any]) -> str:
        pq.write_table(pa.table(table), folder / name)
        return name

    whole = (folder / "source.parquet").read_bytes()
    (folder / "cut.parquet").write_bytes(whole[: len(whole) // 2])
    lines = ["prob_0,prob_1,label", *["0.5,0.5,0"] * 20]
    (folder / "source.xlsx").write_bytes(b"")
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
        "truncated": (("cut.parquet", ok), "cut.parquet cannot be read as Parquet"),
        "text": (("text.csv", ok), "row 20 is 'maybe'"),
        "hole": (("hole.csv", ok), "'prob_1' has no value in row 17"),
        "nan": ((save("nan.parquet", with_nan), ok), "row 17, class 2 is nan"),
        "duplicate": (("twice.csv", ok), "more than one column 'prob_1'"),
        "no rows": ((save("empty.parquet", empty), ok), "no rows"),
        "no labels": (("target.parquet", ok), "target.parquet has no labels, and the accuracy on SOURCE is needed"),
        "other k": (("source.parquet", save("k3.parquet", three)), "has 4 classes, the target has 3"),
        "logits": (("source.parquet", save("logits.parquet", logits)), "probs must be between 0 and 1"),
        "label 4": ((save("wrong.parquet", wrong), ok), "labels must be between 0 and 3; row 5 is 4"),
        "no scores": ((save("none.parquet", {"label": [1, 0]}), ok), "There are no scores"),
        "method": (("source.parquet", ok, "--method", "acc"), "Did you mean 'ac'?"),
        "no second": (("source.parquet", ok, "--method", "gde"), "predictions of a second model"),
        "segment": (("source.parquet", ok, "--segment-by", "region"), "There is no column 'region'"),
        "gate": (("source.parquet", ok, "--fail-below", "80"), "Did you mean 0.8?"),
        "temperature": (("source.parquet", ok, "--temperature", "hot"), "got 'hot'"),
        "replicates": (("source.parquet", ok, "--replicates", "3"), "at least 20; got 3"),
        "folder": (("source.parquet", ok, "--html", "no/where.html"), "There is no folder"),
    }  # fmt: skip


CASES = ("missing file", "unknown ending", "truncated", "text", "hole", "nan", "duplicate",
         "no rows", "no labels", "other k", "logits", "label 4", "no scores", "method",
         "no second", "segment", "gate", "temperature", "replicates", "folder")  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_invalid_input_is_a_one_line_error_and_writes_nothing(folder: Path, case: str) -> None:
    words, message = write_invalid_files(folder)[case]
    before = sorted(folder.rglob("*"))
    report = () if case == "folder" else ("--html", "r.html")
    assert_one_line_error(run(folder, "estimate", *words, *report), message)
    assert sorted(folder.rglob("*")) == before


def test_every_invalid_case_is_tried(folder: Path) -> None:
    assert set(write_invalid_files(folder)) == set(CASES)
