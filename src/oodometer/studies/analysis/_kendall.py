"""Kendall's τ-b of many groups at once (Kendall, Biometrika 1945, for ties).

τ-b = (C − D) / √((N − X)(N − Y)) with N pairs in all, C of them concordant, D discordant, X tied in
x and Y in y. As Knight (JASA 1966) has it, D is what a merge sort by y has to swap once rows are
sorted by x; here every level of that merge is one sort of integers for many groups together.
Counts are exact.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from oodometer.core.array_types import Floats, Ints

# What a row is sorted by must fit an integer that has a sign.
MAX_KEY_BITS = 62
# So many rows are worked on at a time, which stay in cache.
CHUNK_ROWS = 16_384


@dataclass(frozen=True, eq=False)
class ConcordanceCounts:
    """Counts of every group: rows, concordant less discordant pairs, pairs tied in x and in y."""

    n: Ints
    net_concordant: Ints
    tied_x: Ints
    tied_y: Ints

    @property
    def n_pairs(self) -> Ints:
        """All pairs of every group."""
        return self.n * (self.n - 1) // 2

    @property
    def tau(self) -> Floats:
        """τ-b of every group, NaN where it has fewer than two rows or a side that is constant."""
        sides = np.sqrt(
            (self.n_pairs - self.tied_x) * (self.n_pairs - self.tied_y).astype(np.float64)
        )
        found: Floats = np.full(len(sides), np.nan)
        np.divide(self.net_concordant, sides, out=found, where=sides > 0)
        return np.asarray(np.clip(found, -1.0, 1.0))


def tau_b(x: npt.ArrayLike, y: npt.ArrayLike) -> float | None:
    """Kendall's τ-b of two columns; None where there is none. Rows with NaN are left out.

    Of the three pairs below, two are ordered alike and one is not.

    >>> round(tau_b([1, 2, 3], [1, 3, 2]), 4)
    0.3333
    """
    first, second = (dense_ranks(np.asarray(side, dtype=np.float64)) for side in (x, y))
    found = count_pairs(first, second, np.zeros(len(first), dtype=np.int64), 1).tau[0]
    return None if np.isnan(found) else float(found)


def dense_ranks(values: Floats) -> Ints:
    """The place of every value among the distinct ones; −1 for NaN.

    >>> dense_ranks(np.array([0.5, 0.1, np.nan, 0.5]))
    array([ 1,  0, -1,  1])
    """
    found = np.full(len(values), -1, dtype=np.int64)
    known = ~np.isnan(values)
    found[known] = np.unique(values[known], return_inverse=True)[1]
    return found


def count_pairs(x: Ints, y: Ints, group: Ints, n_groups: int) -> ConcordanceCounts:
    """Pairs within each of `n_groups` groups, from ranks; rows where one is −1 are left out.

    `group` is the group of every row, and rows are in its order.

    >>> found = count_pairs(np.array([0, 1, 2, 0, 1]), np.array([0, 2, 1, 1, 0]),
    ...               np.array([0, 0, 0, 1, 1]), 2)
    >>> found.net_concordant.tolist(), found.tau.round(4).tolist()
    ([1, -1], [0.3333, -1.0])
    """
    counts = np.zeros((4, n_groups), dtype=np.int64)
    known = np.flatnonzero((x >= 0) & (y >= 0))
    x, y, group = x[known], y[known], group[known]
    for rows in _group_chunks(group, n_groups):
        first, last = group[rows.start], group[rows.stop - 1]
        counts[:, first : last + 1] = _count_chunk(x[rows], y[rows], group[rows] - first)
    return ConcordanceCounts(*counts)


def _group_chunks(group: Ints, n_groups: int) -> Iterator[slice]:
    """Rows of whole groups, about SHARE at a time."""
    ends = np.searchsorted(group, np.arange(n_groups), side="right")
    start = 0
    while start < len(group):
        fits = np.searchsorted(ends, start + CHUNK_ROWS, side="right") - 1
        whole = int(ends[group[start]])
        stop = max(whole, int(ends[fits]) if fits >= 0 else 0)
        yield slice(start, stop)
        start = stop


def _count_chunk(x: Ints, y: Ints, group: Ints) -> tuple[Ints, ...]:
    """What `ConcordanceCounts` has, of groups 0, 1, …; each but the last may be empty."""
    if _bit_length(x) + _bit_length(y) + _bit_length(group) > MAX_KEY_BITS:
        x, y = (np.unique(side, return_inverse=True)[1] for side in (x, y))
    bits = _bit_length(y)
    key = np.sort((((group << _bit_length(x)) | x) << bits) | y)
    y = key & ((1 << bits) - 1)
    n = np.bincount(group)
    tied, tied_x = _tied_pairs(key, group), _tied_pairs(key >> bits, group)
    tied_y = _tied_pairs(np.sort((group << bits) | y), group)
    surplus = n * (n - 1) // 2 - tied_x - tied_y + tied - 2 * _count_inversions(y, group)
    return n, surplus, tied_x, tied_y


def _bit_length(values: Ints) -> int:
    return int(values.max(initial=0)).bit_length()


def _group_sums(values: Ints, group: Ints) -> Ints:
    # Weights are added as floats, which is exact here: no group has 10⁸ rows.
    return np.bincount(group, weights=values).astype(np.int64)


def _position_in_run(codes: Ints) -> Ints:
    """The place of every row in its run of equal codes."""
    fresh = np.flatnonzero(np.diff(codes, prepend=-1))
    return np.arange(len(codes)) - np.repeat(fresh, np.diff(fresh, append=len(codes)))


def _tied_pairs(codes: Ints, group: Ints) -> Ints:
    """Pairs of equal codes, which are sorted: each row with all before it in its run."""
    return _group_sums(_position_in_run(codes), group)


def _count_inversions(y: Ints, group: Ints) -> Ints:
    """Pairs of every group whose later row has the smaller y.

    Level by level, blocks of 2, 4, 8, … rows are sorted by y. A row of a block's right half goes
    forward by one for every row of the left half with a larger y, so these pairs are the sum of
    the places of right rows before the sort, less that after it.
    """
    place, twice = _position_in_run(group), y << 1
    bits, wide = _bit_length(place), _bit_length(y) + 1
    outer = group << bits
    less = np.zeros(len(y), dtype=np.int64)
    for level in range(bits):
        right = (place >> level) & 1
        key = ((outer | (place >> (level + 1))) << wide) | twice | right
        less += right
        key.sort()
        less -= key & 1
    return _group_sums(less * np.arange(len(y)), group)
