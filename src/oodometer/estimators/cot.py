"""COT and COTT: confidence by optimal transport. Lu et al., NeurIPS 2023.

COT is the cost of moving the target's probabilities to certain answers with the class shares of the
source. COTT asks what each row pays for that, and thresholds it as ATC does the confidence.
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
from oodometer.core.stats import bootstrap_counts, histogram
from oodometer.estimators import _label_shift_em
from oodometer.estimators._optimal_transport import (
    DualSolution,
    TransportResult,
    curvature,
    row_costs,
    solve_dual,
    solve_transport,
    subsample_stride,
)
from oodometer.estimators.atc import Threshold, fit_threshold, resample_share_above, share_above
from oodometer.estimators.label_shift import require_labels

MAX_EM_ITERATIONS = 1000


def label_counts(source: Predictions) -> Ints:
    """Source rows of each class."""
    return np.bincount(require_labels(source), minlength=source.k)


@dataclass(frozen=True)
class TransportSummary:
    """A target that was moved, and the class shares that it was moved to."""

    shares: Floats
    transport: TransportResult
    curvature: Floats


@dataclass(frozen=True)
class COT(StreamingEstimator[Ints, TransportSummary]):
    """One less the cost of moving the target's probabilities to the source's labels.

    With the `prior` "mlls" the class shares are those that the target makes likeliest, not the
    source's: for a target whose classes are known to have changed in frequency.

    >>> source = Predictions.from_probs([[1, 0], [0, 1]], labels=[0, 1])
    >>> target = Predictions.from_probs([[0.9, 0.1], [0.8, 0.2]])
    >>> round(COT().estimate(source, target).value, 3)
    0.55
    """

    prior: Literal["source", "mlls"] = "source"

    assumes: ClassVar[str] = (
        "the target has the class shares of the source, and probabilities are as sure as they say"
    )
    needs: ClassVar[tuple[str, ...]] = ("probabilities", "source labels")
    paper: ClassVar[str] = "Lu et al., NeurIPS 2023"
    is_mergeable: ClassVar[bool] = False
    assumes_calibrated: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.prior not in ("source", "mlls"):
            raise InputError(f"prior must be 'source' or 'mlls'; got {self.prior!r}.")

    @property
    def name(self) -> str:
        """`cot`, or `cot-mlls` with the other prior."""
        return "cot" if self.prior == "source" else "cot-mlls"

    def learn(self, source: Predictions) -> Ints:
        """How many rows each class has."""
        return label_counts(source)

    def summarize(self, learned: Ints, batch: Predictions) -> TransportSummary:
        """The whole target, moved."""
        shares, probs = learned / learned.sum(), batch.probs
        if self.prior == "mlls":
            shares, _ = _label_shift_em.fit_class_shares(probs, shares, MAX_EM_ITERATIONS)
        moved = solve_transport(probs, shares, _cached_dual(batch, probs, shares))
        return TransportSummary(shares, moved, curvature(probs, moved.prices))

    def finish(self, learned: Ints, total: TransportSummary) -> Estimate:
        """One less the cost."""
        moved = total.transport
        if moved.gap is None:
            every = subsample_stride(len(moved.assigned_classes), len(total.shares))
            note = f"prices were found on one row in {every}, the cost on all"
            return Estimate(1 - moved.cost, notes=(note,))
        return Estimate(1 - moved.cost, facts={"gap": moved.gap})

    def resample(
        self, learned: Ints, total: TransportSummary, rng: np.random.Generator, count: int
    ) -> Floats:
        """Rows and class shares drawn again; prices moved by one Newton step."""
        moved, k = total.transport, len(learned)
        shares = np.broadcast_to(total.shares, (count, k))
        if self.prior == "source":
            shares = bootstrap_counts(rng, learned, count) / learned.sum()
        here = np.bincount(moved.assigned_classes, minlength=k)
        again = bootstrap_counts(rng, here, count)
        reduced = _resample_reduced_costs(moved, here, again, rng)
        # The dual's slope was 0, and is now what shares and rows differ by.
        slope = (shares - total.shares) - (again - here) / here.sum()
        gained = (slope * (slope @ np.linalg.pinv(total.curvature))).sum(axis=1) / 2
        return np.asarray(1 - reduced - shares @ moved.prices - gained)


def _resample_reduced_costs(
    moved: TransportResult, here: Ints, again: Ints, rng: np.random.Generator
) -> Floats:
    """The mean reduced cost of rows drawn again, `again` of each class that they go to."""
    some = np.maximum(here, 1)
    means = np.bincount(moved.assigned_classes, moved.reduced_costs, len(here)) / some
    squares = (
        np.bincount(
            moved.assigned_classes,
            (moved.reduced_costs - means[moved.assigned_classes]) ** 2,
            len(here),
        )
        / some
    )
    spread = np.sqrt(squares / np.maximum(again, 1))
    drawn = rng.normal(means, spread, size=again.shape)
    return np.asarray((again * drawn).sum(axis=1) / here.sum())


def _cached_dual(rows: Predictions, probs: Floats, shares: Floats) -> DualSolution:
    """The prices, which COT and COTT have in common."""
    return rows.cached(("prices", shares.tobytes()), lambda: solve_dual(probs, shares))


def _cached_row_costs(rows: Predictions, shares: Floats) -> Floats:
    probs = rows.probs
    return row_costs(probs, shares, _cached_dual(rows, probs, shares))


@dataclass(frozen=True)
class CostThreshold:
    """The source's threshold of what a row pays, and its class shares."""

    threshold: Threshold
    shares: Floats


@dataclass(frozen=True)
class COTT(StreamingEstimator[CostThreshold, Ints]):
    """The share of the target that pays no more for its move than the source's threshold.

    >>> source = Predictions.from_probs([[0.9, 0.1], [0.6, 0.4], [0.2, 0.8]], labels=[0, 1, 1])
    >>> target = Predictions.from_probs([[0.7, 0.3], [0.1, 0.9]])
    >>> COTT().estimate(source, target).value
    0.5
    """

    name: ClassVar[str] = "cott"
    assumes: ClassVar[str] = (
        "the target has the class shares of the source, and rows that cost more to move are wrong "
        "as on the source"
    )
    needs: ClassVar[tuple[str, ...]] = ("probabilities", "source labels")
    paper: ClassVar[str] = "Lu et al., NeurIPS 2023"
    is_mergeable: ClassVar[bool] = False

    def learn(self, source: Predictions) -> CostThreshold:
        """What the source's rows pay for being moved to their own labels' shares, and the threshold."""
        counts = label_counts(source)
        shares = counts / counts.sum()
        return CostThreshold(
            fit_threshold(-_cached_row_costs(source, shares), source.correct), shares
        )

    def summarize(self, learned: CostThreshold, batch: Predictions) -> Ints:
        """Target rows counted by what they pay."""
        return histogram(learned.threshold.edges, -_cached_row_costs(batch, learned.shares))

    def finish(self, learned: CostThreshold, total: Ints) -> Estimate:
        """The share of rows that pay no more than the threshold."""
        return share_above(learned.threshold, total)

    def resample(
        self, learned: CostThreshold, total: Ints, rng: np.random.Generator, count: int
    ) -> Floats:
        """The threshold found again in every resampled source; prices stay."""
        return resample_share_above(learned.threshold, total, rng, count)
