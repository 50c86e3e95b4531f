"""Confidence optimal transport (COT and COTT; Lu et al., NeurIPS 2023).

COT assigns every target row to a class, such that the classes have the frequencies of the source
labels. Assigning a row to a class costs one minus the class's predicted probability. The estimate
is one minus the mean cost of the cheapest assignment (optimal transport). COTT applies a threshold
to the transport cost of each row, as ATC applies a threshold to the confidence.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from oodometer.core.array_types import Floats, Ints
from oodometer.core.errors import InputError
from oodometer.core.predictions import Predictions
from oodometer.core.protocols import StreamingEstimator
from oodometer.core.results import Estimate
from oodometer.core.stats import bootstrap_counts, histogram, rng_for
from oodometer.estimators import _label_shift_em
from oodometer.estimators._optimal_transport import (
    DualSolution,
    TransportResult,
    reduced_costs,
    row_costs,
    solve_dual,
    solve_transport,
    subsample_stride,
)
from oodometer.estimators.atc import (
    Threshold,
    fit_threshold,
    resample_share_above,
    share_above,
    threshold_bias,
)
from oodometer.estimators.label_shift import require_labels

MAX_EM_ITERATIONS = 1000
# Number of random class frequencies, and maximum number of target rows, from which the bias of the
# transport cost is computed.
N_BIAS_DRAWS = 20
MAX_BIAS_ROWS = 2000


def label_counts(source: Predictions) -> Ints:
    """Return the number of source rows per label."""
    return np.bincount(require_labels(source), minlength=source.k)


@dataclass(frozen=True)
class TransportSummary:
    """Solution of the target's transport to the class frequencies `shares`.

    `bias` is the expected error of one minus the cost without shift.
    """

    shares: Floats
    transport: TransportResult
    bias: float


@dataclass(frozen=True)
class COT(StreamingEstimator[Ints, TransportSummary]):
    """One minus the cost of transporting the target's probabilities to labels.

    Without shift, the estimate is too low, because the class frequencies of source and target differ
    at random: with 300 rows, 5 classes and an accuracy of 90 %, by 3 points. The confidence interval
    takes this bias into account. There is no interval if the bias is larger than a fifth of the
    standard error of the difference of two accuracies, which is so with few rows per class.

    Parameters
    ----------
    prior : {"source", "mlls"}
        Class frequencies of the labels: "source" uses those of the source labels, and "mlls" uses
        those that MLLS estimates for the target under label shift.

    Raises
    ------
    InputError
        If `prior` is unknown.

    Examples
    --------
    >>> source = Predictions.from_probs([[1, 0], [0, 1]], labels=[0, 1])
    >>> target = Predictions.from_probs([[0.9, 0.1], [0.8, 0.2]])
    >>> round(COT().estimate(source, target).value, 3)
    0.55
    """

    prior: Literal["source", "mlls"] = "source"

    assumes: ClassVar[str] = (
        "the target has the class frequencies of the source, and the model is calibrated on the "
        "target"
    )
    needs: ClassVar[tuple[str, ...]] = ("probabilities", "source labels")
    paper: ClassVar[str] = "Lu et al., NeurIPS 2023"
    is_mergeable: ClassVar[bool] = False
    assumes_calibrated: ClassVar[bool] = True
    reads_probabilities: ClassVar[bool] = True
    supports_decisions: ClassVar[bool] = False
    min_rows_per_class: ClassVar[int] = 25
    max_bias_ratio: ClassVar[float] = 0.2

    def __post_init__(self) -> None:
        if self.prior not in ("source", "mlls"):
            raise InputError(f"prior must be 'source' or 'mlls'; got {self.prior!r}.")

    @property
    def name(self) -> str:
        return "cot" if self.prior == "source" else "cot-mlls"

    def learn(self, source: Predictions) -> Ints:
        """Return the number of source rows per label."""
        return label_counts(source)

    def summarize(self, learned: Ints, batch: Predictions) -> TransportSummary:
        """Solve the transport problem for the whole target; COTT reuses it through a cache."""
        return batch.cached(
            ("transport", self.prior, learned.tobytes()), lambda: self._solve(learned, batch)
        )

    def _solve(self, learned: Ints, batch: Predictions) -> TransportSummary:
        shares = learned / learned.sum()
        probs = batch.probs
        if self.prior == "mlls":
            shares, _ = _label_shift_em.fit_class_shares(probs, shares, MAX_EM_ITERATIONS)
        transport = solve_transport(probs, shares, _cached_dual(batch, probs, shares))
        return TransportSummary(shares, transport, transport_bias(probs, learned))

    def finish(self, learned: Ints, total: TransportSummary) -> Estimate:
        """Return one minus the transport cost."""
        transport = total.transport
        if transport.gap is None:
            stride = subsample_stride(len(transport.assigned_classes), len(total.shares))
            note = f"prices were fitted on one row in {stride}, the cost is that of all rows"
            return Estimate(1 - transport.cost, notes=(note,))
        return Estimate(1 - transport.cost, facts={"gap": transport.gap})

    def resample(
        self, learned: Ints, total: TransportSummary, rng: np.random.Generator, count: int
    ) -> Floats:
        """Resample target rows and source labels, with the prices of the solution.

        The prices maximize the dual, so its value changes only to second order if they are fitted
        again. This second-order term is the bias; resampling would count it twice.
        """
        transport = total.transport
        shares = np.broadcast_to(total.shares, (count, len(learned)))
        if self.prior == "source":
            shares = bootstrap_counts(rng, learned, count) / learned.sum()
        assigned = np.bincount(transport.assigned_classes, minlength=len(learned))
        resampled = bootstrap_counts(rng, assigned, count)
        reduced = _resample_costs(transport, assigned, resampled, rng)
        return np.asarray(1 - reduced - shares @ transport.prices)

    def bias(self, learned: Ints, total: TransportSummary, replicates: Floats) -> float:
        """Return the expected error due to the random class frequencies of source and target.

        The cost is that of assigning every target row to the class frequencies of the source. Even
        without shift, these differ at random, so the cost is too high. The bias is about
        proportional to the number of classes.
        """
        return total.bias

    def row_values(self, learned: Ints, total: TransportSummary, rows: Predictions) -> Floats:
        """Return the highest sum of probability and price of each row."""
        return 1 - reduced_costs(rows.probs, total.transport.prices)[0]


def transport_bias(probs: Floats, counts: Ints) -> float:
    """Return the expected error of one minus the transport cost, without shift.

    The class frequencies of source labels and target rows differ at random. It is the mean cost of
    assigning rows to other classes until such a difference is made up for, starting from the most
    probable classes. `counts` are the numbers of source rows per label.
    """
    n = len(probs)
    rows = probs[:: -(-n // MAX_BIAS_ROWS)].astype(np.float64)
    # Draws depend on the order of the classes, which must not change the estimate.
    order = np.lexsort((rows.sum(axis=0), counts))
    rows, counts = rows[:, order], counts[order]
    shares = counts / counts.sum()
    rng = rng_for(0, "transport bias")
    drawn = [rng.multinomial(size, shares, N_BIAS_DRAWS) / size for size in (counts.sum(), n)]
    classes = rows.argmax(axis=1)
    margins = rows.max(axis=1, keepdims=True) - rows
    costs = [_reassignment_cost(margins, classes, needed) for needed in drawn[0] - drawn[1]]
    return -float(np.mean(costs))


def _reassignment_cost(margins: Floats, classes: Ints, needed: Floats) -> float:
    """Return the least cost of moving shares of rows to the classes that need them.

    `margins` (n, k) has the cost of moving each row to each class. Rows are taken from classes that
    have too many, `needed` < 0. A row may be moved to several classes, so the cost is a lower
    bound.
    """
    movable = margins[needed[classes] < 0]
    cost = 0.0
    for class_ in np.flatnonzero(needed > 0):
        n_moved = min(needed[class_] * len(margins), len(movable))
        whole = int(n_moved)
        if whole < len(movable):
            nearest = np.partition(movable[:, class_], whole)
            cost += nearest[:whole].sum() + (n_moved - whole) * nearest[whole]
        else:
            cost += movable[:, class_].sum()
    return float(cost / len(margins))


def _resample_costs(
    transport: TransportResult, assigned: Ints, resampled: Ints, rng: np.random.Generator
) -> Floats:
    """Return the mean reduced cost of the rows of each replicate.

    `assigned` has the number of rows per assigned class, and `resampled`, of shape (count, k), has
    this number for each replicate.
    """
    classes = transport.assigned_classes
    n_rows = np.maximum(assigned, 1)
    means = np.bincount(classes, transport.reduced_costs, len(assigned)) / n_rows
    squares = (transport.reduced_costs - means[classes]) ** 2
    variances = np.bincount(classes, squares, len(assigned)) / n_rows
    deviations = np.sqrt(variances / np.maximum(resampled, 1))
    drawn = rng.normal(means, deviations, size=resampled.shape)
    return np.asarray((resampled * drawn).sum(axis=1) / assigned.sum())


def _cached_dual(rows: Predictions, probs: Floats, shares: Floats) -> DualSolution:
    """Return the prices from a cache, because COT and COTT use the same prices."""
    return rows.cached(("prices", shares.tobytes()), lambda: solve_dual(probs, shares))


def _cached_row_costs(rows: Predictions, shares: Floats) -> Floats:
    probs = rows.probs
    return row_costs(probs, shares, _cached_dual(rows, probs, shares))


@dataclass(frozen=True)
class CostThreshold:
    """Threshold on the negative transport cost of a row, and number of source rows per label."""

    threshold: Threshold
    counts: Ints

    @property
    def shares(self) -> Floats:
        """Return the class frequencies of the source."""
        return np.asarray(self.counts / self.counts.sum())


@dataclass(frozen=True)
class CostSummary:
    """Histogram of the transport costs of the target rows, and the expected error of their mean."""

    histogram: Ints
    cost_bias: float


@dataclass(frozen=True)
class COTT(StreamingEstimator[CostThreshold, CostSummary]):
    """Share of target rows whose transport cost is at most a threshold.

    The threshold is chosen so that the number of source rows with a higher cost equals the number
    of source errors. Without shift, the bias is about that of COT, and there is no confidence interval
    under the same condition.

    Examples
    --------
    >>> source = Predictions.from_probs([[0.9, 0.1], [0.6, 0.4], [0.2, 0.8]], labels=[0, 1, 1])
    >>> target = Predictions.from_probs([[0.7, 0.3], [0.1, 0.9]])
    >>> COTT().estimate(source, target).value
    0.5
    """

    name: ClassVar[str] = "cott"
    assumes: ClassVar[str] = (
        "the target has the class frequencies of the source; and on the target, as on the source, "
        "the number of errors with a cost up to the threshold equals the number of correct rows with "
        "a higher cost"
    )
    needs: ClassVar[tuple[str, ...]] = ("probabilities", "source labels")
    paper: ClassVar[str] = "Lu et al., NeurIPS 2023"
    is_mergeable: ClassVar[bool] = False
    reads_probabilities: ClassVar[bool] = True
    compares_scores: ClassVar[bool] = True
    supports_decisions: ClassVar[bool] = False
    max_bias_ratio: ClassVar[float] = 0.2

    def learn(self, source: Predictions) -> CostThreshold:
        """Fit the threshold to the source rows' costs, with the class frequencies of the source."""
        counts = label_counts(source)
        shares = counts / counts.sum()
        return CostThreshold(
            fit_threshold(-_cached_row_costs(source, shares), source.correct), counts
        )

    def summarize(self, learned: CostThreshold, batch: Predictions) -> CostSummary:
        """Return the histogram of the transport costs of the target rows."""
        counts = histogram(learned.threshold.edges, -_cached_row_costs(batch, learned.shares))
        return CostSummary(counts, COT().summarize(learned.counts, batch).bias)

    def finish(self, learned: CostThreshold, total: CostSummary) -> Estimate:
        """Return the share of rows whose transport cost is at most the threshold."""
        return share_above(learned.threshold, total.histogram)

    def resample(
        self, learned: CostThreshold, total: CostSummary, rng: np.random.Generator, count: int
    ) -> Floats:
        """Resample the costs of source and target rows, and fit the threshold again.

        The prices are not fitted again.
        """
        return resample_share_above(learned.threshold, total.histogram, rng, count)

    def bias(self, learned: CostThreshold, total: CostSummary, replicates: Floats) -> float:
        """Return the expected error of the threshold and of the transport costs.

        The prices of the target are fitted to class frequencies of other rows, those of the source
        to its own. Therefore costs are higher on the target, and the estimate is too low, by about
        as much as that of COT.
        """
        return threshold_bias(learned.threshold) + total.cost_bias

    def row_values(self, learned: CostThreshold, total: CostSummary, rows: Predictions) -> Floats:
        """Return 1 for rows whose cost is at most the threshold, and 0 for the others."""
        costs = _cached_row_costs(rows, learned.shares)
        return (-costs >= learned.threshold.value).astype(np.float64)
