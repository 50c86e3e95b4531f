"""The order of rounds: a prefix is an answer, and no example or draw comes twice or never."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oodometer.core.errors import InputError
from oodometer.neighborhood.sampling import (
    SamplingRound,
    full_pass,
    plan_steps,
    progressive_rounds,
    shuffled_order,
    validate_sampling_options,
)


def keys(n: int) -> np.ndarray:
    return np.random.default_rng(n).integers(0, 2**64, n, dtype=np.uint64)


def members(rounds: list[SamplingRound]) -> list[tuple[int, int]]:
    return [(int(e), m) for r in rounds for e in r.examples for m in r.members]


@given(n=st.integers(1, 900), draws=st.integers(1, 6), seed=st.integers(0, 5))
def test_every_member_of_every_neighborhood_comes_once(n: int, draws: int, seed: int) -> None:
    found = Counter(members(list(progressive_rounds(keys(n), draws, seed))))
    assert found == Counter((e, m) for e in range(n) for m in range(draws + 1))
    assert found == Counter(members(list(full_pass(n, draws))))


def test_all_examples_come_before_any_third_draw() -> None:
    seen = members(list(progressive_rounds(keys(700), 5, 0)))
    assert {m for _, m in seen[: 3 * 700]} == {0, 1, 2}
    assert [m for _, m in seen[3 * 700 :]] == [3] * 700 + [4] * 700 + [5] * 700


def test_the_order_hangs_on_content_and_seed_not_on_where_rows_stand() -> None:
    some = keys(50)
    mixed = np.random.default_rng(1).permutation(50)
    assert np.array_equal(
        some[shuffled_order(some, 3)], some[mixed][shuffled_order(some[mixed], 3)]
    )
    assert not np.array_equal(shuffled_order(some, 3), shuffled_order(some, 4))


def test_a_round_is_cut_to_what_is_paid_for_and_into_batches() -> None:
    whole = SamplingRound(np.arange(10), range(3))
    assert whole.size == 30
    assert whole.limit_to(14).examples.tolist() == [0, 1, 2, 3]
    assert [p.examples.tolist() for p in whole.batches(12)] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


@given(
    n=st.integers(1, 9), first=st.integers(0, 3), count=st.integers(1, 5), rows=st.integers(1, 20)
)
def test_batches_hold_all_of_a_round_once_and_never_too_much(
    n: int, first: int, count: int, rows: int
) -> None:
    whole = SamplingRound(np.arange(n)[::-1], range(first, first + count))
    parts = list(whole.batches(rows))
    assert all(1 <= part.size <= rows for part in parts)
    assert Counter(members(parts)) == Counter(members([whole]))
    for part in parts:  # members are parted only where a batch has no room for them
        assert part.members == whole.members or (rows < count and len(part.examples) == 1)
    numbers = [(e, m) for e, m in members(parts) if e == 0]
    assert numbers == sorted(numbers)  # an example comes before its draws


def test_what_is_known_is_left_out_of_a_round() -> None:
    whole = SamplingRound(np.array([4, 0, 2, 3]), range(1, 4))
    parts = list(whole.skip_seen(np.array([0, 9, 2, 4, 2])))
    assert [(p.examples.tolist(), list(p.members)) for p in parts] == [
        ([0], [1, 2, 3]),
        ([4, 2], [2, 3]),
    ]


@pytest.mark.parametrize(
    ("wish", "message"),
    [
        ({"draws": 0}, "draws must be a whole number of at least 1; got 0"),
        ({"draws": 2.5}, "a whole number of at least 1; got 2.5"),
        ({"draws": 1, "identity": False}, "a whole number of at least 2; got 1"),
        ({"precision": 0.0}, "precision is the half-width wanted"),
        ({"precision": 5.0}, r"\(0.005, say\); got 5.0"),
        ({"precision": 0.5}, "between 0 and 0.5"),
        ({"max_inputs": 5}, "6 inputs at least; got 5"),
        ({"max_inputs": 3, "draws": 1}, "4 inputs at least; got 3"),
        ({"batch_size": 0}, "batch_size must be 1 or more; got 0"),
    ],
)
def test_wishes_that_cant_be_met_are_refused(wish: dict[str, float], message: str) -> None:
    usual = {"draws": 10, "precision": None, "max_inputs": None, "identity": True}
    with pytest.raises(InputError, match=message):
        validate_sampling_options(**(usual | wish))  # type: ignore[arg-type]


def test_the_smallest_wishes_are_granted() -> None:
    validate_sampling_options(1, None, 4, identity=True, batch_size=1)
    validate_sampling_options(2, 0.499, 6, identity=False)


def test_it_is_checked_first_at_two_hundred_and_then_at_every_quarter_more() -> None:
    sizes = [len(one.examples) for one in progressive_rounds(keys(400), 2, 0)]
    assert sizes == [200, 50, 62, 78, 10]


@given(
    n=st.integers(1, 300),
    draws=st.integers(1, 4),
    share=st.floats(0.05, 1.0),
    batch=st.integers(1, 40),
    known=st.integers(0, 5),
)
def test_steps_are_the_rounds_less_what_is_known_as_far_as_it_is_paid(
    n: int, draws: int, share: float, batch: int, known: int
) -> None:
    """Against one member after another, a set of what was seen, and a purse."""
    rounds = list(progressive_rounds(keys(n), draws, 0))
    seen = np.random.default_rng(known).integers(0, known + 1, n)
    budget = max(int(share * n * (draws + 1)), draws + 1)
    found = list(plan_steps(rounds, budget, seen, batch))
    there = {(e, m) for e in range(n) for m in range(seen[e])}
    left, twin, last = budget, [], []
    for one in rounds:
        paid = [e for e in one.examples if (left := left - len(one.members)) >= 0]
        left = max(left, 0) if len(paid) == len(one.examples) else 0
        twin.append({(int(e), m) for e in paid for m in one.members} - there)
        there |= twin[-1]
        last.append(len(paid) < len(one.examples))
        if last[-1]:
            break
    assert [set(members(step.batches)) for step in found] == twin
    assert [step.is_last for step in found] == last
    assert all(
        len(members(step.batches)) == len(some) for step, some in zip(found, twin, strict=True)
    )
    assert all(part.size <= max(batch, 1) for step in found for part in step.batches)
