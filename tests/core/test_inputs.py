"""Batches of every kind: kind, rows and row keys."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oodometer.core import inputs as batches
from oodometer.core.errors import InputError
from oodometer.core.inputs import Inputs

TABLE = pa.table({"x": [1.0, 2.0, 1.0], "town": pa.array(["u", "v", "u"]).dictionary_encode()})
KINDS: list[tuple[str, Inputs]] = [
    ("images", np.array([0, 1, 0], dtype=np.uint8)[:, None, None] * np.ones((3, 2, 2), np.uint8)),
    ("images", np.array([0, 1, 0], dtype=np.uint8)[:, None, None, None] * np.ones((3, 2, 2, 3), np.uint8)),
    ("images", np.array([0, 1, 0], dtype=np.uint8)[:, None, None, None] * np.ones((3, 2, 2, 1), np.uint8)),
    ("text", ["a", "b", "a"]),
    ("pairs", [("a", "b"), ("b", "a"), ("a", "b")]),
    ("vectors", np.array([[1.0, 2.0], [2.0, 1.0], [1.0, 2.0]])),
    ("vectors", np.array([0.0, 1.0, 0.0], dtype=np.float32)[:, None, None] * np.ones((3, 2, 2), np.float32)),
    ("table", TABLE),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "inputs"), KINDS)
def test_kind_is_inferred_from_the_type(kind: str, inputs: Inputs) -> None:
    assert batches.infer_kind(inputs) == kind


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (np.zeros((2, 3, 8, 8), dtype=np.uint8), r"got \(2, 3, 8, 8\)\. If channels come first"),
        (np.zeros((2, 3), dtype=np.int64), "array of int64 of shape"),
        (np.zeros(3), r"float64 of shape \(3,\)"),
        (["a", 1], "row 1 is int"),
        (["a", ("a", "b")], "strings only, or pairs of strings only; row 1 is tuple"),
        ([("a", "b"), "a"], "row 1 is str"),
        ([("a", "b", "c")], "row 0 is tuple"),
        ({"a": 1}, "A dict is not a batch of inputs"),
        ("a text", "A str is not a batch"),
    ],
)
def test_other_types_raise(inputs: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        batches.infer_kind(inputs)


@pytest.mark.parametrize(("kind", "inputs"), KINDS)
@pytest.mark.parametrize("index", [np.array([2, 0, 2]), slice(1, 3), np.array([], dtype=np.int64)])
def test_take_returns_rows_in_index_order(kind: str, inputs: Inputs, index: Any) -> None:
    taken = batches.take(inputs, index)
    numbers = np.arange(3)[index]
    assert len(taken) == len(numbers)
    for at, row in enumerate(numbers):
        one = batches.take(inputs, slice(int(row), int(row) + 1))
        assert batches.batches_equal(batches.take(taken, slice(at, at + 1)), one)
    assert kind == "text" or len(taken) == 0 or batches.infer_kind(taken) == kind


@pytest.mark.parametrize(("kind", "inputs"), KINDS)
def test_concatenated_parts_equal_the_whole(kind: str, inputs: Inputs) -> None:
    parts = [batches.take(inputs, slice(0, 2)), batches.take(inputs, slice(2, 3))]
    assert batches.batches_equal(batches.concat_batches(parts), inputs)
    assert not batches.batches_equal(batches.concat_batches(parts[::-1] + parts), inputs)


@pytest.mark.parametrize(("kind", "inputs"), KINDS)
def test_equal_rows_have_equal_keys_at_any_position(kind: str, inputs: Inputs) -> None:
    keys = batches.hash_rows(inputs)
    assert keys.dtype == np.uint64
    assert keys.shape == (3,)
    assert keys[0] == keys[2] != keys[1]
    alone = batches.hash_rows(batches.take(inputs, np.array([1])))
    assert alone[0] == keys[1]


@given(st.lists(st.text(), max_size=6))
def test_keys_of_texts_are_their_hashes(texts: list[str]) -> None:
    hashes = [hashlib.blake2b(t.encode("utf-8", "surrogatepass"), digest_size=8) for t in texts]
    expected = [int.from_bytes(one.digest(), "little") for one in hashes]
    assert batches.hash_rows(texts).tolist() == expected


def test_pairs_with_a_different_split_have_different_keys() -> None:
    keys = batches.hash_rows([("ab", "c"), ("a", "bc"), ("abc", ""), ("", "abc")])
    assert len(set(keys.tolist())) == 4


def test_table_keys_do_not_depend_on_dictionary_encoding() -> None:
    plain = pa.table({"x": TABLE.column("x"), "town": ["u", "v", "u"]})
    assert batches.hash_rows(plain).tolist() == batches.hash_rows(TABLE).tolist()


def test_table_keys_distinguish_columns_and_missing_values() -> None:
    swapped = pa.table({"x": ["u", "v", "u", None, None], "y": ["v", "u", "u", "u", None]})
    assert len(set(batches.hash_rows(swapped).tolist())) == 5
    words = pa.table({"x": pa.array(["None", "", None, "nan"])})
    assert len(set(batches.hash_rows(words).tolist())) == 4


def test_lone_surrogates_have_keys() -> None:
    assert len(set(batches.hash_rows(["\ud800", "\udfff"]).tolist())) == 2


def test_batches_equal_distinguishes_types() -> None:
    assert not batches.batches_equal(np.zeros((1, 2)), [[0.0, 0.0]])
    assert batches.batches_equal(np.array([[np.nan]]), np.array([[np.nan]]))
    assert not batches.batches_equal(["a"], ["b"])
