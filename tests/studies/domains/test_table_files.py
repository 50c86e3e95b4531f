"""Domains in table files: texts, pairs, vectors and tables."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import csv

from oodometer.core.errors import InputError
from oodometer.core.protocols import Dataset
from oodometer.studies.domains.table_files import TableReader

ROWS: dict[str, list[Any]] = {
    "domain": ["books", "dvd", "books", "books"],
    "split": ["train", "train", "test", "train"],
    "label": [1, 0, 0, 1],
    "text": ["good", "bad", "dull", "fine"],
    "other": ["b", "a", "c", "d"],
}


def written(folder: Path, ending: str, rows: dict[str, list[Any]] = ROWS) -> None:
    table, path = pa.table(rows), folder / f"t.{ending}"
    if ending == "parquet":
        pq.write_table(table, path)
    elif ending == "csv":
        csv.write_csv(table, path)
    else:
        lines = "".join(json.dumps(row) + "\n" for row in table.to_pylist()).encode()
        path.write_bytes(gzip.compress(lines) if ending.endswith("gz") else lines)


def labels_of(data: Dataset) -> list[Any]:
    assert data.labels is not None
    return list(data.labels.tolist())


@pytest.mark.parametrize("ending", ["parquet", "csv", "jsonl", "json", "json.gz"])
def test_texts_of_a_domain(tmp_path: Path, ending: str) -> None:
    written(tmp_path, ending)
    where = (("domain", "books"), ("split", "train"))
    data = TableReader(f"t.{ending}", text="text", where=where).read(tmp_path, None)
    assert (data.kind, data.take(slice(None)), labels_of(data)) == (
        "text",
        ["good", "fine"],
        [1, 1],
    )


def test_pairs_selected_by_several_values(tmp_path: Path) -> None:
    written(tmp_path, "parquet")
    reader = TableReader("t.parquet", text=("text", "other"), where=(("split", ("train", "dev")),))
    assert reader.kind == "pairs"
    data = reader.read(tmp_path, None)
    assert data.take(slice(None)) == [("good", "b"), ("bad", "a"), ("fine", "d")]


def test_table_has_all_columns_except_label_and_domain(tmp_path: Path) -> None:
    written(tmp_path, "parquet", {**ROWS, "age": [1, 2, 3, 4]} | {"text": [5, 6, 7, 8]})
    data = TableReader("t.parquet", where=(("domain", "books"),)).read(tmp_path, None)
    assert data.kind == "table"
    assert data.take(slice(None)).column_names == ["split", "text", "other", "age"]
    named = TableReader("t.parquet", inputs=("age", "domain"), where=(("domain", "books"),))
    assert named.read(tmp_path, None).take(slice(None)).to_pydict() == {
        "age": [1, 3, 4],
        "domain": ["books"] * 3,
    }


def test_numeric_columns_form_vectors(tmp_path: Path) -> None:
    numbers: dict[str, list[Any]] = {
        "age": [1, 2, None, 4],
        "tall": [True, False, True, False],
        "score": [0.5] * 4,
    }
    written(tmp_path, "parquet", {**ROWS, **numbers})
    reader = TableReader("t.parquet", vectors=("score", "age", "tall"), skip_bad=True)
    data = reader.read(tmp_path, None)
    assert (reader.kind, data.kind, len(data)) == ("vectors", "vectors", 3)
    assert data.take(slice(None)).tolist() == [[0.5, 1, 1], [0.5, 2, 0], [0.5, 4, 0]]
    some = TableReader("t.parquet", vectors=("score", "tall"), where=(("domain", "books"),))
    assert some.read(tmp_path, None).take(slice(None)).tolist() == [[0.5, 1], [0.5, 1], [0.5, 0]]
    for reader, why in (
        (TableReader("t.parquet", vectors=("age",)), "the column 'age' has no value in row 2"),
        (
            TableReader("t.parquet", vectors=("score", "text")),
            "'text' holds .*string, and vectors need",
        ),
        (TableReader("t.parquet", vectors=("height",)), "There is no column 'height'"),
        (
            TableReader("t.parquet", vectors=("age",), text="text"),
            "text, inputs and vectors exclude one another",
        ),
    ):
        with pytest.raises(InputError, match=why):
            reader.read(tmp_path, None)


def test_blank_texts_are_errors_unless_skipped(tmp_path: Path) -> None:
    written(tmp_path, "csv", {"text": ["good", " "], "label": [1, 0]})
    with pytest.raises(InputError, match="row 1 has an empty text"):
        TableReader("t.csv", text="text").read(tmp_path, None)
    assert len(TableReader("t.csv", text="text", skip_bad=True).read(tmp_path, None)) == 1


@pytest.mark.parametrize(
    ("reader", "why"),
    [
        (TableReader("t.csv", where=(("domain", "boks"),)), "No row has domain = 'boks'. Values: books, dvd"),
        (TableReader("t.csv", where=(("domian", "books"),)), "There is no column 'domian'"),
        (TableReader("t.csv", where=(("domain", "dvd"), ("split", "test"))), "and meets the other conditions"),
        (TableReader("t.csv", label="stars"), "There is no column 'stars'"),
        (TableReader("t.csv", text="review"), "There is no column 'review'"),
        (TableReader("none.csv"), "There is no file or folder 'none.csv'"),
        (TableReader("broken.jsonl"), "Cannot read broken.jsonl as JSON"),
    ],
)  # fmt: skip
def test_missing_columns_and_values_are_named(
    tmp_path: Path, reader: TableReader, why: str
) -> None:
    written(tmp_path, "csv")
    (tmp_path / "broken.jsonl").write_text('{"text": 1')
    with pytest.raises(InputError, match=why):
        reader.read(tmp_path, None)
