"""The sample that adds up: the same whatever the parts, and as random as any."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oodometer.core.errors import InputError
from oodometer.data.bottom_k import Bottom, Keeper, ceiling, joined, priorities


def rows(seed: int, first: int, n: int) -> Bottom:
    places = np.arange(first, first + n)
    return Bottom(places, priorities(seed, first, n), {"x": places * 10})


def literal(seed: int, n: int, size: int) -> list[int]:
    """Sort all rows by priority and take the first ones."""
    draws = priorities(seed, 0, n).tolist()
    return sorted(sorted(range(n), key=lambda place: (draws[place], place))[:size])


@given(st.integers(0, 5), st.integers(0, 2**40), st.integers(0, 50), st.integers(0, 50))
def test_a_row_has_one_priority_wherever_reading_begins(
    seed: int, first: int, skipped: int, n: int
) -> None:
    whole = priorities(seed, first, skipped + n)
    assert len(whole) == skipped + n
    np.testing.assert_array_equal(priorities(seed, first + skipped, n), whole[skipped:])


def test_priorities_are_even_and_hang_on_the_seed() -> None:
    draws = priorities(0, 0, 100_000) / 2**32
    assert np.abs(np.quantile(draws, [0.1, 0.5, 0.9]) - [0.1, 0.5, 0.9]).max() < 0.01
    assert abs(np.corrcoef(draws[:-1], draws[1:])[0, 1]) < 0.02
    assert (priorities(1, 0, 100) != priorities(0, 0, 100)).all()


@given(
    seed=st.integers(0, 5),
    cuts=st.lists(st.integers(0, 200), max_size=6),
    size=st.integers(1, 60),
    order=st.randoms(use_true_random=False),
)
def test_any_parts_in_any_order_make_the_sample_of_a_sort(
    seed: int, cuts: list[int], size: int, order: object
) -> None:
    n, ends = 200, [0, *sorted(cuts), 200]
    parts = [rows(seed, a, b - a) for a, b in pairwise(ends)]
    order.shuffle(parts)  # type: ignore[attr-defined]
    keeper = Keeper(size)
    for part in parts:
        keeper.add(part.cut(size))
    found = keeper.sample()
    assert found is not None
    assert found.places.tolist() == literal(seed, n, size)
    assert (found.rows["x"] == found.places * 10).all()
    assert joined(parts, size).places.tolist() == found.places.tolist()


def test_of_like_priorities_the_first_rows_are_kept_whoever_comes_first() -> None:
    def part(first: int) -> Bottom:
        return Bottom(np.arange(first, first + 4), np.full(4, 7, np.uint32), {})

    for order in ([0, 4, 8], [8, 4, 0]):
        keeper = Keeper(2)
        for first in order:
            keeper.add(part(first))
        found = keeper.sample()
        assert found is not None
        assert found.places.tolist() == [0, 1]


def test_a_small_table_is_its_own_sample() -> None:
    keeper = Keeper(100, ceiling(100, 30))
    keeper.add(rows(0, 10, 20))
    keeper.add(rows(0, 0, 10))
    found = keeper.sample()
    assert found is not None
    assert found.places.tolist() == list(range(30))


@pytest.mark.parametrize("seed", range(20))
def test_the_ceiling_never_costs_a_row(seed: int) -> None:
    keeper = Keeper(50, ceiling(50, 5000))
    for first in range(0, 5000, 500):
        keeper.add(rows(seed, first, 500))
    found = keeper.sample()
    assert found is not None
    assert found.places.tolist() == literal(seed, 5000, 50)


def test_the_ceiling_spares_most_rows_where_the_number_of_rows_is_known() -> None:
    limit = ceiling(100_000, 100_000_000)
    assert 100_000 < limit / 2**32 * 100_000_000 < 103_000
    assert ceiling(100, None) == ceiling(100, 100) == 2**32


def test_nothing_offered_is_no_sample() -> None:
    assert Keeper(3).sample() is None
    with pytest.raises(InputError, match="at least one part"):
        joined([], 3)
