"""Sampling schedule: rounds cover every member once, and steps respect the input limit."""

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
def test_every_member_is_sampled_once(n: int, draws: int, seed: int) -> None:
    sampled = Counter(members(list(progressive_rounds(keys(n), draws, seed))))
    assert sampled == Counter((e, m) for e in range(n) for m in range(draws + 1))
    assert sampled == Counter(members(list(full_pass(n, draws))))


def test_all_examples_come_before_any_third_draw() -> None:
    seen = members(list(progressive_rounds(keys(700), 5, 0)))
    assert {m for _, m in seen[: 3 * 700]} == {0, 1, 2}
    assert [m for _, m in seen[3 * 700 :]] == [3] * 700 + [4] * 700 + [5] * 700


def test_order_depends_on_content_and_seed_not_on_positions() -> None:
    rows = keys(50)
    shuffled = rows[np.random.default_rng(1).permutation(50)]
    assert np.array_equal(rows[shuffled_order(rows, 3)], shuffled[shuffled_order(shuffled, 3)])
    assert not np.array_equal(shuffled_order(rows, 3), shuffled_order(rows, 4))


def test_round_is_limited_and_split_into_batches() -> None:
    whole = SamplingRound(np.arange(10), range(3))
    assert whole.size == 30
    assert whole.limit_to(14).examples.tolist() == [0, 1, 2, 3]
    assert [p.examples.tolist() for p in whole.batches(12)] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


@given(
    n=st.integers(1, 9), first=st.integers(0, 3), count=st.integers(1, 5), rows=st.integers(1, 20)
)
def test_batches_partition_a_round_within_the_size_limit(
    n: int, first: int, count: int, rows: int
) -> None:
    whole = SamplingRound(np.arange(n)[::-1], range(first, first + count))
    parts = list(whole.batches(rows))
    assert all(1 <= part.size <= rows for part in parts)
    assert Counter(members(parts)) == Counter(members([whole]))
    for part in parts:  # members of an example are split only if a batch has no room for them
        assert part.members == whole.members or (rows < count and len(part.examples) == 1)
    numbers = [(e, m) for e, m in members(parts) if e == 0]
    assert numbers == sorted(numbers)  # an example comes before its draws


def test_skip_seen_omits_known_members() -> None:
    whole = SamplingRound(np.array([4, 0, 2, 3]), range(1, 4))
    parts = list(whole.skip_seen(np.array([0, 9, 2, 4, 2])))
    assert [(p.examples.tolist(), list(p.members)) for p in parts] == [
        ([0], [1, 2, 3]),
        ([4, 2], [2, 3]),
    ]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"draws": 0}, "draws must be an integer of at least 1; got 0"),
        ({"draws": 2.5}, "an integer of at least 1; got 2.5"),
        ({"draws": 1, "identity": False}, "an integer of at least 2; got 1"),
        ({"precision": 0.0}, "precision is the half-width of the confidence interval"),
        ({"precision": 5.0}, r"for example 0.005; got 5.0"),
        ({"precision": 0.5}, "above 0 and below 0.5"),
        ({"max_inputs": 5}, "at least 6, enough for two examples .*; got 5"),
        ({"max_inputs": 3, "draws": 1}, "at least 4, enough for two examples .*; got 3"),
        ({"batch_size": 0}, "batch_size must be at least 1; got 0"),
    ],
)
def test_invalid_options_are_rejected(options: dict[str, float], message: str) -> None:
    defaults = {"draws": 10, "precision": None, "max_inputs": None, "identity": True}
    with pytest.raises(InputError, match=message):
        validate_sampling_options(**(defaults | options))  # type: ignore[arg-type]


def test_smallest_valid_options_are_accepted() -> None:
    validate_sampling_options(1, None, 4, identity=True, batch_size=1)
    validate_sampling_options(2, 0.499, 6, identity=False)


def test_rounds_grow_by_a_quarter_from_200_examples() -> None:
    sizes = [len(planned.examples) for planned in progressive_rounds(keys(400), 2, 0)]
    assert sizes == [200, 50, 62, 78, 10]


@given(
    n=st.integers(1, 300),
    draws=st.integers(1, 4),
    share=st.floats(0.05, 1.0),
    batch=st.integers(1, 40),
    known=st.integers(0, 5),
)
def test_steps_match_a_naive_loop_over_members(
    n: int, draws: int, share: float, batch: int, known: int
) -> None:
    rounds = list(progressive_rounds(keys(n), draws, 0))
    n_seen = np.random.default_rng(known).integers(0, known + 1, n)
    budget = max(int(share * n * (draws + 1)), draws + 1)
    steps = list(plan_steps(rounds, budget, n_seen, batch))
    seen = {(e, m) for e in range(n) for m in range(n_seen[e])}
    left = budget
    expected = []
    for planned in rounds:
        affordable = [e for e in planned.examples if (left := left - len(planned.members)) >= 0]
        expected.append({(int(e), m) for e in affordable for m in planned.members} - seen)
        seen |= expected[-1]
        if len(affordable) < len(planned.examples):
            break
    assert [set(members(step)) for step in steps] == expected
    assert [len(members(step)) for step in steps] == [len(pairs) for pairs in expected]
    assert all(part.size <= batch for step in steps for part in step)
