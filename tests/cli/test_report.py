"""The `oodometer report` command, and the rules for replacing files by reports."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from oodometer.testing import toy_pair
from tests.cli.test_estimate import columns
from tests.cli.test_study import MODEL, SPEC
from tests.support.command_line import assert_one_line_error, run, run_json


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    source, target = toy_pair()
    pq.write_table(pa.table(columns(source, True)), tmp_path / "source.parquet")
    extra = {"site": np.array(["north", "south"])[np.arange(target.n) % 2]}
    pq.write_table(pa.table(columns(target, False) | extra), tmp_path / "target.parquet")
    pq.write_table(pa.table(evaluations()), tmp_path / "rows.parquet")
    accuracies = {"model": ["m", "n", "o"], "val": [90.0, 80.0, 70.0], "new": [60.0, 55.0, 30.0]}
    pq.write_table(pa.table(accuracies), tmp_path / "accuracies.parquet")
    return tmp_path


def evaluations() -> dict[str, Any]:
    """Return columns of evaluations: four models, each tested on two domains."""
    rng = np.random.default_rng(0)
    accuracy = rng.uniform(0.5, 0.9, 8)
    return {
        "model": [f"model {j // 2}" for j in range(8)],
        "trained_on": ["a"] * 8,
        "tested_on": ["a", "b"] * 4,
        "accuracy": accuracy,
        "steady": accuracy + rng.normal(0, 0.01, 8),
    }


def without_command(page: str) -> str:
    """Return a page without the command that made it."""
    return re.sub(r"<dt>Command</dt><dd>.*?</dd>", "", page)


def test_two_files_give_the_report_of_estimate(folder: Path) -> None:
    words = ("source.parquet", "target.parquet", "--segment-by", "site", "--seed", "3")
    assert run(folder, "estimate", *words, "--html", "estimate.html").returncode == 0
    result = run(folder, "report", *words)
    assert result.returncode == 0
    assert re.fullmatch(
        r"Report on the assessment written to report.html \(\d\.\d MB\)\n", result.stdout
    )
    pages = [(folder / name).read_text() for name in ("report.html", "estimate.html")]
    assert without_command(pages[0]) == without_command(pages[1])
    assert f"<code>oodometer report {' '.join(words)}</code>" in pages[0]


def write_inputs(folder: Path) -> tuple[str, ...]:
    """Write files for every option that names a file; return the options."""
    source, target = toy_pair()
    other = columns(target.other_models[0], False)
    pq.write_table(pa.table(other), folder / "other.parquet")
    # Another model on the source: the same scores with two classes exchanged.
    swapped = columns(source, False)
    swapped["prob_0"], swapped["prob_1"] = swapped["prob_1"], swapped["prob_0"]
    pq.write_table(pa.table(swapped), folder / "other_source.parquet")
    truth = np.array([0.7, 0.75, 0.8, 0.72, 0.78, 0.74])
    pq.write_table(pa.table({"estimate": truth + 0.05, "truth": truth}), folder / "past.parquet")
    assert target.labels is not None
    labels = {"row": np.arange(60), "label": target.labels[:60]}
    pq.write_table(pa.table(labels), folder / "labels.parquet")
    return (
        "--other-model", "other.parquet", "--other-model-on-source", "other_source.parquet",
        "--history", "past.parquet", "--target-labels", "labels.parquet",
    )  # fmt: skip


OPTIONS = {
    "files": (),
    "analyses": ("--metric", "f1", "--bound", "--margin", "0.05"),
    "periods": ("--time-column", "at", "--period", "day"),
    "page": ("--title", "A <title>", "--date", "2026-03-01", "--required", "0.9"),
}


@pytest.mark.parametrize("case", OPTIONS)
def test_report_takes_the_options_of_estimate(folder: Path, case: str) -> None:
    words = write_inputs(folder) if case == "files" else OPTIONS[case]
    if case == "periods":
        _, target = toy_pair()
        times = np.datetime64("2026-03-01T00:00:00") + np.arange(target.n) * np.timedelta64(20, "m")
        pq.write_table(pa.table(columns(target, False) | {"at": times}), folder / "target.parquet")
    words = ("source.parquet", "target.parquet", "--replicates", "20", *words)
    assert run(folder, "estimate", *words, "--html", "estimate.html").returncode == 0
    shown = run(folder, "report", *words)
    assert shown.returncode == 0, shown.stderr
    pages = [(folder / name).read_text() for name in ("report.html", "estimate.html")]
    assert without_command(pages[0]) == without_command(pages[1])
    expected = {
        "files": "valid under any shift",
        "analyses": "Other results",
        "periods": "Over time",
        "page": '<h1>A &lt;title&gt;</h1>\n<p class="quiet date">2026-03-01</p>',
    }
    assert expected[case] in pages[0]


def test_report_has_every_option_of_an_estimate(folder: Path) -> None:
    helps = [run(folder, name, "--help").stdout for name in ("estimate", "report")]
    estimate, report = (set(re.findall(r"--[a-z][a-z-]*[a-z](?![a-z-])", text)) for text in helps)
    assert estimate - report == {"--verbose"}
    assert {"--model", "--source-data", "--target-data", "--fail-below"} <= report


def test_fail_below_sets_the_exit_code_after_the_report_is_written(folder: Path) -> None:
    words = ("source.parquet", "target.parquet", "--replicates", "20", "--fail-below")
    assert run(folder, "report", *words, "0.01").returncode == 0
    (folder / "report.html").unlink()
    result = run(folder, "report", *words, "0.99")
    assert result.returncode == 1
    assert " below 99 %" in result.stderr
    assert (folder / "report.html").exists()


def test_title_and_date_of_a_study_are_options(folder: Path) -> None:
    words = ("--title", "Mine", "--date", "2026-03-01")
    assert run(folder, "report", "rows.parquet", *words).returncode == 0
    page = (folder / "report.html").read_text()
    assert "<h1>Mine</h1>" in page
    assert "2026-03-01" in page


def test_report_has_command_versions_seed_and_hashes(folder: Path) -> None:
    (folder / "new").mkdir()
    (folder / "target.parquet").rename(folder / "new" / "source.parquet")
    assert run(folder, "report", "source.parquet", "new/source.parquet").returncode == 0
    page = (folder / "report.html").read_text()
    for fact in ("Command", "Versions", "Seed"):
        assert f"<dt>{fact}</dt>" in page
    # Two files with the same name are told apart by their paths.
    hashes = re.findall(r"<dt>SHA-256 of ([^<]*)</dt><dd><code>([0-9a-f]{64})</code>", page)
    assert [name for name, _ in hashes] == ["source.parquet", "new/source.parquet"]
    assert hashes[0][1] != hashes[1][1]


def test_table_of_evaluations_gives_a_study_report(folder: Path) -> None:
    result = run_json(folder, "report", "rows.parquet", "--html", "study.html")
    assert result["kind"] == "study"
    assert result["report"] == "study.html"
    assert result["bytes"] == (folder / "study.html").stat().st_size
    assert "steady" in (folder / "study.html").read_text()


def test_study_is_given_by_its_toml_file_or_its_store(folder: Path) -> None:
    (folder / "points.toml").write_text(SPEC + MODEL.format(name="classes_only"))
    assert run(folder, "study", "run", "points.toml", "--store-dir", "mine").returncode == 0
    by_file = run(folder, "report", "points.toml", "--store-dir", "mine", "--html", "a.html")
    by_folder = run(folder, "report", "mine", "--html", "b.html")
    assert (by_file.returncode, by_folder.returncode) == (0, 0)
    pages = [(folder / name).read_text() for name in ("a.html", "b.html")]
    assert "<h1>points.toml: which measures predict accuracy?</h1>" in pages[0]
    assert "<h1>mine: which measures predict accuracy?</h1>" in pages[1]
    assert "SHA-256 of points.toml" in pages[0]
    assert all("<dt>Versions</dt>" in page for page in pages)


def test_table_of_accuracies_needs_a_reference_domain(folder: Path) -> None:
    result = run(folder, "report", "accuracies.parquet", "--reference-domain", "val")
    assert result.returncode == 0, result.stderr
    assert "accuracy on val" in (folder / "report.html").read_text()


def test_quiet_prints_the_path_of_the_report(folder: Path) -> None:
    result = run(folder, "report", "source.parquet", "target.parquet", "--quiet")
    assert (result.returncode, result.stderr) == (0, "")
    assert "report.html" in result.stdout


INVALID = {
    "nothing": ((), "WHAT is missing. Give two files of predictions, a model"),
    "file and model": (
        ("source.parquet", "--model", "m:f"),
        "Both SOURCE (source.parquet) and --mo",
    ),
    "model without data": (("--model", "m:f"), "--source-data is missing"),
    "model of a study": (("rows.parquet", "--outputs", "probs"), "--outputs does not apply to"),
    "two targets": (
        ("source.parquet", "target.parquet", "target.parquet"),
        "A report applies to one target, and several were given",
    ),
    "one file of outputs": (("source.parquet",), "has no column 'model'"),
    "no file": (("nowhere.parquet",), "There is no file 'nowhere.parquet'"),
    "by without a target": (("rows.parquet", "--segment-by", "site"), "Give a TARGET too"),
    "required of a study": (("rows.parquet", "--required", "0.8"), "--required does not apply to"),
    "bound of a study": (("rows.parquet", "--bound"), "--bound does not apply to"),
    "temperature of a study": (("rows.parquet", "--temperature", "2"), "--temperature does not"),
    "no reference": (("accuracies.parquet",), "Use --reference-domain"),
    "no such set": (("accuracies.parquet", "--reference-domain", "vla"), "Did you mean 'val'?"),
    "reference of two": (
        ("source.parquet", "target.parquet", "--reference-domain", "val"),
        "--reference-domain does not apply to predictions on two datasets",
    ),
    "folder of a table": (
        ("rows.parquet", "--store-dir", "x"),
        "--store-dir does not apply to a table",
    ),
    "no study": (("nowhere.toml",), "nowhere.toml"),
    "no folder": (("rows.parquet", "--html", "no/where.html"), "There is no folder"),
}


@pytest.mark.parametrize("case", INVALID)
def test_invalid_input_is_a_one_line_error_and_writes_nothing(folder: Path, case: str) -> None:
    words, message = INVALID[case]
    before = sorted(folder.rglob("*"))
    assert_one_line_error(run(folder, "report", *words), message)
    assert sorted(folder.rglob("*")) == before


PAGES = {
    "report": ("report", "source.parquet", "target.parquet", "--html"),
    "estimate": ("estimate", "source.parquet", "target.parquet", "--html"),
    "study compare": ("study", "compare", "rows.parquet", "--html"),
}


@pytest.mark.parametrize("words", PAGES.values(), ids=PAGES)
def test_report_never_replaces_other_files(words: tuple[str, ...], folder: Path) -> None:
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    for name in before:
        message = f"{name} exists and is not an HTML report. Choose another name"
        assert_one_line_error(run(folder, *words, name), message)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_report_replaces_reports_and_empty_files(folder: Path) -> None:
    (folder / "report.html").touch()
    for _ in range(2):
        assert run(folder, "report", "rows.parquet").returncode == 0
    assert "steady" in (folder / "report.html").read_text()
