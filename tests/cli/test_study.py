"""The `oodometer study` commands: run, status, rows, and table of a small study."""

from __future__ import annotations

import json
from pathlib import Path
from unittest import mock

import pytest
from pyarrow import parquet

from oodometer.data.atomic import lock_folder
from oodometer.studies.analysis.evaluation_table import EvaluationTable
from oodometer.studies.store import Store
from tests.support.command_line import CommandResult, assert_one_line_error, run, run_json

SPEC = """
name = "points"
group = "hypersphere"
domains = ["0", "30"]
rows = 40
estimators = ["ac", "gde"]
metrics = ["error"]
invariance = ["gaussian"]
draws = 2
"""
MODEL = """
[[models]]
name = "{name}"
path = "tests.support.study_tasks:{name}"
trained_on = "0"
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("COLUMNS", "160")
    good = MODEL.format(name="classes_only")
    (tmp_path / "points.toml").write_text(SPEC + good)
    (tmp_path / "bad.toml").write_text(SPEC + good + MODEL.format(name="broken"))
    return tmp_path


def study(folder: Path, *words: str) -> CommandResult:
    return run(folder, "study", *words)


def test_study_resumes_and_status_is_a_table(folder: Path) -> None:
    before = study(folder, "status", "points.toml")
    assert before.stdout.splitlines()[-1].split() == ["all", "1", "0", "0", "2"]
    first = study(folder, "run", "points.toml", "--limit", "1")
    assert (first.returncode, first.stderr) == (0, "")
    assert first.stdout.startswith("1 evaluations computed in ")
    assert "1 of 2 are stored, 1 remain." in first.stdout
    second = run_json(folder, "study", "run", "points.toml")
    assert (second["before"], second["done"], second["left"]) == (1, 1, 0)
    table = study(folder, "status", "points.toml").stdout
    assert [line.split() for line in table.splitlines()[1:4]] == [
        ["trained", "on", "architecture", "models", "done", "failed", "pending"],
        ["0", "unnamed", "1", "2", "0", "0"],
        ["all", "1", "2", "0", "0"],
    ]
    assert "Not applicable" in table
    assert ["gde", "2"] in [line.split() for line in table.splitlines()]
    assert run_json(folder, "study", "status", "points.toml")["done"] == 2
    assert (folder / "studies" / "points" / "store.sqlite").is_file()


def test_rows_are_shown_and_exported(folder: Path) -> None:
    study(folder, "run", "points.toml", "--store-dir", "mine")
    shown = study(folder, "rows", "mine").stdout
    assert "14 of 14 rows" in shown
    assert "no other model of the study differs" in shown
    with mock.patch("oodometer.cli.study.MAX_ROWS_SHOWN", 3):
        few = study(folder, "rows", "points.toml", "--store-dir", "mine").stdout
    assert "3 of 14 rows" in few
    assert "--output rows.parquet" in few
    for name in ("rows.parquet", "rows.csv"):
        result = study(folder, "rows", "points.toml", "--store-dir", "mine", "--output", name)
        assert result == CommandResult(0, "", f"Rows written to {name}\n")
        assert len(EvaluationTable.read(folder / name)) == 2
    with Store.open(folder / "mine") as store:
        assert parquet.read_table(folder / "rows.parquet").equals(store.to_table())


def test_report_of_a_study_with_one_model(folder: Path) -> None:
    study(folder, "run", "points.toml", "--store-dir", "mine")
    for words in (("mine",), ("points.toml", "--store-dir", "mine")):
        result = study(folder, "table", *words, "--html", "report.html")
        assert (result.returncode, result.stderr) == (0, "Report written to report.html\n")
        page = (folder / "report.html").read_text()
        assert f"{words[0]}: which measures predict accuracy?" in page
        assert "7 measures compared over 2 evaluations of 1 model" in page
    assert "SHA-256 of points.toml" in page


def test_failures_are_shown_with_reasons_and_exit_code_1(folder: Path) -> None:
    result = study(folder, "run", "bad.toml", "--store-dir", "s")
    assert result.returncode == 1
    assert "2 evaluations computed in " in result.stdout
    assert "2 failed; 2 of 4 are stored, 2 remain." in result.stdout
    assert "out of order" in result.stdout
    again = study(folder, "run", "bad.toml", "--store-dir", "s", "--json")
    assert set(json.loads(again.stdout)["failed"]) == {"broken on 0", "broken on 30"}
    assert "Failed; the next run tries again" in study(
        folder, "status", "bad.toml", "--store-dir", "s"
    ).stdout  # fmt: skip


def test_workers_run_a_study(folder: Path) -> None:
    assert "2 of 2 are stored." in study(folder, "run", "points.toml", "--workers", "1").stdout


@pytest.mark.parametrize("command", [("study", "points.toml"), ("pool", "toy-mlp")])
def test_interrupt_says_how_to_resume(command: tuple[str, str], folder: Path) -> None:
    function = {"study": "oodometer.studies.run", "pool": "oodometer.studies.training.run"}[
        command[0]
    ]
    with mock.patch(function, side_effect=KeyboardInterrupt):
        result = run(folder, command[0], "run", command[1])
    assert result.returncode == 130
    assert result.stderr.endswith(f"Resume with: oodometer {command[0]} run {command[1]}\n")
    assert "Interrupted." in result.stderr


INVALID: dict[str, tuple[tuple[str, ...], str]] = {
    "file": (("run", "mine.toml"), "There is no file 'mine.toml'; expected a TOML file."),
    "both": (("run", "points.toml", "--workers", "2", "--scheduler", "tcp://a:1"), "not both"),
    "limit": (("run", "points.toml", "--limit", "0"), "limit must be at least 1; got 0."),
    "no rows": (("rows", "points.toml"), "There is no store in 'studies/points'. Run the study"),
    "no store": (("rows", "."), "There is no store in '.'."),
    "key": (
        ("status", "typo.toml"),
        "typo.toml: No key of the study is called 'domans'. Did you mean 'domains'?",
    ),
    "scheduler": (
        ("run", "points.toml", "--scheduler", "tcp://127.0.0.1:9"),
        "There is no Dask scheduler at 'tcp://127.0.0.1:9'",
    ),
}


@pytest.mark.parametrize("case", INVALID)
def test_invalid_input_is_a_one_line_error(case: str, folder: Path) -> None:
    (folder / "typo.toml").write_text('domans = "all"\n')
    words, message = INVALID[case]
    assert_one_line_error(study(folder, *words), message)


def test_unknown_extension_of_output_is_an_error(folder: Path) -> None:
    study(folder, "run", "points.toml", "--limit", "1")
    result = study(folder, "rows", "points.toml", "--output", "rows.xlsx")
    assert result.returncode == 2
    assert "Use a name that ends in .parquet or .csv." in result.stderr


def test_process_that_holds_the_lock_is_named(folder: Path) -> None:
    with lock_folder(folder / "studies" / "points", "study", "written"):
        result = study(folder, "run", "points.toml")
    assert result.returncode == 2
    assert "is being written by process" in result.stderr
