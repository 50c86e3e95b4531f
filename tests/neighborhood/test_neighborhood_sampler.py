"""Sampled batches: deduplicated and in order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oodometer.core import inputs as batches
from oodometer.core.errors import InputError
from oodometer.core.random_streams import RowStreams
from oodometer.data import as_dataset
from oodometer.neighborhood.sampling import (
    MAX_BATCH_BYTES,
    MAX_BATCH_ROWS,
    NeighborhoodSampler,
    SamplingRound,
    deduplicate,
)
from oodometer.transforms import get
from tests.neighborhood.test_invariance import Noise, vectors


@given(st.lists(st.sampled_from(["a", "b", "", "ab"]), min_size=1, max_size=20))
def test_distinct_rows_and_index_restore_the_rows(rows: list[str]) -> None:
    distinct, index = deduplicate(rows)
    assert len(distinct) == len(set(rows))
    assert [distinct[i] for i in index] == rows


def test_distinct_images_are_in_order_of_first_occurrence() -> None:
    images = np.arange(3, dtype=np.uint8)[:, None, None].repeat(4, axis=1).repeat(4, axis=2)
    distinct, index = deduplicate(images[[2, 0, 2, 1, 0]])
    assert np.array_equal(distinct, images[[2, 0, 1]])
    assert index.tolist() == [0, 1, 0, 2, 1]


def test_sample_contains_the_example_and_its_draws() -> None:
    dataset = as_dataset(np.random.default_rng(0).integers(0, 256, (6, 12, 12), dtype=np.uint8))
    transform = get("translate")
    distinct, index = NeighborhoodSampler(dataset, transform, seed=4).sample(
        SamplingRound(np.array([5, 2]), range(3))
    )
    inputs = distinct[index]
    assert np.array_equal(inputs[0], dataset.take(np.array([5, 2])))
    for number in (1, 2):
        for column, example in enumerate((5, 2)):
            row = np.array([example])
            draw = transform.apply(
                dataset.take(row), RowStreams(4, dataset.keys[row], np.array([number]))
            )
            assert np.array_equal(inputs[number, column], draw[0])


def test_batches_of_large_rows_are_smaller() -> None:
    small = as_dataset(
        np.zeros((2, 8, 8), dtype=np.uint8) + np.arange(2, dtype=np.uint8)[:, None, None]
    )
    large = as_dataset(np.zeros((1, 2**20), dtype=np.float64))
    assert NeighborhoodSampler(small, get("translate"), 0).default_batch_size() == MAX_BATCH_ROWS
    assert (
        NeighborhoodSampler(large, get("translate"), 0).default_batch_size()
        == MAX_BATCH_BYTES // 2**23
    )


def test_transform_that_drops_rows_is_named() -> None:
    class Losing(Noise):
        def apply(self, inputs: Any, draws: RowStreams) -> Any:
            return inputs[1:]

    with pytest.raises(InputError, match="'noise' returned 7 rows for 8"):
        NeighborhoodSampler(as_dataset(vectors(4)), Losing(), 0).sample(
            SamplingRound(np.arange(4), range(3))
        )


def test_tables_are_deduplicated_by_rows() -> None:
    import pyarrow as pa

    table = pa.table({"a": [1, 1, 2], "b": ["x", "x", "x"]})
    distinct, index = deduplicate(table)
    assert distinct.equals(table.take([0, 2]))
    assert index.tolist() == [0, 0, 1]
    assert batches.infer_kind(distinct) == "table"
