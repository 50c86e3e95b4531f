"""Bottom-k sample: independent of partitions, and uniform."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oodometer.core.errors import InputError
from oodometer.data.bottom_k import (
    BottomKSample,
    BottomKSampler,
    merge_samples,
    priority_bound,
    row_priorities,
)


def rows(seed: int, first: int, n: int) -> BottomKSample:
    places = np.arange(first, first + n)
    return BottomKSample(places, row_priorities(seed, first, n), {"x": places * 10})


def literal(seed: int, n: int, size: int) -> list[int]:
    """Sort all rows by priority and take the first ones."""
    draws = row_priorities(seed, 0, n).tolist()
    return sorted(sorted(range(n), key=lambda place: (draws[place], place))[:size])


@given(st.integers(0, 5), st.integers(0, 2**40), st.integers(0, 50), st.integers(0, 50))
def test_priority_does_not_depend_on_where_reading_starts(
    seed: int, first: int, skipped: int, n: int
) -> None:
    whole = row_priorities(seed, first, skipped + n)
    assert len(whole) == skipped + n
    np.testing.assert_array_equal(row_priorities(seed, first + skipped, n), whole[skipped:])


def test_priorities_are_uniform_and_depend_on_the_seed() -> None:
    draws = row_priorities(0, 0, 100_000) / 2**32
    assert np.abs(np.quantile(draws, [0.1, 0.5, 0.9]) - [0.1, 0.5, 0.9]).max() < 0.01
    assert abs(np.corrcoef(draws[:-1], draws[1:])[0, 1]) < 0.02
    assert (row_priorities(1, 0, 100) != row_priorities(0, 0, 100)).all()


@given(
    seed=st.integers(0, 5),
    cuts=st.lists(st.integers(0, 200), max_size=6),
    size=st.integers(1, 60),
    order=st.randoms(use_true_random=False),
)
def test_merged_parts_in_any_order_match_sorting(
    seed: int, cuts: list[int], size: int, order: object
) -> None:
    n, ends = 200, [0, *sorted(cuts), 200]
    parts = [rows(seed, a, b - a) for a, b in pairwise(ends)]
    order.shuffle(parts)  # type: ignore[attr-defined]
    keeper = BottomKSampler(size)
    for part in parts:
        keeper.merge(part.truncate(size))
    found = keeper.sample()
    assert found is not None
    assert found.positions.tolist() == literal(seed, n, size)
    assert (found.columns["x"] == found.positions * 10).all()
    assert merge_samples(parts, size).positions.tolist() == found.positions.tolist()


def test_earlier_rows_win_ties_in_any_reading_order() -> None:
    def part(first: int) -> BottomKSample:
        return BottomKSample(np.arange(first, first + 4), np.full(4, 7, np.uint32), {})

    for order in ([0, 4, 8], [8, 4, 0]):
        keeper = BottomKSampler(2)
        for first in order:
            keeper.merge(part(first))
        found = keeper.sample()
        assert found is not None
        assert found.positions.tolist() == [0, 1]


def test_small_table_is_sampled_completely() -> None:
    keeper = BottomKSampler(100, priority_bound(100, 30))
    keeper.merge(rows(0, 10, 20))
    keeper.merge(rows(0, 0, 10))
    found = keeper.sample()
    assert found is not None
    assert found.positions.tolist() == list(range(30))


@pytest.mark.parametrize("seed", range(20))
def test_priority_bound_never_excludes_a_sampled_row(seed: int) -> None:
    keeper = BottomKSampler(50, priority_bound(50, 5000))
    for first in range(0, 5000, 500):
        keeper.merge(rows(seed, first, 500))
    found = keeper.sample()
    assert found is not None
    assert found.positions.tolist() == literal(seed, 5000, 50)


def test_priority_bound_excludes_most_rows_if_n_is_known() -> None:
    limit = priority_bound(100_000, 100_000_000)
    assert 100_000 < limit / 2**32 * 100_000_000 < 103_000
    assert priority_bound(100, None) == priority_bound(100, 100) == 2**32


def test_no_rows_give_no_sample() -> None:
    assert BottomKSampler(3).sample() is None
    with pytest.raises(InputError, match="no samples to merge"):
        merge_samples([], 3)
