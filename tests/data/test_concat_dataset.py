"""Concatenated datasets against the undivided dataset."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oodometer.core.errors import InputError
from oodometer.core.inputs import Inputs
from oodometer.core.protocols import Dataset
from oodometer.core.random_streams import RowStreams
from oodometer.data import as_dataset
from oodometer.data.dataset import ConcatDataset, TransformedDataset

ROWS = np.random.default_rng(0).normal(size=(12, 3))


def concatenated() -> ConcatDataset:
    cuts = [(0, 5), (5, 6), (6, 12)]
    return ConcatDataset(
        "all", tuple(as_dataset(ROWS[a:b], labels=np.arange(a, b)) for a, b in cuts)
    )


@given(st.lists(st.integers(-12, 11), max_size=20))
def test_rows_match_the_undivided_dataset_in_any_order(index: list[int]) -> None:
    rows = np.array(index, dtype=np.int64)
    assert np.array_equal(concatenated().take(rows), ROWS[rows])


def test_attributes_match_the_undivided_dataset() -> None:
    both, whole = concatenated(), as_dataset(ROWS, labels=np.arange(12))
    assert isinstance(both, Dataset)
    assert len(both) == 12
    assert both.labels is not None
    assert np.array_equal(both.labels, np.arange(12))
    assert np.array_equal(both.keys, whole.keys)
    assert np.array_equal(np.concatenate(list(both.batches(5))), ROWS)
    assert np.array_equal(both.take(slice(3, 9)), ROWS[3:9])
    assert np.array_equal(both.take(np.arange(12) % 2 == 0), ROWS[::2])


def test_texts_and_single_parts_can_be_concatenated() -> None:
    assert ConcatDataset("t", (as_dataset(["a"]), as_dataset(["b", "c"]))).take(slice(None)) == [
        "a",
        "b",
        "c",
    ]
    single = ConcatDataset("t", (as_dataset(["a", "b"]),))
    assert single.take(np.array([1])) == ["b"]
    assert single.take(slice(0, 0)) == []


def test_selected_rows_are_a_dataset() -> None:
    part = concatenated().rows(np.array([1, 4, 7, 11]))
    assert np.array_equal(part.take(slice(None)), ROWS[[1, 4, 7, 11]])
    assert part.labels is not None
    assert part.labels.tolist() == [1, 4, 7, 11]
    assert (part.name, len(part.parts)) == ("all", 2)
    for index in (slice(3, 9), np.array([4, 1, -1, 7]), np.arange(12) % 2 == 0):
        assert np.array_equal(concatenated().rows(index).take(slice(None)), ROWS[index])
    with pytest.raises(InputError, match="must be in the order of its parts"):
        concatenated().rows(np.array([7, 1]))


def test_fingerprint_depends_on_content() -> None:
    other = ConcatDataset("all", (as_dataset(ROWS[:6]), as_dataset(ROWS[6:] + 1)))
    assert concatenated().fingerprint == concatenated().fingerprint != other.fingerprint
    images = np.zeros((2, 4, 6, 3), dtype=np.uint8)
    wide, high = (
        ConcatDataset("i", (as_dataset(x),)) for x in (images, images.transpose(0, 2, 1, 3))
    )
    assert np.array_equal(wide.keys, high.keys)
    assert wide.fingerprint != high.fingerprint


def test_labels_are_known_if_all_parts_have_them() -> None:
    some = ConcatDataset("x", (as_dataset(ROWS[:2], labels=[0, 1]), as_dataset(ROWS[2:])))
    assert some.labels is None
    mixed = ConcatDataset(
        "x", (as_dataset(ROWS[:2], labels=[0, 1]), as_dataset(ROWS[2:4], labels=["a", "b"]))
    )
    with pytest.raises(InputError, match="some labels are names and some are numbers"):
        _ = mixed.labels
    names = [as_dataset(ROWS[:1], labels=[name]) for name in ("a", "zebra")]
    found = ConcatDataset("x", tuple(names)).labels
    assert found is not None
    assert found.tolist() == ["a", "zebra"]


def test_parts_of_different_kinds_raise() -> None:
    with pytest.raises(InputError, match="got text and vectors"):
        ConcatDataset("x", (as_dataset(["a"]), as_dataset(ROWS)))
    with pytest.raises(InputError, match="got none"):
        ConcatDataset("x", ())


def test_skipped_rows_of_all_parts_are_listed() -> None:
    parts = (as_dataset(["a", " "], skip_bad=True), as_dataset(["b"]))
    assert ConcatDataset("x", parts).skipped == ("row 1",)
    assert ConcatDataset("x", (TransformedDataset(as_dataset(["a"]), Same()),)).skipped == ()


class Same:
    """Transform that changes nothing."""

    name = "same"

    def apply(self, inputs: Inputs, draws: RowStreams) -> Inputs:
        return inputs


def test_incompatible_rows_raise_one_line() -> None:
    both = ConcatDataset("a + b", (as_dataset(ROWS), as_dataset(ROWS[:, :2])))
    with pytest.raises(InputError, match=r"Rows of a \+ b cannot be combined") as caught:
        both.take(slice(None))
    assert "vectors of one width" in str(caught.value)
    assert "\n" not in str(caught.value)
