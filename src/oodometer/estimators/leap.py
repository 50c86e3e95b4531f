"""Accuracy from an estimated contingency table of the target (LEAP; Volpi et al., 2024).

Let M be the target's contingency table of predicted classes (rows) and true classes (columns).
Under label shift, it satisfies four conditions:

- Its cells are not negative and sum to 1.
- P(predicted | true) is the same as on the source.
- Its rows sum to the frequencies of the predicted classes.
- Its columns sum to the class frequencies of the target, which MLLS estimates.
 M is estimated by the table that fits these conditions best in the sense of least squares. The sum
of its diagonal is the estimated accuracy.
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
from oodometer.core.stats import (
    bootstrap_counts,
    bootstrap_normal_approx,
    poisson_bootstrap_weights,
)
from oodometer.estimators import _label_shift_em
from oodometer.estimators.label_shift import (
    MLLS,
    LabelShiftSummary,
    confusion_counts,
    counts_by_class,
    replicate_chunks,
)

# With more classes, tables are too large for hundreds of bootstrap replicates.
MAX_CLASSES = 300
MAX_ITERATIONS = 2000
TOLERANCE = 1e-9
# The fit of a bootstrap replicate starts from the table of the estimate, so few iterations suffice.
BOOTSTRAP_ITERATIONS = 60
# Maximum number of cells of all resampled tables together, and minimum number of resampled tables.
# The minimum has precedence.
MAX_BOOTSTRAP_CELLS = 200_000
MIN_BOOTSTRAP_TABLES = 25


@dataclass(frozen=True)
class ContingencySummary:
    """Fitted contingency table of the target, and the data that it was fitted to.

    `predicted_counts` are the numbers of target rows per predicted class, and `mlls_summary`
    contains the class frequencies that MLLS estimates. `misfit` is the norm of the residuals.
    """

    predicted_counts: Ints
    mlls_summary: LabelShiftSummary
    table: Floats
    misfit: float


@dataclass(frozen=True)
class LEAP(StreamingEstimator[Ints, ContingencySummary]):
    """Sum of the diagonal of the fitted contingency table of the target, ``tr M``.

    With few rows per class, the estimate is too low: with 100 rows and 50 classes, by 12 points
    without shift. With fewer than 25 rows per class on average, it has no confidence interval.

    Examples
    --------
    >>> source = Predictions.from_probs([[1, 0], [0, 1], [0, 1]], labels=[0, 1, 1])
    >>> target = Predictions.from_probs([[1, 0], [1, 0], [0, 1]])
    >>> round(LEAP().estimate(source, target).value, 4)
    1.0
    """

    name: ClassVar[str] = "leap"
    assumes: ClassVar[str] = (
        "label shift: class frequencies changed, p(x|y) did not; and the model is calibrated on "
        "the source"
    )
    needs: ClassVar[tuple[str, ...]] = ("probabilities", "source labels")
    paper: ClassVar[str] = "Volpi et al., 2024"
    min_rows_per_class: ClassVar[int] = 25
    is_mergeable: ClassVar[bool] = False
    reads_probabilities: ClassVar[bool] = True

    def learn(self, source: Predictions) -> Ints:
        """Return the confusion counts of the source."""
        if source.k > MAX_CLASSES:
            raise NotApplicable(
                f"it supports at most {MAX_CLASSES} classes; got {source.k}. mlls gives nearly the "
                "same estimate"
            )
        return confusion_counts(source)

    def summarize(self, learned: Ints, batch: Predictions) -> ContingencySummary:
        """Fit the contingency table of the whole target."""
        mlls_summary = MLLS().summarize(counts_by_class(learned), batch)
        constraints = _TableConstraints(
            _confusion_rates(learned), _predicted_rates(batch.class_counts), mlls_summary.shares
        )
        start = constraints.predicted_given_true * constraints.shares[None, :]
        table = constraints.solve(start, MAX_ITERATIONS)
        loss, _ = constraints.loss_and_gradient(table)
        return ContingencySummary(
            batch.class_counts, mlls_summary, table, misfit=float(np.sqrt(2 * loss))
        )

    def finish(self, learned: Ints, total: ContingencySummary) -> Estimate:
        """Return the sum of the table's diagonal."""
        return Estimate(float(np.trace(total.table)), facts={"misfit": total.misfit})

    def resample(
        self, learned: Ints, total: ContingencySummary, rng: np.random.Generator, count: int
    ) -> Floats:
        """Resample the counts of source and target, and fit the table again.

        With many classes, only some replicates are computed like this. All further replicates are
        drawn from a normal distribution that is fitted to them.
        """
        n_fitted = max(MAX_BOOTSTRAP_CELLS // learned.size, MIN_BOOTSTRAP_TABLES)
        return bootstrap_normal_approx(
            lambda size: _resample_accuracy(learned, total, rng, size), rng, count, n_fitted
        )

    def row_values(self, learned: Ints, total: ContingencySummary, rows: Predictions) -> Floats:
        """Return the contributions to MLLS, whose estimate is nearly the same."""
        return MLLS().row_values(counts_by_class(learned), total.mlls_summary, rows)


def _resample_accuracy(
    learned: Ints, total: ContingencySummary, rng: np.random.Generator, count: int
) -> Floats:
    """Return the accuracies of `count` tables, each fitted to resampled counts.

    The predicted rates and the class frequencies of a replicate are those of the same resampled
    target rows; independent draws would contradict each other, and vary too much.
    """
    source = bootstrap_counts(rng, learned, count)
    mlls_summary = total.mlls_summary
    weights = poisson_bootstrap_weights(rng, (count, len(mlls_summary.sample)))
    shares = _label_shift_em.resample_class_shares(
        mlls_summary.sample,
        mlls_summary.n,
        solution=mlls_summary.shares,
        prior=_class_prior(learned),
        priors=_class_prior(source),
        weights=weights,
    )
    is_predicted = np.eye(len(learned))[mlls_summary.sample.argmax(axis=1)]
    changes = _label_shift_em.resample_mean_changes(is_predicted, weights, mlls_summary.n)
    predicted = np.maximum(_predicted_rates(total.predicted_counts) + changes, 0.0)
    values = np.empty(count)
    for replicates in replicate_chunks(count, learned.size):
        constraints = _TableConstraints(
            _confusion_rates(source[replicates]),
            _predicted_rates(predicted[replicates]),
            shares[replicates],
        )
        tables = constraints.solve(total.table, BOOTSTRAP_ITERATIONS)
        values[replicates] = np.trace(tables, axis1=-2, axis2=-1)
    return values


@dataclass(frozen=True)
class _TableConstraints:
    """Conditions that many tables should satisfy, one table per index of the leading dimensions.

    `predicted_given_true` is P(predicted | true), (…, k, k). `predicted_rates` are the row sums and
    `shares` the column sums, both (…, k).
    """

    predicted_given_true: Floats
    predicted_rates: Floats
    shares: Floats

    def loss_and_gradient(self, tables: Floats) -> tuple[Floats, Floats]:
        """Return half the sum of the squared residuals of each table, and its gradient."""
        column_sums = tables.sum(axis=-2)
        cells = tables - self.predicted_given_true * column_sums[..., None, :]
        rows = tables.sum(axis=-1) - self.predicted_rates
        columns = column_sums - self.shares
        gradient = cells - (self.predicted_given_true * cells).sum(axis=-2)[..., None, :]
        gradient = gradient + rows[..., :, None] + columns[..., None, :]
        loss = (cells**2).sum(axis=(-2, -1)) + (rows**2).sum(axis=-1) + (columns**2).sum(axis=-1)
        return np.asarray(loss / 2), np.asarray(gradient)

    def solve(self, start: Floats, max_iterations: int) -> Floats:
        """Return the tables with the least loss, found by projected gradient descent with momentum.

        The momentum of a table is reset when it would increase the loss (O'Donoghue & Candès,
        2015).
        """
        k = self.predicted_rates.shape[-1]
        step = 1 / ((1 + np.sqrt(k)) ** 2 + 2 * k)
        table = extrapolated = np.broadcast_to(start, self.predicted_given_true.shape)
        momentum = np.ones((*self.predicted_rates.shape[:-1], 1, 1))
        for _ in range(max_iterations):
            previous = table
            _, gradient = self.loss_and_gradient(extrapolated)
            table = _project_onto_simplex(extrapolated - step * gradient)
            change = table - previous
            if np.abs(change).max() < TOLERANCE / k:
                break
            uphill = ((extrapolated - table) * change).sum(axis=(-2, -1), keepdims=True) > 0
            last = np.where(uphill, 1.0, momentum)
            momentum = (1 + np.sqrt(1 + 4 * last * last)) / 2
            extrapolated = table + (last - 1) / momentum * change
        return table


def _confusion_rates(counts: Ints) -> Floats:
    return np.asarray(counts / np.maximum(counts.sum(axis=-2, keepdims=True), 1))


def _predicted_rates(predicted: Ints | Floats) -> Floats:
    return np.asarray(predicted / predicted.sum(axis=-1, keepdims=True))


def _class_prior(counts: Ints) -> Floats:
    labelled = counts.sum(axis=-2)
    return np.asarray(labelled / labelled.sum(axis=-1, keepdims=True))


def _project_onto_simplex(tables: Floats) -> Floats:
    """Return the nearest tables whose cells are not negative and sum to 1 in each table."""
    flat = tables.reshape(*tables.shape[:-2], -1)
    ranked = np.sort(flat, axis=-1)[..., ::-1]
    thresholds = (np.cumsum(ranked, axis=-1) - 1) / np.arange(1, flat.shape[-1] + 1)
    last = np.count_nonzero(ranked > thresholds, axis=-1) - 1
    threshold = np.take_along_axis(thresholds, last[..., None], axis=-1)
    return np.asarray(np.maximum(flat - threshold, 0.0).reshape(tables.shape))
