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

from oodometer.core.softmax_kernels import Floats, Ints

# What a row is sorted by must fit an integer that has a sign.
WIDTH = 62
# So many rows are worked on at a time, which stay in cache.
SHARE = 16_384


@dataclass(frozen=True, eq=False)
class Pairs:
    """Counts of every group: rows, concordant less discordant pairs, pairs tied in x and in y."""

    n: Ints
    surplus: Ints
    tied_x: Ints
    tied_y: Ints

    @property
    def total(self) -> Ints:
        """All pairs of every group."""
        return self.n * (self.n - 1) // 2

    @property
    def tau(self) -> Floats:
        """τ-b of every group, NaN where it has fewer than two rows or a side that is constant."""
        sides = np.sqrt((self.total - self.tied_x) * (self.total - self.tied_y).astype(np.float64))
        found: Floats = np.full(len(sides), np.nan)
        np.divide(self.surplus, sides, out=found, where=sides > 0)
        return np.asarray(np.clip(found, -1.0, 1.0))


def tau_b(x: npt.ArrayLike, y: npt.ArrayLike) -> float | None:
    """Kendall's τ-b of two columns; None where there is none. Rows with NaN are left out.

    Of the three pairs below, two are ordered alike and one is not.

    >>> round(tau_b([1, 2, 3], [1, 3, 2]), 4)
    0.3333
    """
    first, second = (ranks(np.asarray(side, dtype=np.float64)) for side in (x, y))
    found = pairs(first, second, np.zeros(len(first), dtype=np.int64), 1).tau[0]
    return None if np.isnan(found) else float(found)


def ranks(values: Floats) -> Ints:
    """The place of every value among the distinct ones; −1 for NaN.

    >>> ranks(np.array([0.5, 0.1, np.nan, 0.5]))
    array([ 1,  0, -1,  1])
    """
    found = np.full(len(values), -1, dtype=np.int64)
    known = ~np.isnan(values)
    found[known] = np.unique(values[known], return_inverse=True)[1]
    return found


def pairs(x: Ints, y: Ints, group: Ints, count: int) -> Pairs:
    """Pairs within each of `count` groups, from ranks; rows where one is −1 are left out.

    `group` is the group of every row, and rows are in its order.

    >>> found = pairs(np.array([0, 1, 2, 0, 1]), np.array([0, 2, 1, 1, 0]),
    ...               np.array([0, 0, 0, 1, 1]), 2)
    >>> found.surplus.tolist(), found.tau.round(4).tolist()
    ([1, -1], [0.3333, -1.0])
    """
    counts = np.zeros((4, count), dtype=np.int64)
    known = np.flatnonzero((x >= 0) & (y >= 0))
    x, y, group = x[known], y[known], group[known]
    for rows in _shares(group, count):
        first, last = group[rows.start], group[rows.stop - 1]
        counts[:, first : last + 1] = _counted(x[rows], y[rows], group[rows] - first)
    return Pairs(*counts)


def _shares(group: Ints, count: int) -> Iterator[slice]:
    """Rows of whole groups, about SHARE at a time."""
    ends = np.searchsorted(group, np.arange(count), side="right")
    start = 0
    while start < len(group):
        fits = np.searchsorted(ends, start + SHARE, side="right") - 1
        whole = int(ends[group[start]])
        stop = max(whole, int(ends[fits]) if fits >= 0 else 0)
        yield slice(start, stop)
        start = stop


def _counted(x: Ints, y: Ints, group: Ints) -> tuple[Ints, ...]:
    """What `Pairs` has, of groups 0, 1, …; each but the last may be empty."""
    if _bits(x) + _bits(y) + _bits(group) > WIDTH:
        x, y = (np.unique(side, return_inverse=True)[1] for side in (x, y))
    bits = _bits(y)
    key = np.sort((((group << _bits(x)) | x) << bits) | y)
    y = key & ((1 << bits) - 1)
    n = np.bincount(group)
    tied, tied_x = _ties(key, group), _ties(key >> bits, group)
    tied_y = _ties(np.sort((group << bits) | y), group)
    surplus = n * (n - 1) // 2 - tied_x - tied_y + tied - 2 * _swapped(y, group)
    return n, surplus, tied_x, tied_y


def _bits(values: Ints) -> int:
    return int(values.max(initial=0)).bit_length()


def _sums(values: Ints, group: Ints) -> Ints:
    # Weights are added as floats, which is exact here: no group has 10⁸ rows.
    return np.bincount(group, weights=values).astype(np.int64)


def _place(codes: Ints) -> Ints:
    """The place of every row in its run of equal codes."""
    fresh = np.flatnonzero(np.diff(codes, prepend=-1))
    return np.arange(len(codes)) - np.repeat(fresh, np.diff(fresh, append=len(codes)))


def _ties(codes: Ints, group: Ints) -> Ints:
    """Pairs of equal codes, which are sorted: each row with all before it in its run."""
    return _sums(_place(codes), group)


def _swapped(y: Ints, group: Ints) -> Ints:
    """Pairs of every group whose later row has the smaller y.

    Level by level, blocks of 2, 4, 8, … rows are sorted by y. A row of a block's right half goes
    forward by one for every row of the left half with a larger y, so these pairs are the sum of
    the places of right rows before the sort, less that after it.
    """
    place, twice = _place(group), y << 1
    bits, wide = _bits(place), _bits(y) + 1
    outer = group << bits
    less = np.zeros(len(y), dtype=np.int64)
    for level in range(bits):
        right = (place >> level) & 1
        key = ((outer | (place >> (level + 1))) << wide) | twice | right
        less += right
        key.sort()
        less -= key & 1
    return _sums(less * np.arange(len(y)), group)
