"""LEAP: the target's whole table of predicted and true classes. Volpi et al., 2024.

Under label shift four things are known of the table M (predicted × true) of the target: it sums to
1 and has no negative cell; P(predicted | true) is as on the source, C; its rows sum to the rates r
at which classes are predicted; its columns to the class shares q, which MLLS tells. The table that
meets these best in least squares has the accuracy on its diagonal.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from oodometer.core.errors import NoAnswer
from oodometer.core.predictions import Predictions
from oodometer.core.protocols import Estimate, Staged
from oodometer.core.softmax_kernels import Floats, Ints
from oodometer.core.stats import draw_by_few, draw_counts
from oodometer.estimators import _label_shift_em
from oodometer.estimators.label_shift import (
    MaximumLikelihoodShift,
    Seen,
    by_class,
    chunks,
    confusion,
)

# A table of more classes than this is too large to be drawn again hundreds of times.
MOST_CLASSES = 300
ITERATIONS, CLOSE = 2000, 1e-9
# Again and again from the first table: few steps do.
REDRAWN_ITERATIONS = 60
# Cells of all tables that are drawn again, and how many of them there are at least.
MOST_CELLS, FEWEST_TABLES = 200_000, 25


@dataclass(frozen=True)
class Rates:
    """How often each class is predicted, the shares that the target makes likely, and the table.

    `misfit` is by how much the table misses what is known.
    """

    predicted: Ints
    seen: Seen
    table: Floats
    misfit: float


@dataclass(frozen=True)
class ContingencyTable(Staged[Ints, Rates]):
    """The diagonal of the table of predicted and true classes that fits all that is known.

    >>> source = Predictions.from_probs([[1, 0], [0, 1], [0, 1]], labels=[0, 1, 1])
    >>> target = Predictions.from_probs([[1, 0], [1, 0], [0, 1]])
    >>> round(ContingencyTable().estimate(source, target).value, 4)
    1.0
    """

    name: ClassVar[str] = "leap"
    assumes: ClassVar[str] = (
        "classes changed in frequency, not in looks (label shift), and the model is calibrated "
        "on the source"
    )
    needs: ClassVar[tuple[str, ...]] = ("probabilities", "source labels")
    paper: ClassVar[str] = "Volpi et al., 2024"
    streams: ClassVar[bool] = False

    def learn(self, source: Predictions) -> Ints:
        """The confusion counts."""
        if source.k > MOST_CLASSES:
            raise NoAnswer(
                f"it solves for a table of {source.k}² cells; {MOST_CLASSES} classes are the most. "
                "mlls says nearly the same"
            )
        return confusion(source)

    def summarize(self, learned: Ints, batch: Predictions) -> Rates:
        """The rates of predicted classes, and MLLS' shares."""
        seen = MaximumLikelihoodShift().summarize(by_class(learned), batch)
        return Rates(batch.class_counts, seen, *_solved(learned, batch.class_counts, seen))

    def finish(self, learned: Ints, total: Rates) -> Estimate:
        """The sum of the diagonal."""
        return Estimate(float(np.trace(total.table)), facts={"misfit": total.misfit})

    def resample(self, learned: Ints, total: Rates, rng: np.random.Generator, count: int) -> Floats:
        """Counts of both sides drawn again, and the table moved from where it was.

        Of many classes few tables are, and the others follow the normal law of these.
        """
        few = max(MOST_CELLS // learned.size, FEWEST_TABLES)
        return draw_by_few(lambda some: _redrawn(learned, total, rng, some), rng, count, few)


def _redrawn(learned: Ints, total: Rates, rng: np.random.Generator, count: int) -> Floats:
    """Values of so many tables."""
    source = draw_counts(rng, learned, count)
    predicted = draw_counts(rng, total.predicted, count)
    seen = total.seen
    shares = _label_shift_em.resampled_shares(
        seen.sample, seen.n, seen.shares, _prior(learned), _prior(source), rng
    )
    values = np.empty(count)
    for some in chunks(count, learned.size):
        known = _Known(_given(source[some]), _rates(predicted[some]), shares[some])
        values[some] = np.trace(known.table(total.table, REDRAWN_ITERATIONS), axis1=-2, axis2=-1)
    return values


@dataclass(frozen=True)
class _Known:
    """P(predicted | true) (…, k, k), rates and shares (…, k), of many tables at once."""

    given: Floats
    rates: Floats
    shares: Floats

    def misfit(self, tables: Floats) -> tuple[Floats, Floats]:
        """Half the sum of squares by which what is known is missed, and its slope."""
        columns = tables.sum(axis=-2)
        apart = tables - self.given * columns[..., None, :]
        rows = tables.sum(axis=-1) - self.rates
        share = columns - self.shares
        slope = apart - (self.given * apart).sum(axis=-2)[..., None, :]
        slope = slope + rows[..., :, None] + share[..., None, :]
        value = (apart**2).sum(axis=(-2, -1)) + (rows**2).sum(axis=-1) + (share**2).sum(axis=-1)
        return np.asarray(value / 2), np.asarray(slope)

    def table(self, first: Floats, iterations: int) -> Floats:
        """The best tables, by accelerated steps down the slope and back onto the simplex.

        A table that its own speed carries up the slope starts anew from rest (O'Donoghue & Candès,
        2015).
        """
        k = self.rates.shape[-1]
        step = 1 / ((1 + np.sqrt(k)) ** 2 + 2 * k)
        table = ahead = np.broadcast_to(first, self.given.shape)
        speed = np.ones((*self.rates.shape[:-1], 1, 1))
        for _ in range(iterations):
            before, table = table, _onto_simplex(ahead - step * self.misfit(ahead)[1])
            moved = table - before
            if np.abs(moved).max() < CLOSE / k:
                break
            upward = ((ahead - table) * moved).sum(axis=(-2, -1), keepdims=True) > 0
            last = np.where(upward, 1.0, speed)
            speed = (1 + np.sqrt(1 + 4 * last * last)) / 2
            ahead = table + (last - 1) / speed * moved
        return table


def _solved(learned: Ints, predicted: Ints, seen: Seen) -> tuple[Floats, float]:
    known = _Known(_given(learned), _rates(predicted), seen.shares)
    table = known.table(known.given * known.shares[None, :], ITERATIONS)
    return table, float(np.sqrt(2 * known.misfit(table)[0]))


def _given(counts: Ints) -> Floats:
    return np.asarray(counts / np.maximum(counts.sum(axis=-2, keepdims=True), 1))


def _rates(predicted: Ints) -> Floats:
    return np.asarray(predicted / predicted.sum(axis=-1, keepdims=True))


def _prior(counts: Ints) -> Floats:
    labelled = counts.sum(axis=-2)
    return np.asarray(labelled / labelled.sum(axis=-1, keepdims=True))


def _onto_simplex(tables: Floats) -> Floats:
    """The nearest tables without negative cells that sum to 1."""
    flat = tables.reshape(*tables.shape[:-2], -1)
    ranked = np.sort(flat, axis=-1)[..., ::-1]
    cut = (np.cumsum(ranked, axis=-1) - 1) / np.arange(1, flat.shape[-1] + 1)
    last = np.count_nonzero(ranked > cut, axis=-1) - 1
    level = np.take_along_axis(cut, last[..., None], axis=-1)
    return np.asarray(np.maximum(flat - level, 0.0).reshape(tables.shape))
