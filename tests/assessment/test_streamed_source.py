"""The source of many files: all rows where they are few, a sample where they are many."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from oodometer.assessment import streaming
from oodometer.core.errors import InputError
from oodometer.data.prediction_files import PredictionColumns
from oodometer.parallel.runners import serial
from oodometer.testing import toy_predictions
from tests.support.partitioned_files import split, table_of, write

ROWS = toy_predictions(n=200)


def test_all_rows_in_their_order(tmp_path: Path) -> None:
    split(table_of(ROWS, True), tmp_path, [20, 90], group=30)
    heard: list[int] = []
    found = streaming.load_source(tmp_path, PredictionColumns(), 0, serial, heard.append)
    np.testing.assert_array_equal(found.predictions.probs, ROWS.probs)
    np.testing.assert_array_equal(found.predictions.labels, ROWS.labels)
    assert (found.n_rows, found.sampling_note, sum(heard)) == (200, None, 200)


@pytest.mark.parametrize("bound", ["MAX_SOURCE_ROWS", "MAX_SOURCE_CELLS"])
def test_a_sample_of_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bound: str) -> None:
    monkeypatch.setattr(streaming, bound, 50 if bound == "MAX_SOURCE_ROWS" else 50 * ROWS.k)
    split(table_of(ROWS, True), tmp_path / "a", [20, 90], group=30)
    split(table_of(ROWS, True), tmp_path / "b", [130], group=200)
    one, other = (
        streaming.load_source(tmp_path / name, PredictionColumns(), 3, serial, lambda n: None)
        for name in "ab"
    )
    np.testing.assert_array_equal(one.predictions.probs, other.predictions.probs)
    assert (one.predictions.n, one.n_rows) == (50, 200)
    assert one.sampling_note == "The source is a random sample of 50 of 200 rows."


def test_a_large_single_file_is_read_in_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(table_of(ROWS, True), tmp_path / "a.parquet", 30)
    whole = streaming.load_source(path, PredictionColumns(), 0, serial, lambda n: None)
    monkeypatch.setattr(streaming, "MAX_WHOLE_FILE_BYTES", 10)
    heard: list[int] = []
    found = streaming.load_source(path, PredictionColumns(), 0, serial, heard.append)
    np.testing.assert_array_equal(found.predictions.probs, whole.predictions.probs)
    assert sum(heard) == 200


def test_without_rows_it_is_refused(tmp_path: Path) -> None:
    write(table_of(ROWS, True).slice(0, 0), tmp_path / "a.parquet")
    with pytest.raises(InputError, match="no rows; at least one was expected"):
        streaming.load_source(tmp_path, PredictionColumns(), 0, serial, lambda n: None)
    with pytest.raises(InputError, match="There is no file"):
        streaming.load_source(
            tmp_path / "b.parquet", PredictionColumns(), 0, serial, lambda n: None
        )
