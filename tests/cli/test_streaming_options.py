"""`oodometer estimate` on folders, patterns and files that are read in pieces."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from oodometer.assessment import streaming
from oodometer.core.predictions import Predictions
from oodometer.data import batch_reader
from oodometer.testing import toy_pair
from tests.support.command_line import run
from tests.support.partitioned_files import split, table_of, write


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(batch_reader, "PARTITION_ROWS", 1)
    source, target = toy_pair()
    sites = np.array(["north", "south"])[np.arange(target.n) % 2]
    write(table_of(source, True), tmp_path / "source.parquet")
    write(table_of(target, site=sites), tmp_path / "target.parquet")
    split(table_of(target, site=sites), tmp_path / "scores", [90, 200], group=40)
    return tmp_path


def estimated(folder: Path, *words: str) -> dict[str, Any]:
    done = run(folder, "estimate", "source.parquet", *words, "--replicates", "20", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    assert isinstance(found, dict)
    return found


def rounded(found: Any) -> Any:
    if isinstance(found, dict):
        return {key: rounded(value) for key, value in found.items()}
    if isinstance(found, list):
        return [rounded(value) for value in found]
    return round(found, 9) if isinstance(found, float) else found


def test_a_folder_a_pattern_and_a_file_in_pieces_say_what_the_file_says(folder: Path) -> None:
    whole = rounded(estimated(folder, "target.parquet", "--segment-by", "site"))
    for words in (["scores"], ["scores/part-*.parquet"], ["target.parquet", "--stream"]):
        assert rounded(estimated(folder, *words, "--segment-by", "site")) == whole


def test_workers_say_the_same(folder: Path) -> None:
    words = ("scores", "--method", "atc-mc", "--method", "cot")
    assert estimated(folder, *words, "--workers", "1") == estimated(folder, *words)


def test_a_large_file_is_read_in_pieces_and_a_large_npz_is_not(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streaming, "MAX_WHOLE_FILE_BYTES", 100)
    monkeypatch.setattr(streaming, "MAX_SAMPLE_ROWS", 50)
    found = estimated(folder, "target.parquet")
    assert found["notes"][-1].endswith("a random sample of 50 of 300 rows.")
    _, target = toy_pair()
    np.savez(folder / "target.npz", probs=target.probs)
    monkeypatch.setattr(streaming, "MAX_WHOLE_FILE_BYTES", 10**9)
    assert estimated(folder, "target.npz")["notes"] == []
    done = run(folder, "estimate", "source.parquet", "target.npz", "--stream")
    assert done.returncode == 2
    assert "target.npz is an .npz file, which can't be read in batches" in done.stderr


def test_what_is_shown_and_the_page_tell_of_the_sample(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streaming, "MAX_SAMPLE_ROWS", 50)
    words = ("estimate", "source.parquet", "scores", "--segment-by", "site", "--replicates", "20")
    done = run(folder, *words, "--html", "r.html", "--fail-below", "0.99")
    assert done.returncode == 1
    told = "use a random sample of 50 of 300 rows."
    assert told in " ".join(done.stdout.split())
    page = (folder / "r.html").read_text()
    assert told in page
    assert "Files of scores" in page
    assert "SHA-256 of source.parquet" in page
    assert "north" in page


def test_report_reads_in_pieces_too(folder: Path) -> None:
    done = run(folder, "report", "source.parquet", "scores", "--replicates", "20", "--json")
    assert done.returncode == 0
    assert json.loads(done.stdout)["kind"] == "assessment"


def test_a_target_with_all_labels_is_told_of(folder: Path) -> None:
    _, target = toy_pair()
    plain = Predictions.from_probs(target.probs, labels=target.labels)
    split(table_of(plain, True), folder / "all", [100])
    done = run(folder, "estimate", "source.parquet", "all", "--method", "ac")
    assert done.stderr == "Every row of all has a label; the labels are ignored.\n"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("none/*.csv",), "No file matches 'none/*.csv'"),
        (("empty",), "The folder 'empty' has no data files"),
        (
            ("scores", "--other-model", "target.parquet"),
            "--other-model target.parquet cannot be used if",
        ),
        (("scores", "--workers", "1", "--scheduler", "tcp://a:1"), "not both"),
        (("scores", "--workers", "-1"), "--workers must be at least 0; got -1"),
        (("scores", "--scheduler", "tcp://127.0.0.1:9"), "No Dask scheduler answers at"),
        (("scores", "--segment-by", "region"), "part-000.parquet: There is no column 'region'"),
        (("scores", "--method", "acc"), "Did you mean 'ac'?"),
        (("scores", "--temperature", "hot"), "got 'hot'"),
        (("scores", "--replicates", "3"), "at least 20; got 3"),
        (("odd",), "zz.parquet and part-000.parquet have different columns"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(
    folder: Path, words: tuple[str, ...], says: str
) -> None:
    (folder / "empty").mkdir()
    _, target = toy_pair()
    split(table_of(target), folder / "odd", [100])
    write(pa.table({"prob_0": [0.5], "prob_1": [0.5]}), folder / "odd/zz.parquet")
    done = run(folder, "estimate", "source.parquet", *words)
    assert done.returncode == 2, done.stdout
    assert says in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""


def test_what_else_is_asked_for_tells_of_the_sample(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("scores", "--metric", "all", "--bound", "--margin", "0.2")
    whole, aside = (estimated(folder, word, *words[1:]) for word in ("target.parquet", "scores"))
    assert rounded(aside["additional"]) == rounded(whole["additional"])
    assert whole["additional"]["metrics"]
    monkeypatch.setattr(streaming, "MAX_SAMPLE_ROWS", 50)
    said = estimated(folder, *words)["additional"]["reasons"]
    assert said[-1] == "These results are computed from a random sample of 50 target rows."
