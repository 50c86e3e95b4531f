"""Texts, pairs and table rows from data frames and files."""

from __future__ import annotations

import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import csv, feather

from oodometer.core.errors import InputError
from oodometer.data import InMemoryDataset, as_dataset

REVIEWS = pa.table({"domain": ["a", "b"], "review": ["fine", "poor"], "label": [1, 0]})
PEOPLE = pa.table(
    {
        "age": pa.array([20, 30, 40], pa.int8()),
        "pay": [1.5, 2.5, 3.5],
        "town": ["u", None, "w"],
        "team": pa.array(["x", "y", "x"]).dictionary_encode(),
        "member": [True, False, True],
        "label": ["no", "yes", "no"],
    }
)


def opened(thing: Any, **options: Any) -> InMemoryDataset:
    data = as_dataset(thing, **options)
    assert isinstance(data, InMemoryDataset)
    return data


def test_text_column_can_be_selected() -> None:
    data = opened(REVIEWS, text="review")
    assert data.labels is not None
    assert (data.inputs, data.labels.tolist()) == (["fine", "poor"], [1, 0])
    assert opened(REVIEWS, text="domain", labels="review").inputs == ["a", "b"]


@pytest.mark.parametrize("text", ["domain,review", "domain, review", ("domain", "review")])
def test_two_text_columns_are_pairs(text: Any) -> None:
    assert opened(REVIEWS, text=text).inputs == [("a", "fine"), ("b", "poor")]


def test_text_columns_are_found_by_default_names() -> None:
    assert opened(REVIEWS.select(["review", "label"])).inputs == ["fine", "poor"]
    assert opened(REVIEWS.rename_columns(["premise", "hypothesis", "label"])).kind == "pairs"
    assert opened(REVIEWS.rename_columns(["domain", "text", "label"])).inputs == ["fine", "poor"]
    assert opened(REVIEWS).kind == "table"


def test_column_name_may_contain_a_comma() -> None:
    assert opened(pa.table({"a,b": ["x"], "c": [1]}), text="a,b").inputs == ["x"]


def test_a_table_has_all_columns_but_the_label() -> None:
    data = opened(PEOPLE)
    assert data.inputs.equals(PEOPLE.drop_columns(["label"]))
    assert data.labels is not None
    assert (data.kind, data.labels.tolist()) == ("table", ["no", "yes", "no"])
    assert "pay" not in opened(PEOPLE, labels="pay").inputs.column_names


def test_table_columns_can_be_selected() -> None:
    assert opened(PEOPLE, inputs="age,town").inputs.column_names == ["age", "town"]
    assert opened(REVIEWS, inputs=["review"]).kind == "table"


def test_labels_can_be_passed_separately() -> None:
    data = opened(PEOPLE, labels=[7, 8, 9])
    assert data.labels is not None
    assert (data.labels.tolist(), "label" in data.inputs.column_names) == ([7, 8, 9], False)


@pytest.mark.parametrize("ending", ["parquet", "csv", "arrow", "feather"])
def test_files_and_frames_give_equal_datasets(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"people.{ending}"
    table = pa.table({"age": [20, 30], "town": ["u", "v"], "label": [0, 1]})
    write = {"parquet": pq.write_table, "csv": csv.write_csv}.get(ending)
    write(table, path) if write else feather.write_feather(table, str(path))
    data = opened(path)
    assert data.name == "people"
    assert data.fingerprint == opened(table).fingerprint
    assert opened(path, text="town").inputs == ["u", "v"]


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def test_other_frames_are_tables(make: Any) -> None:
    data = opened(make({"age": [20, 30], "pay": [1.0, 2.0], "label": [0, 1]}))
    assert data.inputs.to_pydict() == {"age": [20, 30], "pay": [1.0, 2.0]}
    assert opened(make({"text": ["a", "b"]})).inputs == ["a", "b"]


@pytest.mark.parametrize(
    "make", [pd.Series, pl.Series, pa.chunked_array], ids=["pandas", "polars", "arrow"]
)
def test_single_text_column_is_text(make: Any) -> None:
    values = [["a", "b"]] if make is pa.chunked_array else ["a", "b"]
    assert opened(make(values)).inputs == ["a", "b"]


def test_pandas_index_is_not_a_column(tmp_path: Path) -> None:
    frame = pd.DataFrame({"age": [20, 30, 40], "pay": [1.0, 2.0, 3.0]})[1:][::-1]
    frame.index.name = "who"
    frame.to_parquet(tmp_path / "frame.parquet")
    for thing in (frame, tmp_path / "frame.parquet"):
        assert opened(thing).inputs.to_pydict() == {"age": [40, 30], "pay": [3.0, 2.0]}


def test_categories_of_pandas_stay_categories() -> None:
    frame = pd.DataFrame({"size": pd.Categorical([3, 1, 3]), "x": [1.0, 2.0, 3.0]})
    assert pa.types.is_dictionary(opened(frame).inputs.schema.field("size").type)


def test_decimals_become_floats() -> None:
    data = opened(pa.table({"x": [Decimal("1.5")], "y": [1]}))
    assert data.inputs.schema.field("x").type == pa.float64()


def test_dictionaries_of_several_chunks_become_one() -> None:
    parts = [pa.table({"t": pa.array([word]).dictionary_encode(), "x": [1]}) for word in "ab"]
    column = opened(pa.concat_tables(parts)).inputs.column("t")
    assert (column.num_chunks, column.to_pylist()) == (1, ["a", "b"])


@pytest.mark.parametrize(
    ("column", "what"),
    [
        (pa.array([1, None, 3]), "no value"),
        (pa.array([1.0, None, 3.0]), "no value"),
        (pa.array([1.0, float("nan"), 3.0]), "nan"),
        (pa.array([1.0, float("inf"), 3.0]), "inf"),
    ],
)
def test_missing_numbers_raise_or_are_skipped(column: Any, what: str) -> None:
    table = pa.table({"y": [1.0, 2.0, None], "x": column, "label": [5, 6, 7]})
    with pytest.raises(InputError, match=rf"'x' has {what} in row 1 \(2 of 3 rows are invalid\)"):
        as_dataset(table)
    data = opened(table, skip_bad=True)
    assert data.labels is not None
    assert (data.labels.tolist(), data.skipped) == ([5], ("row 1", "row 2"))
    assert data.inputs.column("x").to_pylist() == [1]


@pytest.mark.parametrize(
    ("column", "kind"),
    [
        ([datetime.date(2020, 1, 1)], "date32"),
        ([datetime.datetime(2020, 1, 1)], "timestamp"),
        ([[1, 2]], "list"),
        ([None], "null"),
        ([b"a"], "binary"),
    ],
)
def test_columns_of_other_types_raise(column: Any, kind: str) -> None:
    table = pa.table({"x": [1.0], "odd": column})
    with pytest.raises(InputError, match=rf"'odd' holds {kind}.*inputs='…' names the columns"):
        as_dataset(table)
    assert opened(table, inputs="x").inputs.column_names == ["x"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"text": "body"},
            "There is no column 'body' in the table. Columns: domain, review, label",
        ),
        ({"text": "label"}, "'label' holds int64, not text"),
        ({"text": ("domain", "review", "domain")}, "text names 3 columns"),
        ({"labels": "y"}, "There is no column 'y'"),
        ({"labels": [1]}, r"labels must have one value per row; got shape \(1,\) for 2 rows"),
        ({"inputs": "nothing"}, "There is no column 'nothing'"),
        ({"size": 8}, "size=8 does not apply to a table"),
    ],
)
def test_unknown_columns_raise(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        as_dataset(REVIEWS, **options)


def test_tables_without_rows_or_columns_raise() -> None:
    for table in (PEOPLE[:0], REVIEWS[:0].select(["review"])):
        with pytest.raises(InputError, match="has no rows"):
            as_dataset(table)
    with pytest.raises(InputError, match="no column but the label"):
        as_dataset(PEOPLE.select(["label"]))


def test_missing_label_raises() -> None:
    with pytest.raises(InputError, match="'label' has no value in row 1"):
        as_dataset(pa.table({"x": [1.0, 2.0], "label": [1, None]}))


def test_keys_do_not_depend_on_chunks() -> None:
    whole = opened(PEOPLE)
    again = opened(pa.concat_tables([PEOPLE[2:], PEOPLE[:2]]))
    assert np.array_equal(np.roll(whole.keys, 1), again.keys)
