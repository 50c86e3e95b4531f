"""Random streams depend on seed, row content, draw and namespace only."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oodometer.core.inputs import splitmix64
from oodometer.core.random_streams import RowStreams

MASK = 2**64 - 1


def reference_finalizer(value: int) -> int:
    """Return SplitMix64 of one number, in Python integers."""
    value = (value + 0x9E3779B97F4A7C15) & MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & MASK
    return value ^ (value >> 31)


def draws(n: int, seed: int = 0) -> RowStreams:
    return RowStreams(seed, np.arange(n, dtype=np.uint64), np.ones(n, dtype=np.int64))


@given(st.integers(0, MASK))
def test_splitmix64_matches_the_published_finalizer(value: int) -> None:
    assert int(splitmix64(np.array([value], dtype=np.uint64))[0]) == reference_finalizer(value)


def test_splitmix64_matches_the_published_first_number() -> None:
    """Check the first number of seed 1234567, the same in every implementation."""
    assert int(splitmix64(np.array([1234567], dtype=np.uint64))[0]) == 6457827717110365317


def test_uniforms_match_a_loop() -> None:
    found = draws(3, seed=5)
    for state, row in zip(found.initial_states, found.uniforms(4), strict=True):
        step = 0x9E3779B97F4A7C15
        bits = [reference_finalizer((int(state) + step * j) & MASK) for j in range(1, 5)]
        assert row.tolist() == [(b >> 11) / 2**53 for b in bits]


@given(st.permutations(range(6)), st.integers(1, 5))
def test_draws_do_not_depend_on_order_or_batch(order: list[int], cut: int) -> None:
    found, index = draws(6), np.array(order)
    whole = found.uniforms(3)
    assert np.array_equal(found.rows(index).uniforms(3), whole[index])
    assert np.array_equal(found.rows(slice(0, cut)).uniforms(3), whole[:cut])
    assert np.array_equal(found.uniforms(7)[:, :3], whole)


def test_draws_depend_on_seed_row_draw_and_namespace() -> None:
    found = draws(2)
    others = [
        found,
        replace(found, seed=1),
        replace(found, seed=-1),
        replace(found, row_keys=found.row_keys + np.uint64(2)),
        replace(found, draw_index=found.draw_index + 1),
        found.substream("left"),
        found.substream("right"),
        found.substream("left").substream("right"),
    ]
    rows = np.concatenate([one.uniforms(2) for one in others])
    assert len(np.unique(rows)) == rows.size


def test_uniforms_are_uniform_and_independent() -> None:
    values = draws(20_000).uniforms(5)
    assert values.min() >= 0.0
    assert values.max() < 1.0
    # Five standard deviations of a mean, of a histogram bin and of a correlation.
    assert values.mean(axis=0) == pytest.approx(np.full(5, 0.5), abs=5 * np.sqrt(1 / 12 / 20_000))
    counts = np.histogram(values, bins=20, range=(0, 1))[0]
    assert counts == pytest.approx(np.full(20, 5000), abs=5 * np.sqrt(5000))
    assert np.corrcoef(values.T) == pytest.approx(np.eye(5), abs=5 / np.sqrt(20_000))


def test_consecutive_rows_and_draws_are_independent() -> None:
    examples = np.repeat(np.arange(200, dtype=np.uint64), 100)
    values = RowStreams(0, examples, np.tile(np.arange(1, 101), 200)).uniforms(1).reshape(200, 100)
    limit = 5 / np.sqrt(values.size)
    assert abs(np.corrcoef(values[:-1].ravel(), values[1:].ravel())[0, 1]) < limit
    assert abs(np.corrcoef(values[:, :-1].ravel(), values[:, 1:].ravel())[0, 1]) < limit


def test_generators_are_reproducible_per_row() -> None:
    found = draws(4)
    first = [generator.random() for generator in found.generators()]
    assert first == [generator.random() for generator in found.generators()]
    assert len(set(first)) == 4
    assert [g.random() for g in found.rows(np.array([2])).generators()] == first[2:3]


def test_length_is_the_number_of_rows() -> None:
    assert len(draws(3)) == 3
    assert draws(0).uniforms(2).shape == (0, 2)
