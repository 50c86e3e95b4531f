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

from oodometer.core.array_types import Floats, Ints
from oodometer.core.errors import NotApplicable
from oodometer.core.predictions import Predictions
from oodometer.core.protocols import StreamingEstimator
from oodometer.core.results import Estimate
from oodometer.core.stats import bootstrap_counts, bootstrap_normal_approx
from oodometer.estimators import _label_shift_em
from oodometer.estimators.label_shift import (
    MLLS,
    LabelShiftSummary,
    confusion_counts,
    counts_by_class,
    replicate_chunks,
)

# A table of more classes than this is too large to be drawn again hundreds of times.
MAX_CLASSES = 300
MAX_ITERATIONS, TOLERANCE = 2000, 1e-9
# Again and again from the first table: few steps do.
BOOTSTRAP_ITERATIONS = 60
# Cells of all tables that are drawn again, and how many of them there are at least.
MAX_BOOTSTRAP_CELLS, MIN_BOOTSTRAP_TABLES = 200_000, 25


@dataclass(frozen=True)
class ContingencySummary:
    """How often each class is predicted, the shares that the target makes likely, and the table.

    `misfit` is by how much the table misses what is known.
    """

    predicted_counts: Ints
    mlls_summary: LabelShiftSummary
    table: Floats
    misfit: float


@dataclass(frozen=True)
class LEAP(StreamingEstimator[Ints, ContingencySummary]):
    """The diagonal of the table of predicted and true classes that fits all that is known.

    >>> source = Predictions.from_probs([[1, 0], [0, 1], [0, 1]], labels=[0, 1, 1])
    >>> target = Predictions.from_probs([[1, 0], [1, 0], [0, 1]])
    >>> round(LEAP().estimate(source, target).value, 4)
    1.0
    """

    name: ClassVar[str] = "leap"
    assumes: ClassVar[str] = (
        "classes changed in frequency, not in looks (label shift), and the model is calibrated "
        "on the source"
    )
    needs: ClassVar[tuple[str, ...]] = ("probabilities", "source labels")
    paper: ClassVar[str] = "Volpi et al., 2024"
    is_mergeable: ClassVar[bool] = False

    def learn(self, source: Predictions) -> Ints:
        """The confusion counts."""
        if source.k > MAX_CLASSES:
            raise NotApplicable(
                f"it solves for a table of {source.k}² cells; {MAX_CLASSES} classes are the most. "
                "mlls says nearly the same"
            )
        return confusion_counts(source)

    def summarize(self, learned: Ints, batch: Predictions) -> ContingencySummary:
        """The rates of predicted classes, and MLLS' shares."""
        seen = MLLS().summarize(counts_by_class(learned), batch)
        return ContingencySummary(
            batch.class_counts, seen, *_solve_table(learned, batch.class_counts, seen)
        )

    def finish(self, learned: Ints, total: ContingencySummary) -> Estimate:
        """The sum of the diagonal."""
        return Estimate(float(np.trace(total.table)), facts={"misfit": total.misfit})

    def resample(
        self, learned: Ints, total: ContingencySummary, rng: np.random.Generator, count: int
    ) -> Floats:
        """Counts of both sides drawn again, and the table moved from where it was.

        Of many classes few tables are, and the others follow the normal law of these.
        """
        few = max(MAX_BOOTSTRAP_CELLS // learned.size, MIN_BOOTSTRAP_TABLES)
        return bootstrap_normal_approx(
            lambda some: _resample_accuracy(learned, total, rng, some), rng, count, few
        )


def _resample_accuracy(
    learned: Ints, total: ContingencySummary, rng: np.random.Generator, count: int
) -> Floats:
    """Values of so many tables."""
    source = bootstrap_counts(rng, learned, count)
    predicted = bootstrap_counts(rng, total.predicted_counts, count)
    seen = total.mlls_summary
    shares = _label_shift_em.resample_class_shares(
        seen.sample, seen.n, seen.shares, _class_prior(learned), _class_prior(source), rng
    )
    values = np.empty(count)
    for some in replicate_chunks(count, learned.size):
        known = _TableConstraints(
            _confusion_rates(source[some]), _predicted_rates(predicted[some]), shares[some]
        )
        values[some] = np.trace(known.solve(total.table, BOOTSTRAP_ITERATIONS), axis1=-2, axis2=-1)
    return values


@dataclass(frozen=True)
class _TableConstraints:
    """P(predicted | true) (…, k, k), rates and shares (…, k), of many tables at once."""

    predicted_given_true: Floats
    predicted_rates: Floats
    shares: Floats

    def misfit_and_slope(self, tables: Floats) -> tuple[Floats, Floats]:
        """Half the sum of squares by which what is known is missed, and its slope."""
        columns = tables.sum(axis=-2)
        apart = tables - self.predicted_given_true * columns[..., None, :]
        rows = tables.sum(axis=-1) - self.predicted_rates
        share = columns - self.shares
        slope = apart - (self.predicted_given_true * apart).sum(axis=-2)[..., None, :]
        slope = slope + rows[..., :, None] + share[..., None, :]
        value = (apart**2).sum(axis=(-2, -1)) + (rows**2).sum(axis=-1) + (share**2).sum(axis=-1)
        return np.asarray(value / 2), np.asarray(slope)

    def solve(self, start: Floats, iterations: int) -> Floats:
        """The best tables, by accelerated steps down the slope and back onto the simplex.

        A table that its own speed carries up the slope starts anew from rest (O'Donoghue & Candès,
        2015).
        """
        k = self.predicted_rates.shape[-1]
        step = 1 / ((1 + np.sqrt(k)) ** 2 + 2 * k)
        table = ahead = np.broadcast_to(start, self.predicted_given_true.shape)
        speed = np.ones((*self.predicted_rates.shape[:-1], 1, 1))
        for _ in range(iterations):
            before, table = (
                table,
                _project_onto_simplex(ahead - step * self.misfit_and_slope(ahead)[1]),
            )
            moved = table - before
            if np.abs(moved).max() < TOLERANCE / k:
                break
            upward = ((ahead - table) * moved).sum(axis=(-2, -1), keepdims=True) > 0
            last = np.where(upward, 1.0, speed)
            speed = (1 + np.sqrt(1 + 4 * last * last)) / 2
            ahead = table + (last - 1) / speed * moved
        return table


def _solve_table(
    learned: Ints, predicted: Ints, mlls_summary: LabelShiftSummary
) -> tuple[Floats, float]:
    known = _TableConstraints(
        _confusion_rates(learned), _predicted_rates(predicted), mlls_summary.shares
    )
    table = known.solve(known.predicted_given_true * known.shares[None, :], MAX_ITERATIONS)
    return table, float(np.sqrt(2 * known.misfit_and_slope(table)[0]))


def _confusion_rates(counts: Ints) -> Floats:
    return np.asarray(counts / np.maximum(counts.sum(axis=-2, keepdims=True), 1))


def _predicted_rates(predicted: Ints) -> Floats:
    return np.asarray(predicted / predicted.sum(axis=-1, keepdims=True))


def _class_prior(counts: Ints) -> Floats:
    labelled = counts.sum(axis=-2)
    return np.asarray(labelled / labelled.sum(axis=-1, keepdims=True))


def _project_onto_simplex(tables: Floats) -> Floats:
    """The nearest tables without negative cells that sum to 1."""
    flat = tables.reshape(*tables.shape[:-2], -1)
    ranked = np.sort(flat, axis=-1)[..., ::-1]
    cut = (np.cumsum(ranked, axis=-1) - 1) / np.arange(1, flat.shape[-1] + 1)
    last = np.count_nonzero(ranked > cut, axis=-1) - 1
    level = np.take_along_axis(cut, last[..., None], axis=-1)
    return np.asarray(np.maximum(flat - level, 0.0).reshape(tables.shape))
