"""`oodometer estimate` on folders, patterns and files that are read in batches."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from oodometer.assessment import streaming
from oodometer.core.predictions import Predictions
from oodometer.data import batch_reader
from oodometer.testing import toy_pair
from tests.support.command_line import assert_one_line_error, run, run_json
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


def estimated(folder: Path, *words: str) -> Any:
    return run_json(folder, "estimate", "source.parquet", *words, "--replicates", "20")


def rounded(value: Any) -> Any:
    """Return nested values with floats rounded to 9 digits."""
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    if isinstance(value, list):
        return [rounded(item) for item in value]
    return round(value, 9) if isinstance(value, float) else value


def test_batches_give_the_result_of_the_whole_file(folder: Path) -> None:
    whole = rounded(estimated(folder, "target.parquet", "--segment-by", "site"))
    for words in (["scores"], ["scores/part-*.parquet"], ["target.parquet", "--stream"]):
        result = rounded(estimated(folder, *words, "--segment-by", "site"))
        # The next step names the target as it was given.
        result["verdict"] = result["verdict"].replace(shlex.quote(words[0]), "target.parquet")
        assert result == whole


def test_workers_do_not_change_the_result(folder: Path) -> None:
    words = ("scores", "--method", "atc-mc", "--method", "cot")
    assert estimated(folder, *words, "--workers", "1") == estimated(folder, *words)


def test_large_files_except_npz_are_read_in_batches(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_reader, "MAX_WHOLE_FILE_BYTES", 100)
    monkeypatch.setattr(streaming, "MAX_SAMPLE_ROWS", 50)
    result = estimated(folder, "target.parquet")
    assert result["notes"][-1].endswith("a random sample of 50 of 300 rows.")
    _, target = toy_pair()
    np.savez(folder / "target.npz", probs=target.probs)
    monkeypatch.setattr(batch_reader, "MAX_WHOLE_FILE_BYTES", 10**9)
    assert estimated(folder, "target.npz")["notes"] == []
    streamed = run(folder, "estimate", "source.parquet", "target.npz", "--stream")
    assert_one_line_error(streamed, "target.npz is an .npz file, which cannot be read in batches")


def test_output_and_report_mention_the_sample(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streaming, "MAX_SAMPLE_ROWS", 50)
    words = ("estimate", "source.parquet", "scores", "--segment-by", "site", "--replicates", "20")
    result = run(folder, *words, "--html", "r.html", "--fail-below", "0.99")
    assert result.returncode == 1
    note = "use a random sample of 50 of 300 rows."
    assert note in " ".join(result.stdout.split())
    page = (folder / "r.html").read_text()
    assert note in page
    assert "Files of scores" in page
    assert "SHA-256 of source.parquet" in page
    assert "north" in page


def test_report_command_reads_in_batches_too(folder: Path) -> None:
    result = run_json(folder, "report", "source.parquet", "scores", "--replicates", "20")
    assert result["kind"] == "assessment"


def test_note_if_every_target_row_has_a_label(folder: Path) -> None:
    _, target = toy_pair()
    labelled = Predictions.from_probs(target.probs, labels=target.labels)
    split(table_of(labelled, True), folder / "all", [100])
    result = run(folder, "estimate", "source.parquet", "all", "--method", "ac")
    assert result.stderr == "Every row of all has a label; the labels are ignored.\n"


def test_additional_analyses_use_the_sample_and_mention_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("--metric", "all", "--bound", "--margin", "0.2", "--segment-by", "site")
    whole = estimated(folder, "target.parquet", *words)["additional"]
    assert rounded(estimated(folder, "scores", *words)["additional"]) == rounded(whole)
    assert whole["metrics"]
    assert whole["segment_metrics"]
    monkeypatch.setattr(streaming, "MAX_SAMPLE_ROWS", 50)
    reasons = estimated(folder, "scores", *words)["additional"]["reasons"]
    assert reasons[-1] == "These results are computed from a random sample of 50 target rows."


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("none/*.csv",), "No file matches 'none/*.csv'"),
        (("empty",), "The folder 'empty' has no data files"),
        (
            ("scores", "--other-model", "target.parquet"),
            "--other-model target.parquet cannot be used if",
        ),
        (("scores", "--target-labels", "labels.csv"), "--target-labels cannot be used if"),
        (("scores", "--workers", "1", "--scheduler", "tcp://a:1"), "not both"),
        (("scores", "--workers", "-1"), "--workers must be at least 0; got -1"),
        (("scores", "--scheduler", "tcp://127.0.0.1:9"), "There is no Dask scheduler at"),
        (("scores", "--segment-by", "region"), "part-000.parquet: There is no column 'region'"),
        (("scores", "--method", "acc"), "Did you mean 'ac'?"),
        (("scores", "--temperature", "hot"), "got 'hot'"),
        (("scores", "--replicates", "3"), "at least 20; got 3"),
        (("odd",), "zz.parquet and part-000.parquet have different columns"),
    ],
)
def test_invalid_input_is_a_one_line_error(
    folder: Path, words: tuple[str, ...], message: str
) -> None:
    (folder / "empty").mkdir()
    _, target = toy_pair()
    split(table_of(target), folder / "odd", [100])
    write(pa.table({"prob_0": [0.5], "prob_1": [0.5]}), folder / "odd/zz.parquet")
    assert_one_line_error(run(folder, "estimate", "source.parquet", *words), message)
