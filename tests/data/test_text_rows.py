"""Texts and pairs from lists."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from oodometer.core.errors import InputError
from oodometer.data import InMemoryDataset, as_dataset


def opened(thing: Any, **options: Any) -> InMemoryDataset:
    data = as_dataset(thing, **options)
    assert isinstance(data, InMemoryDataset)
    return data


def test_texts_are_unchanged() -> None:
    data = opened(["good ", "bad"], labels=["+", "-"], name="reviews")
    assert (data.kind, data.inputs, data.name) == ("text", ["good ", "bad"], "reviews")
    assert data.labels is not None
    assert data.labels.tolist() == ["+", "-"]


@pytest.mark.parametrize("row", [("a", "b"), ["a", "b"]])
def test_pairs_become_tuples(row: Any) -> None:
    data = opened([row, row])
    assert (data.kind, data.inputs) == ("pairs", [("a", "b"), ("a", "b")])


def test_string_arrays_are_texts_or_pairs() -> None:
    assert opened(np.array(["a", "b"])).inputs == ["a", "b"]
    assert opened(np.array(["a", "b"], dtype=object)).inputs == ["a", "b"]
    assert opened(np.array([["a", "b"]])).inputs == [("a", "b")]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (
            ["a", None, "b"],
            r"row 1 has no text \(1 of 3 rows are invalid\)\. Correct or remove them.*skip_bad=True",
        ),
        (["a", float("nan"), ""], r"row 1 has no text \(2 of 3"),
        (["", "a", "  \n"], r"row 0 has an empty text \(2 of 3"),
        ([("a", "b"), ("a", "")], r"row 1 has an empty text \(1 of 2"),
        ([("a", None), ("a", "b")], r"row 0 has no text \(1 of 2"),
        ([None, ["a", "b"]], r"row 0 has no text \(1 of 2"),
    ],
)
def test_missing_and_blank_texts_raise_or_are_skipped(rows: list[Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        as_dataset(rows)
    data = opened(rows, labels=list(range(len(rows))), skip_bad=True)
    good = [row for row in rows if row in ("a", "b", ("a", "b"), ["a", "b"])]
    assert [list(row) for row in data.inputs] == [list(row) for row in good]
    assert data.labels is not None
    assert data.labels.tolist() == [at for at, row in enumerate(rows) if row in good]
    assert len(data.skipped) == len(rows) - len(good)


def test_all_rows_invalid_raises_even_with_skip_bad() -> None:
    with pytest.raises(InputError, match=r"2 of 2 rows are invalid\)\. Use other data"):
        as_dataset([" ", ""], skip_bad=True)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (["a", 3], "Row 1 is not a text like the rows before it but int 3"),
        (["a", ("a", "b")], "Row 1 is not a text"),
        ([("a", "b"), "a"], "Row 1 is not a pair of texts.*but str 'a'"),
        ([("a", "b"), ("a", "b", "c")], "Row 1 is not a pair"),
        ([None, None], "A list of NoneType is not a dataset"),
    ],
)
def test_mixed_rows_raise(rows: list[Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        as_dataset(rows, skip_bad=True)
