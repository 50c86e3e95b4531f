"""`report` writes the page that `estimate --html` writes, or the page of a study."""

from __future__ import annotations

import json
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
from tests.support.command_line import run


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
    """Four models, each tested on two domains."""
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
    """All but the line that says which command made it."""
    return re.sub(r"<dt>Command</dt><dd>.*?</dd>", "", page)


def test_two_files_give_the_page_of_estimate(folder: Path) -> None:
    words = ("source.parquet", "target.parquet", "--segment-by", "site", "--seed", "3")
    assert run(folder, "estimate", *words, "--html", "estimate.html").returncode == 0
    done = run(folder, "report", *words)
    assert done.returncode == 0
    assert re.fullmatch(
        r"Report on the assessment written to report.html \(\d\.\d MB\)\n", done.stdout
    )
    pages = [(folder / name).read_text() for name in ("report.html", "estimate.html")]
    assert without_command(pages[0]) == without_command(pages[1])
    assert f"<code>oodometer report {' '.join(words)}</code>" in pages[0]


def test_a_page_says_how_to_get_its_numbers_again(folder: Path) -> None:
    (folder / "new").mkdir()
    (folder / "target.parquet").rename(folder / "new" / "source.parquet")
    assert run(folder, "report", "source.parquet", "new/source.parquet").returncode == 0
    page = (folder / "report.html").read_text()
    for fact in ("Command", "Versions", "Seed"):
        assert f"<dt>{fact}</dt>" in page
    # Two files of one name are still two.
    found = re.findall(r"<dt>SHA-256 of ([^<]*)</dt><dd><code>([0-9a-f]{64})</code>", page)
    assert [name for name, _ in found] == ["source.parquet", "new/source.parquet"]
    assert found[0][1] != found[1][1]


def test_a_table_of_evaluations_gives_the_page_of_a_study(folder: Path) -> None:
    done = run(folder, "report", "rows.parquet", "--html", "study.html", "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["kind"] == "study"
    assert told["report"] == "study.html"
    assert told["bytes"] == (folder / "study.html").stat().st_size
    assert "steady" in (folder / "study.html").read_text()


def test_a_study_is_reported_by_its_file_or_its_folder(folder: Path) -> None:
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


def test_a_table_of_accuracies_is_held_against_a_reference(folder: Path) -> None:
    done = run(folder, "report", "accuracies.parquet", "--reference-domain", "val")
    assert done.returncode == 0, done.stderr
    assert "accuracy on val" in (folder / "report.html").read_text()


def test_quiet_still_says_what_was_asked_for(folder: Path) -> None:
    done = run(folder, "report", "source.parquet", "target.parquet", "--quiet")
    assert (done.returncode, done.stderr) == (0, "")
    assert "report.html" in done.stdout


BAD = {
    "one file of outputs": (("source.parquet",), "has no column 'model'"),
    "no file": (("nowhere.parquet",), "There is no file 'nowhere.parquet'"),
    "by without a target": (("rows.parquet", "--segment-by", "site"), "Give a TARGET too"),
    "no reference": (("accuracies.parquet",), "by --reference-domain"),
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


@pytest.mark.parametrize("case", BAD)
def test_what_is_wrong_is_one_line_and_nothing_is_written(folder: Path, case: str) -> None:
    words, says = BAD[case]
    before = sorted(folder.rglob("*"))
    done = run(folder, "report", *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert says in done.stderr
    assert done.stderr.startswith("oodometer: ")
    assert done.stderr.count("\n") == 1
    assert sorted(folder.rglob("*")) == before


PAGES = {
    "report": ("report", "source.parquet", "target.parquet", "--html"),
    "estimate": ("estimate", "source.parquet", "target.parquet", "--html"),
    "judge": ("study", "compare", "rows.parquet", "--html"),
}


@pytest.mark.parametrize("words", PAGES.values(), ids=PAGES)
def test_a_page_never_takes_the_place_of_data(words: tuple[str, ...], folder: Path) -> None:
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    for name in before:
        done = run(folder, *words, name)
        assert (done.returncode, done.stdout) == (2, "")
        assert f"{name} exists and is not an HTML report. Choose another name" in done.stderr
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_a_page_takes_the_place_of_a_page_and_of_an_empty_file(folder: Path) -> None:
    (folder / "report.html").touch()
    for _ in range(2):
        assert run(folder, "report", "rows.parquet").returncode == 0
    assert "steady" in (folder / "report.html").read_text()
