"""Correlation matrix of columns with missing values: each pair uses the rows that have both.

`DataFrame.corr` of pandas is two to six times faster for all pairs of columns of one table. To
correlate one column with 200 others that have missing values, pandas needs all pairs and takes five
times as long as this module.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from oodometer.core.array_types import Bools, Floats, Ints
from oodometer.core.errors import UnknownName

CorrelationKind = Literal["spearman", "pearson"]
# With only two rows, every correlation is 1 or −1.
MIN_CORRELATION_ROWS = 3
# Means are rounded to this number of decimals relative to the largest mean; further digits are
# rounding errors.
MEAN_DIGITS = 12


@dataclass(frozen=True, eq=False)
class PairwiseCorrelations:
    """Coefficients, NaN where undefined, and the number of rows that each was computed from."""

    values: Floats
    n_rows: Ints


def pairwise_correlations(
    first: Floats, second: Floats | None = None, *, kind: CorrelationKind = "spearman"
) -> PairwiseCorrelations:
    """Correlate every column of `first` with every column of `second`, by default `first` itself.

    A pair of columns is compared over the rows in which both have a value. The coefficient is NaN
    if there are fewer than three such rows, or if one of the columns is constant in them.

    >>> table = np.array([[1.0, 9.0], [2.0, 8.0], [3.0, 0.0], [9.0, np.nan]])
    >>> result = pairwise_correlations(table)
    >>> result.values.round(3).tolist(), result.n_rows.tolist()
    ([[1.0, -1.0], [-1.0, 1.0]], [[4, 3], [3, 3]])
    """
    check_correlation_kind(kind)
    second = first if second is None else second
    shape = first.shape[1], second.shape[1]
    values = np.full(shape, np.nan)
    rows = np.zeros(shape, dtype=np.int64)
    second_known = np.isfinite(second)
    for known, columns in _columns_by_mask(np.isfinite(first)):
        both = second_known & known[:, None]
        rows[columns] = both.sum(axis=0)
        y = _standardize(_ranks(second, both) if kind == "spearman" else second, both)
        # A column of `second` without missing values in these rows leaves the ranks in `first`
        # unchanged, so all such columns are correlated at once.
        complete = (both == known[:, None]).all(axis=0)
        values[np.ix_(columns, complete)] = (
            _standardize_shared(first[:, columns], known, kind).T @ y[:, complete]
        )
        rest = ~complete & (both.sum(axis=0) >= MIN_CORRELATION_ROWS)
        for column in columns if rest.any() else ():
            x = first[:, column]
            masks = both[:, rest]
            if kind == "spearman":
                repeated = _ranks_by_mask(x, masks)
            else:
                repeated = x[:, None].repeat(masks.shape[1], 1)
            values[column, rest] = (_standardize(repeated, masks) * y[:, rest]).sum(axis=0)
    values[rows < MIN_CORRELATION_ROWS] = np.nan
    return PairwiseCorrelations(np.clip(values, -1.0, 1.0), rows)


def correlation(x: Floats, y: Floats, *, kind: CorrelationKind = "spearman") -> float | None:
    """Return the correlation of two columns over the rows that both have; None if undefined.

    >>> correlation(np.array([1.0, 2.0, 3.0]), np.array([5.0, 5.0, 5.0])) is None
    True
    """
    return number_or_none(pairwise_correlations(x[:, None], y[:, None], kind=kind).values[0, 0])


def round_means(means: Floats) -> Floats:
    """Round means so that means that should be equal are equal despite floating-point errors.

    >>> means = np.array([0.1 + 0.2, 0.3 + 0.0, np.nan]) / 2
    >>> means[0] == means[1], round_means(means)[0] == round_means(means)[1]
    (np.False_, np.True_)
    """
    largest = np.max(np.abs(means), axis=0, initial=0.0, where=~np.isnan(means))
    unit = 10.0 ** np.floor(np.log10(np.where(largest > 0, largest, 1.0)))
    return np.asarray((means / unit).round(MEAN_DIGITS) * unit)


def number_or_none(value: Any) -> float | None:
    """Return a float for JSON; None for NaN and infinity, which JSON does not have.

    >>> number_or_none(np.float64(0.5)), number_or_none(math.nan)
    (0.5, None)
    """
    return float(value) if math.isfinite(value) else None


def check_correlation_kind(kind: str) -> None:
    """Raise if there is no such kind of correlation."""
    if kind not in get_args(CorrelationKind):
        raise UnknownName("correlation", str(kind), get_args(CorrelationKind))


def _columns_by_mask(known: Bools) -> Iterator[tuple[Bools, Ints]]:
    """Yield each distinct mask of known rows and the columns that have it."""
    groups: dict[bytes, list[int]] = {}
    for column, rows in enumerate(known.T):
        groups.setdefault(rows.tobytes(), []).append(column)
    for columns in groups.values():
        yield known[:, columns[0]], np.array(columns)


def _standardize_shared(columns: Floats, known: Bools, kind: CorrelationKind) -> Floats:
    """Standardize columns that all have values in the same rows."""
    mask = np.broadcast_to(known[:, None], columns.shape)
    return _standardize(_ranks(columns, mask) if kind == "spearman" else columns, mask)


def _ranks(table: Floats, known: Bools) -> Floats:
    """Return the rank of every known value in its column; ties get their mean rank."""
    from scipy import stats

    return np.asarray(stats.rankdata(np.where(known, table, np.inf), axis=0))


def _ranks_by_mask(column: Floats, masks: Bools) -> Floats:
    """Return the ranks of one column among the rows of each mask, shape (n, masks).

    The column is sorted only once. If a rows of a mask have a smaller value and b rows have a
    smaller or equal one, the rank of the value is the mean of a + 1 and b.
    """
    order = np.argsort(column)
    ordered = column[order]
    ordered_masks = masks[order]
    up_to = np.cumsum(ordered_masks, axis=0, dtype=np.int64)
    first = np.searchsorted(ordered, ordered, side="left")
    last = np.searchsorted(ordered, ordered, side="right") - 1
    ranks = np.empty(masks.shape)
    ranks[order] = (up_to[first] - ordered_masks[first] + up_to[last] + 1) / 2
    return ranks


def _standardize(columns: Floats, known: Bools) -> Floats:
    """Scale the known values of each column to mean 0 and norm 1, and set missing ones to 0.

    Constant columns become NaN.
    """
    low = np.min(columns, axis=0, where=known, initial=np.inf)
    span = np.max(columns, axis=0, where=known, initial=-np.inf) - low
    with np.errstate(invalid="ignore", divide="ignore"):
        # Scale to 0…1 first: squares of very large or small numbers overflow or underflow.
        scaled = np.where(known, (columns - low) / span, 0.0)
        centred = np.where(known, scaled - scaled.sum(axis=0) / known.sum(axis=0), 0.0)
        return np.asarray(centred / np.sqrt((centred * centred).sum(axis=0)))
