"""Kendall's τ-b against a loop over pairs and scipy, ties included."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kendalltau

from oodometer.core.array_types import Floats, Ints
from oodometer.studies.analysis import _kendall
from oodometer.studies.analysis._kendall import ConcordanceCounts, count_pairs, dense_ranks, tau_b
from tests.support.evaluation_tables import loop_tau

# Few distinct values make many ties.
cells = st.one_of(st.integers(-3, 3).map(float), st.floats(-1, 1), st.just(math.nan))
grouped = st.lists(st.tuples(st.integers(0, 4), cells, cells), max_size=60)


def counted(group: Ints, x: Floats, y: Floats, count: int) -> ConcordanceCounts:
    order = np.argsort(group, kind="stable")
    return count_pairs(dense_ranks(x)[order], dense_ranks(y)[order], group[order], count)


def columns(rows: list[tuple[int, float, float]]) -> tuple[Ints, Floats, Floats]:
    group = np.array([row[0] for row in rows], dtype=np.int64)
    x, y = (np.array([row[j] for row in rows], dtype=np.float64) for j in (1, 2))
    return group, x, y


@given(grouped)
def test_groups_match_loop_over_pairs(
    rows: list[tuple[int, float, float]],
) -> None:
    group, x, y = columns(rows)
    found = counted(group, x, y, 6)  # the last group, and possibly others, are empty
    for g in range(6):
        mine = [(a, b) for h, a, b in rows if h == g and not math.isnan(a + b)]
        expected, _ = loop_tau([a for a, _ in mine], [b for _, b in mine])
        assert found.n[g] == len(mine)
        assert math.isnan(found.tau[g]) if expected is None else (
            math.isclose(found.tau[g], expected, abs_tol=1e-12)
        )  # fmt: skip


@pytest.mark.parametrize("levels", [2, 30, 10_000])
@pytest.mark.parametrize("n", [2, 3, 63, 64, 65, 500])
def test_large_groups_match_scipy(n: int, levels: int) -> None:
    rng = np.random.default_rng([n, levels])
    group = rng.permutation(np.repeat(np.arange(7), n))
    x = rng.integers(0, levels, size=7 * n).astype(np.float64)
    y = np.floor(x / 2) + rng.integers(0, levels, size=7 * n).astype(np.float64)
    found = counted(group, x, y, 7).tau
    for g in range(7):
        expected = kendalltau(x[group == g], y[group == g]).statistic
        np.testing.assert_allclose(found[g], expected, rtol=1e-12, atol=1e-15)


@given(grouped, st.sampled_from([1, 5, 16, 40]), st.sampled_from([3, 8, 62]))
def test_chunk_size_and_key_width_do_not_change_counts(
    rows: list[tuple[int, float, float]], chunk: int, width: int
) -> None:
    group, x, y = columns(rows)
    whole = counted(group, x, y, 5)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_kendall, "CHUNK_ROWS", chunk)
        patch.setattr(_kendall, "MAX_KEY_BITS", width)
        parts = counted(group, x, y, 5)
    for name in ("n", "net_concordant", "tied_x", "tied_y"):
        np.testing.assert_array_equal(getattr(parts, name), getattr(whole, name))


def test_ranks_too_large_for_the_key_are_compressed() -> None:
    rng = np.random.default_rng(0)
    x, y, group = rng.integers(0, 9, 90), rng.integers(0, 9, 90), np.sort(rng.integers(0, 3, 90))
    short, long = count_pairs(x, y, group, 3), count_pairs(x << 40, y << 40, group, 3)
    for name in ("n", "net_concordant", "tied_x", "tied_y"):
        np.testing.assert_array_equal(getattr(long, name), getattr(short, name))


def test_counts_match_pairs_counted_by_hand() -> None:
    """Six pairs: one tied in x, one tied in y, one concordant, three discordant."""
    found = counted(
        np.zeros(4, dtype=np.int64), np.array([1.0, 1, 2, 3]), np.array([1.0, 2, 2, 0.5]), 1
    )
    assert (found.n_pairs[0], found.tied_x[0], found.tied_y[0]) == (6, 1, 1)
    assert found.net_concordant[0] == 1 - 3
    assert found.tau[0] == pytest.approx(-2 / 5)


def test_constant_column_has_no_tau() -> None:
    assert tau_b([1, 1, 1], [1, 2, 3]) is None
    assert tau_b([1, 2, 3], [5, 5, 5]) is None
    assert tau_b([1], [1]) is None
    assert tau_b([], []) is None
    assert tau_b([1, math.nan], [1, 2]) is None


def test_perfect_order_gives_exactly_one() -> None:
    x = np.arange(300.0) // 3
    assert tau_b(x, np.exp(x / 50)) == 1.0
    assert tau_b(x, -x) == -1.0


def test_adjacent_floats_are_not_tied() -> None:
    assert tau_b([1.0, np.nextafter(1.0, 2.0)], [0.0, 1.0]) == 1.0
