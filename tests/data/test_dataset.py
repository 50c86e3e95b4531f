"""In-memory datasets: selection of rows, keys and fingerprints."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oodometer.core import inputs as batches
from oodometer.core.errors import InputError
from oodometer.core.inputs import Inputs
from oodometer.core.protocols import Dataset
from oodometer.data import InMemoryDataset

BATCHES: list[Inputs] = [
    np.arange(5 * 4 * 4, dtype=np.uint8).reshape(5, 4, 4),
    np.arange(10.0).reshape(5, 2),
    ["a", "b", "c", "d", "e"],
    [("a", "b"), ("b", "a"), ("c", ""), ("", "c"), ("d", "d")],
    pa.table({"x": [1.0, 2.0, 3.0, 4.0, 5.0], "town": list("vwxyz")}),
]


@pytest.mark.parametrize("inputs", BATCHES, ids=batches.infer_kind)
def test_batches_and_take_return_the_rows(inputs: Inputs) -> None:
    data = InMemoryDataset("data", inputs, labels=np.arange(5))
    assert isinstance(data, Dataset)
    assert [len(batch) for batch in data.batches(2)] == [2, 2, 1]
    assert batches.batches_equal(batches.concat_batches(list(data.batches(2))), inputs)
    chosen = data.take(np.array([3, 0, 3]))
    assert batches.batches_equal(chosen, batches.take(inputs, np.array([3, 0, 3])))


@pytest.mark.parametrize("inputs", BATCHES, ids=batches.infer_kind)
def test_selected_rows_keep_keys_and_labels(inputs: Inputs) -> None:
    data = InMemoryDataset("data", inputs, labels=np.array(list("abcde")))
    for index in (np.array([4, 1]), np.array([False, True, False, False, True])[::-1], slice(1, 3)):
        some = data.rows(index)
        assert some.labels is not None
        numbers = np.arange(5)[index]
        assert some.keys.tolist() == data.keys[numbers].tolist()
        assert some.labels.tolist() == [list("abcde")[row] for row in numbers]
        assert len(some) == len(numbers)


@pytest.mark.parametrize("inputs", BATCHES, ids=batches.infer_kind)
def test_boolean_mask_selects_rows(inputs: Inputs) -> None:
    marks = np.array([True, False, False, True, False])
    assert batches.batches_equal(
        InMemoryDataset("data", inputs).take(marks), batches.take(inputs, np.array([0, 3]))
    )


def test_mask_of_wrong_length_raises() -> None:
    with pytest.raises(InputError, match=r"must have shape \(5,\); got \(2,\)"):
        InMemoryDataset("data", BATCHES[1]).take(np.array([True, False]))


def test_batch_size_below_1_raises() -> None:
    with pytest.raises(InputError, match="size must be at least 1; got 0"):
        list(InMemoryDataset("data", BATCHES[1]).batches(0))


def test_fingerprint_depends_on_content_and_order() -> None:
    data = InMemoryDataset("one", ["a", "b"])
    assert data.fingerprint == InMemoryDataset("two", ["a", "b"], np.array([1, 0])).fingerprint
    assert data.fingerprint != InMemoryDataset("one", ["b", "a"]).fingerprint
    assert data.fingerprint != InMemoryDataset("one", ["a", "b", "b"]).fingerprint


def test_fingerprint_depends_on_types_shapes_and_columns() -> None:
    zeros = np.zeros((2, 4))
    tables = [
        pa.table({"x": [1, 2]}),
        pa.table({"y": [1, 2]}),
        pa.table({"x": pa.array([1, 2], pa.int8())}),
    ]
    others: list[Inputs] = [zeros, zeros.reshape(2, 2, 2), zeros.astype(np.float32), *tables]
    prints = [InMemoryDataset("data", inputs).fingerprint for inputs in others]
    assert len(set(prints)) == len(prints)


@given(st.lists(st.text(), min_size=1, max_size=8), st.integers(1, 9))
def test_batches_of_any_size_concatenate_to_all_rows(texts: list[str], size: int) -> None:
    assert batches.concat_batches(list(InMemoryDataset("texts", texts).batches(size))) == texts
