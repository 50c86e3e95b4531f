"""Correlations of all columns with all, each over the rows that both have."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from oodometer.core.array_types import Bools, Floats, Ints
from oodometer.core.errors import UnknownName

CorrelationKind = Literal["spearman", "pearson"]
# Of two rows every correlation is 1 or −1 and says nothing.
MIN_CORRELATION_ROWS = 3
# Means are told apart by so many digits of the largest of them: what is beyond is rounding.
MEAN_DIGITS = 12


@dataclass(frozen=True, eq=False)
class PairwiseCorrelations:
    """Coefficients, NaN where there is none, and the number of rows under each."""

    values: Floats
    n_rows: Ints


def pairwise_correlations(
    first: Floats, second: Floats | None = None, *, kind: CorrelationKind = "spearman"
) -> PairwiseCorrelations:
    """Every column of the first with every column of the second, or of the first itself.

    A pair with fewer than three common rows, or with a constant side in them, has no coefficient.

    >>> table = np.array([[1.0, 9.0], [2.0, 8.0], [3.0, 0.0], [9.0, np.nan]])
    >>> found = pairwise_correlations(table)
    >>> found.values.round(3).tolist(), found.n_rows.tolist()
    ([[1.0, -1.0], [-1.0, 1.0]], [[4, 3], [3, 3]])
    """
    check_correlation_kind(kind)
    second = first if second is None else second
    shape = first.shape[1], second.shape[1]
    values, rows = np.full(shape, np.nan), np.zeros(shape, dtype=np.int64)
    theirs = np.isfinite(second)
    for known, columns in _columns_by_mask(np.isfinite(first)):
        both = theirs & known[:, None]
        rows[columns] = both.sum(axis=0)
        y = _standardize(_ranks(second, both) if kind == "spearman" else second, both)
        # Beside a column that has all of these rows, the first's ranks are always the same.
        whole = (both == known[:, None]).all(axis=0)
        values[np.ix_(columns, whole)] = (
            _standardize_shared(first[:, columns], known, kind).T @ y[:, whole]
        )
        rest = ~whole & (both.sum(axis=0) >= MIN_CORRELATION_ROWS)
        for column in columns if rest.any() else ():
            x, part = first[:, [column]], both[:, rest]
            mine = _ranks_by_mask(x[:, 0], part) if kind == "spearman" else x.repeat(rest.sum(), 1)
            values[column, rest] = (_standardize(mine, part) * y[:, rest]).sum(axis=0)
    values[rows < MIN_CORRELATION_ROWS] = np.nan
    return PairwiseCorrelations(np.clip(values, -1.0, 1.0), rows)


def correlation(x: Floats, y: Floats, *, kind: CorrelationKind = "spearman") -> float | None:
    """The coefficient of two columns over the rows that both have, or None.

    >>> correlation(np.array([1.0, 2.0, 3.0]), np.array([5.0, 5.0, 5.0])) is None
    True
    """
    return number_or_none(pairwise_correlations(x[:, None], y[:, None], kind=kind).values[0, 0])


def round_means(means: Floats) -> Floats:
    """Means of several numbers without their last bits, which would order those that are equal.

    >>> means = np.array([0.1 + 0.2, 0.3 + 0.0, np.nan]) / 2
    >>> means[0] == means[1], round_means(means)[0] == round_means(means)[1]
    (np.False_, np.True_)
    """
    largest = np.max(np.abs(means), axis=0, initial=0.0, where=~np.isnan(means))
    unit = 10.0 ** np.floor(np.log10(np.where(largest > 0, largest, 1.0)))
    return np.asarray((means / unit).round(MEAN_DIGITS) * unit)


def number_or_none(value: Any) -> float | None:
    """A plain number for JSON, and None for what is not known.

    >>> number_or_none(np.float64(0.5)), number_or_none(math.nan)
    (0.5, None)
    """
    return float(value) if math.isfinite(value) else None


def check_correlation_kind(kind: str) -> None:
    """Refuse a kind of correlation that there is not."""
    if kind not in get_args(CorrelationKind):
        raise UnknownName("correlation", str(kind), get_args(CorrelationKind))


def _columns_by_mask(known: Bools) -> Iterator[tuple[Bools, Ints]]:
    """Columns that have the same rows: the rows, and the columns' places."""
    groups: dict[bytes, list[int]] = {}
    for place, rows in enumerate(known.T):
        groups.setdefault(rows.tobytes(), []).append(place)
    for places in groups.values():
        yield known[:, places[0]], np.array(places)


def _standardize_shared(columns: Floats, known: Bools, kind: CorrelationKind) -> Floats:
    """Columns that all have the same rows, standardised."""
    there = np.broadcast_to(known[:, None], columns.shape)
    return _standardize(_ranks(columns, there) if kind == "spearman" else columns, there)


def _ranks(table: Floats, known: Bools) -> Floats:
    """The rank of every known value in its column, the mean of them on ties."""
    from scipy import stats

    return np.asarray(stats.rankdata(np.where(known, table, np.inf), axis=0))


def _ranks_by_mask(column: Floats, masks: Bools) -> Floats:
    """The ranks of one column among the rows of each mask, sorted but once: (n, masks).

    A value's rank is half way between how many rows lie below it and how many up to it.
    """
    order = np.argsort(column)
    ordered, there = column[order], masks[order]
    up_to = np.cumsum(there, axis=0, dtype=np.int64)
    first = np.searchsorted(ordered, ordered, side="left")
    last = np.searchsorted(ordered, ordered, side="right") - 1
    ranks = np.empty(masks.shape)
    ranks[order] = (up_to[first] - there[first] + up_to[last] + 1) / 2
    return ranks


def _standardize(columns: Floats, known: Bools) -> Floats:
    """Known values with mean 0 and length 1, others 0; NaN where a column is constant."""
    low = np.min(columns, axis=0, where=known, initial=np.inf)
    span = np.max(columns, axis=0, where=known, initial=-np.inf) - low
    with np.errstate(invalid="ignore", divide="ignore"):
        # Brought to 0…1 first: squares of very large or small numbers leave the range of floats.
        scaled = np.where(known, (columns - low) / span, 0.0)
        centred = np.where(known, scaled - scaled.sum(axis=0) / known.sum(axis=0), 0.0)
        return np.asarray(centred / np.sqrt((centred * centred).sum(axis=0)))
