"""Studies by commands: run, resumed, how far they are, and their rows."""

from __future__ import annotations

import json
from pathlib import Path
from unittest import mock

import pytest
from pyarrow import parquet

from oodometer.data.atomic import lock_folder
from oodometer.studies.analysis.evaluation_table import EvaluationTable
from oodometer.studies.store import Store
from tests.support.command_line import Done, run

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


def study(folder: Path, *words: str) -> Done:
    return run(folder, "study", *words)


def test_a_study_is_run_in_parts_and_its_status_is_a_table(folder: Path) -> None:
    before = study(folder, "status", "points.toml")
    assert before.stdout.splitlines()[-1].split() == ["all", "1", "0", "0", "2"]
    first = study(folder, "run", "points.toml", "--limit", "1")
    assert (first.returncode, first.stderr) == (0, "")
    assert first.stdout.startswith("1 evaluations done in ")
    assert "1 of 2 are there, 1 are left." in first.stdout
    told = json.loads(study(folder, "run", "points.toml", "--json").stdout)
    assert (told["before"], told["done"], told["left"]) == (1, 1, 0)
    table = study(folder, "status", "points.toml").stdout
    assert [line.split() for line in table.splitlines()[1:4]] == [
        ["trained", "on", "architecture", "models", "done", "failed", "pending"],
        ["0", "unnamed", "1", "2", "0", "0"],
        ["all", "1", "2", "0", "0"],
    ]
    assert "Not applicable" in table
    assert ["gde", "2"] in [line.split() for line in table.splitlines()]
    assert json.loads(study(folder, "status", "points.toml", "--json").stdout)["done"] == 2
    assert (folder / "studies" / "points" / "store.sqlite").is_file()


def test_rows_are_shown_and_written(folder: Path) -> None:
    study(folder, "run", "points.toml", "--store-dir", "mine")
    shown = study(folder, "rows", "mine").stdout
    assert "14 of 14 rows" in shown
    assert "no model of the study differs" in shown
    with mock.patch("oodometer.cli.study.MAX_ROWS_SHOWN", 3):
        few = study(folder, "rows", "points.toml", "--store-dir", "mine").stdout
    assert "3 of 14 rows" in few
    assert "--output rows.parquet" in few
    for name in ("rows.parquet", "rows.csv"):
        done = study(folder, "rows", "points.toml", "--store-dir", "mine", "--output", name)
        assert done == Done(0, "", f"Rows written to {name}\n")
        assert len(EvaluationTable.read(folder / name)) == 2
    with Store.open(folder / "mine") as store:
        assert parquet.read_table(folder / "rows.parquet").equals(store.to_table())


def test_a_study_has_a_report_however_small(folder: Path) -> None:
    study(folder, "run", "points.toml", "--store-dir", "mine")
    for asked in (("mine",), ("points.toml", "--store-dir", "mine")):
        done = study(folder, "table", *asked, "--html", "report.html")
        assert (done.returncode, done.stderr) == (0, "Report written to report.html\n")
        page = (folder / "report.html").read_text()
        assert f"{asked[0]}: which measures predict accuracy?" in page
        assert "7 measures judged by 2 evaluations of 1 model" in page
    assert "SHA-256 of points.toml" in page


def test_failures_are_shown_with_their_reasons_and_the_exit_tells(folder: Path) -> None:
    done = study(folder, "run", "bad.toml", "--store-dir", "s")
    assert done.returncode == 1
    assert "2 evaluations done in " in done.stdout
    assert "2 failed; 2 of 4 are there, 2 are left." in done.stdout
    assert "out of order" in done.stdout
    told = json.loads(study(folder, "run", "bad.toml", "--store-dir", "s", "--json").stdout)
    assert set(told["failed"]) == {"broken on 0", "broken on 30"}
    assert "Failed; the next run tries again" in study(
        folder, "status", "bad.toml", "--store-dir", "s"
    ).stdout  # fmt: skip


def test_by_workers(folder: Path) -> None:
    assert "2 of 2 are there." in study(folder, "run", "points.toml", "--workers", "1").stdout


@pytest.mark.parametrize("command", [("study", "points.toml"), ("pool", "toy-mlp")])
def test_who_interrupts_is_told_how_to_go_on(command: tuple[str, str], folder: Path) -> None:
    place = {"study": "oodometer.studies.run", "pool": "oodometer.studies.training.run"}[command[0]]
    with mock.patch(place, side_effect=KeyboardInterrupt):
        done = run(folder, command[0], "run", command[1])
    assert done.returncode == 130
    assert done.stderr.endswith(f"Resume with: oodometer {command[0]} run {command[1]}\n")
    assert "Interrupted." in done.stderr


BAD: dict[str, tuple[tuple[str, ...], str]] = {
    "file": (("run", "mine.toml"), "There is no file 'mine.toml'; expected a TOML file."),
    "both": (("run", "points.toml", "--workers", "2", "--scheduler", "tcp://a:1"), "not both"),
    "limit": (("run", "points.toml", "--limit", "0"), "limit must be 1 or more; got 0."),
    "no rows": (("rows", "points.toml"), "There is no store in 'studies/points'. Run the study"),
    "no store": (("rows", "."), "There is no store in '.'."),
    "key": (
        ("status", "typo.toml"),
        "typo.toml: No key of the study is called 'domans'. Did you mean 'domains'?",
    ),
    "scheduler": (
        ("run", "points.toml", "--scheduler", "tcp://127.0.0.1:9"),
        "No Dask scheduler answers at 'tcp://127.0.0.1:9'",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_what_is_wrong_is_one_line(case: str, folder: Path) -> None:
    (folder / "typo.toml").write_text('domans = "all"\n')
    words, message = BAD[case]
    done = study(folder, *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_an_ending_that_is_not_known_is_refused(folder: Path) -> None:
    study(folder, "run", "points.toml", "--limit", "1")
    done = study(folder, "rows", "points.toml", "--output", "rows.xlsx")
    assert done.returncode == 2
    assert "Give a name that ends in .parquet or .csv." in done.stderr


def test_who_has_the_store_is_named(folder: Path) -> None:
    with lock_folder(folder / "studies" / "points", "study", "written"):
        done = study(folder, "run", "points.toml")
    assert done.returncode == 2
    assert "is being written by process" in done.stderr
