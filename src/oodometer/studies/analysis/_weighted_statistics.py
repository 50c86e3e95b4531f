"""Kendall's τ-b, Spearman's ρ and least-squares sums of many resamples of the same rows at once.

A resample is a column of weights: weight 2 counts a row twice, weight 0 leaves it out. τ-b of all
resamples is one product of the matrix of signs, computed once, with the matrix of weights.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from oodometer.core.array_types import Floats, Ints

# Rows of the matrix of signs that are compared at a time; 1,000 rows of 3,000 take 12 MB.
SIGN_BLOCK_ROWS = 1_000
# Matrices with more units than this are multiplied in single precision. Signs and weights are then
# small whole numbers, so sums below 2²⁴ are exact.
MAX_DOUBLE_UNITS = 600
# Sums of squares below this share of the sum over all rows are 0 up to rounding.
FLAT_SHARE = 1e-12


@dataclass(frozen=True, eq=False)
class PairUnits:
    """Rows of one group by the unit that is resampled as a whole, and the weights of the units.

    A unit that is drawn twice counts as two units with equal rows: rows of one unit are compared
    with each other in each copy, but not with the rows of the other copy.

    Parameters
    ----------
    unit : array of int, shape (n,)
        Unit of each row, from 0, sorted.
    weights : array of shape (units, replicates)
        Number of copies of each unit.
    """

    unit: Ints
    weights: Floats

    @property
    def starts(self) -> Ints:
        return np.flatnonzero(np.diff(self.unit, prepend=-1))

    @property
    def sizes(self) -> Ints:
        return np.diff(self.starts, append=len(self.unit))

    def count_pairs(self, sums: Floats) -> Floats:
        """Return Σ of weights over ordered pairs of rows, given its sums by pair of units."""
        own = np.diagonal(sums).copy()
        between = sums - np.diag(own)
        dtype = np.float64 if len(sums) <= MAX_DOUBLE_UNITS else np.float32
        products = between.astype(dtype) @ self.weights.astype(dtype)
        pairs = np.einsum("ur,ur->r", self.weights, products.astype(np.float64))
        return np.asarray(pairs + own @ self.weights)

    def untied_pairs(self, ranks: Ints) -> Floats:
        """Return Σ of weights over ordered pairs of rows with different ranks."""
        sizes = self.sizes
        total = (sizes @ self.weights) ** 2 - (sizes**2) @ self.weights**2
        total += (sizes * (sizes - 1)) @ self.weights
        order = np.argsort(ranks, kind="stable")
        starts = np.flatnonzero(np.diff(ranks[order], prepend=-1))
        if len(starts) == len(ranks):
            return total
        # Only ranks that occur at least twice have tied pairs.
        repeated = np.diff(starts, append=len(ranks)) > 1
        tied_rows = order[np.repeat(repeated, np.diff(starts, append=len(ranks)))]
        tied_starts = np.flatnonzero(np.diff(ranks[tied_rows], prepend=-1))
        counts = np.add.reduceat(self.weights[self.unit[tied_rows]], tied_starts, axis=0)
        own = self._own_ties(ranks, tied_rows)
        tied = (counts**2).sum(axis=0) - own @ self.weights**2
        singles = np.bincount(self.unit[tied_rows], minlength=len(sizes))
        return np.asarray(total - tied - (own - singles) @ self.weights)

    def _own_ties(self, ranks: Ints, rows: Ints) -> Ints:
        """Count the ordered pairs of rows with equal ranks in each unit, each row with itself too."""
        keys = self.unit[rows] * (int(ranks.max()) + 1) + ranks[rows]
        values, counts = np.unique(keys, return_counts=True)
        units = values // (int(ranks.max()) + 1)
        own = np.bincount(units, weights=counts**2, minlength=len(self.sizes))
        return own.astype(np.int64)

    def sign_sums(self, x: Ints, y: Ints) -> Floats:
        """Return Σ sign(x_i − x_j) · sign(y_i − y_j) over the rows i and j of each pair of units."""
        starts = self.starts
        sums = np.zeros((len(starts), len(starts)))
        alone = len(starts) == len(self.unit)
        for first in range(0, len(x), SIGN_BLOCK_ROWS):
            block = slice(first, first + SIGN_BLOCK_ROWS)
            signs = _signs(x, block) * _signs(y, block)
            if alone:
                sums[block] = signs
                continue
            by_column = np.add.reduceat(signs, starts, axis=1, dtype=np.int64)
            units = self.unit[block]
            first_rows = np.flatnonzero(np.diff(units, prepend=-1))
            sums[units[first_rows]] += np.add.reduceat(by_column, first_rows, axis=0)
        return sums


def _signs(ranks: Ints, block: slice) -> Ints:
    rows = ranks[block, None]
    return (rows > ranks).astype(np.int8) - (rows < ranks).astype(np.int8)


def weighted_tau(x: Ints, y: Ints, units: PairUnits) -> Floats:
    """Return Kendall's τ-b of each resample; NaN if x or y is constant in it.

    `x` and `y` are ranks from 0. Pairs of copies of one row are tied in x and in y; τ-b leaves out
    such pairs in the numerator and in the denominator, so copies do not weaken it.

    >>> units = PairUnits(np.arange(3), np.array([[1.0, 2.0], [1.0, 1.0], [1.0, 0.0]]))
    >>> weighted_tau(np.array([0, 1, 2]), np.array([0, 2, 1]), units).round(4).tolist()
    [0.3333, 1.0]
    """
    net = units.count_pairs(units.sign_sums(x, y))
    sides = np.maximum(units.untied_pairs(x), 0.0) * np.maximum(units.untied_pairs(y), 0.0)
    tau: Floats = np.full(len(net), np.nan)
    np.divide(net, np.sqrt(sides), out=tau, where=sides > 0.5)
    return np.asarray(np.clip(tau, -1.0, 1.0))


def weighted_ranks(values: Floats, weights: Floats) -> Floats:
    """Return the rank of every row in each resample; ties, copies included, get their mean rank.

    >>> weighted_ranks(np.array([5.0, 7.0]), np.array([[1.0, 2.0], [1.0, 1.0]])).tolist()
    [[1.0, 1.5], [2.0, 3.0]]
    """
    order = np.argsort(values, kind="stable")
    starts = np.flatnonzero(np.diff(values[order], prepend=np.nan) != 0)
    counts = np.add.reduceat(weights[order], starts, axis=0)
    up_to = np.cumsum(counts, axis=0)
    by_value = up_to - counts / 2 + 0.5
    ranks = np.empty_like(weights)
    ranks[order] = np.repeat(by_value, np.diff(starts, append=len(order)), axis=0)
    return ranks


def weighted_pearson(x: Floats, y: Floats, weights: Floats) -> Floats:
    """Return the correlation of x and y in each resample; NaN if one of them is constant.

    `x` and `y` have the shape of `weights`, (n, replicates).

    >>> x, y = np.array([[1.0], [2.0], [3.0]]), np.array([[2.0], [4.0], [6.0]])
    >>> weighted_pearson(x, y, np.ones((3, 1))).round(6).tolist()
    [1.0]
    """
    total = np.maximum(weights.sum(axis=0), 1e-300)
    x = x - (weights * x).sum(axis=0) / total
    y = y - (weights * y).sum(axis=0) / total
    xx = np.einsum("nr,nr,nr->r", weights, x, x)
    yy = np.einsum("nr,nr,nr->r", weights, y, y)
    flat = (xx <= FLAT_SHARE * (x**2).sum(axis=0)) | (yy <= FLAT_SHARE * (y**2).sum(axis=0))
    result: Floats = np.full(weights.shape[1], np.nan)
    product = np.einsum("nr,nr,nr->r", weights, x, y)
    np.divide(product, np.sqrt(xx * yy), out=result, where=~flat)
    return np.asarray(np.clip(result, -1.0, 1.0))


def weighted_spearman(x: Floats, y: Floats, weights: Floats) -> Floats:
    """Return Spearman's ρ of each resample; NaN if x or y is constant in it.

    >>> x, y = np.array([1.0, 2.0, 3.0]), np.array([1.0, 9.0, 4.0])
    >>> weighted_spearman(x, y, np.array([[1.0], [1.0], [1.0]])).round(6).tolist()
    [0.5]
    """
    return weighted_pearson(weighted_ranks(x, weights), weighted_ranks(y, weights), weights)


@dataclass(frozen=True, eq=False)
class LineSums:
    """Weighted sums of 1, x, y, x² and x·y per resample, from which a least-squares line follows.

    Sums of disjoint sets of rows add up.
    """

    n: Floats
    x: Floats
    y: Floats
    xx: Floats
    xy: Floats

    @classmethod
    def of_rows(cls, x: Floats, y: Floats, weights: Floats) -> LineSums:
        """Return the sums over rows; rows with NaN in x are left out."""
        known = ~np.isnan(x)
        x = np.where(known, x, 0.0)
        terms = np.stack([known.astype(np.float64), x, np.where(known, y, 0.0), x * x, x * y])
        return cls(*(terms @ weights))

    def __add__(self, other: LineSums) -> LineSums:
        return LineSums(
            n=self.n + other.n,
            x=self.x + other.x,
            y=self.y + other.y,
            xx=self.xx + other.xx,
            xy=self.xy + other.xy,
        )

    def without(self, x: Floats, y: Floats, weights: Floats) -> LineSums:
        """Return the sums without all copies of each row in turn, shape (n, replicates)."""
        known = ~np.isnan(x)
        weights = weights * known[:, None]
        x = np.where(known, x, 0.0)[:, None]
        y = y[:, None]
        return LineSums(
            n=self.n - weights,
            x=self.x - weights * x,
            y=self.y - weights * y,
            xx=self.xx - weights * x * x,
            xy=self.xy - weights * x * y,
        )

    def predict(self, x: Floats) -> Floats:
        """Return the line's predictions at x, shape (len(x), replicates); NaN without a line.

        >>> sums = LineSums.of_rows(np.array([0.0, 1.0]), np.array([0.5, 0.7]), np.ones((2, 1)))
        >>> sums.predict(np.array([2.0])).round(6).tolist()
        [[0.9]]
        """
        n = np.maximum(self.n, 1.0)
        mean_x = self.x / n
        mean_y = self.y / n
        square = self.xx - self.x * mean_x
        flat = (square <= FLAT_SHARE * np.maximum(self.xx, 1e-300)) | (self.n < 2)
        slope = np.where(flat, np.nan, (self.xy - self.x * mean_y) / np.where(flat, 1.0, square))
        return np.asarray(mean_y + slope * (x[:, None] - mean_x))
