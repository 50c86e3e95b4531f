"""The order of rounds: a prefix is an answer, and no example or draw comes twice or never."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oodometer.errors import InputError
from oodometer.sampling import Round, by_rounds, check_wishes, everything, visiting_order


def keys(n: int) -> np.ndarray:
    return np.random.default_rng(n).integers(0, 2**64, n, dtype=np.uint64)


def members(rounds: list[Round]) -> list[tuple[int, int]]:
    return [(int(e), m) for r in rounds for e in r.examples for m in r.members]


@given(n=st.integers(1, 900), draws=st.integers(1, 6), seed=st.integers(0, 5))
def test_every_member_of_every_neighborhood_comes_once(n: int, draws: int, seed: int) -> None:
    found = Counter(members(list(by_rounds(keys(n), draws, seed))))
    assert found == Counter((e, m) for e in range(n) for m in range(draws + 1))
    assert found == Counter(members(list(everything(n, draws))))


def test_all_examples_come_before_any_third_draw() -> None:
    seen = members(list(by_rounds(keys(700), 5, 0)))
    assert {m for _, m in seen[: 3 * 700]} == {0, 1, 2}
    assert [m for _, m in seen[3 * 700 :]] == [3] * 700 + [4] * 700 + [5] * 700


def test_the_order_hangs_on_content_and_seed_not_on_where_rows_stand() -> None:
    some = keys(50)
    mixed = np.random.default_rng(1).permutation(50)
    assert np.array_equal(
        some[visiting_order(some, 3)], some[mixed][visiting_order(some[mixed], 3)]
    )
    assert not np.array_equal(visiting_order(some, 3), visiting_order(some, 4))


def test_a_round_is_cut_to_what_is_paid_for_and_into_batches() -> None:
    whole = Round(np.arange(10), range(3))
    assert whole.size == 30
    assert whole.within(14).examples.tolist() == [0, 1, 2, 3]
    assert [p.examples.tolist() for p in whole.portions(12)] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert [len(p.examples) for p in whole.portions(1)] == [1] * 10  # members stay together


def test_what_is_known_is_left_out_of_a_round() -> None:
    whole = Round(np.array([4, 0, 2, 3]), range(1, 4))
    parts = list(whole.beyond(np.array([0, 9, 2, 4, 2])))
    assert [(p.examples.tolist(), list(p.members)) for p in parts] == [
        ([0], [1, 2, 3]),
        ([4, 2], [2, 3]),
    ]


@pytest.mark.parametrize(
    ("wish", "message"),
    [
        ({"draws": 0}, "draws must be at least 1; got 0"),
        ({"draws": 1, "identity": False}, "draws must be at least 2; got 1"),
        ({"precision": 0.0}, "precision is the half-width wanted"),
        ({"precision": 5.0}, r"\(0.005, say\); got 5.0"),
        ({"budget": 5}, "6 inputs at least; got 5"),
    ],
)
def test_wishes_that_cant_be_met_are_refused(wish: dict[str, float], message: str) -> None:
    usual = {"draws": 10, "precision": None, "budget": None, "identity": True}
    with pytest.raises(InputError, match=message):
        check_wishes(**(usual | wish))  # type: ignore[arg-type]
