"""Accuracy under label shift: BBSE (Lipton et al., ICML 2018) and MLLS (Saerens et al., 2002).

Both methods first estimate the target's class frequencies q. The estimated accuracy is the mean of
the source's recalls weighted by q, Σ_y q_y · recall_y. It equals the mean of w_y · correct over the
source rows, where w = q / p_s and p_s are the class frequencies of the source. BBSE finds q by
solving a linear system with the source's confusion matrix and the target's predicted class
frequencies. MLLS (also Garg et al., NeurIPS 2020) maximizes the likelihood of the target's
calibrated probabilities.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from oodometer.core.array_types import Floats, Ints
from oodometer.core.errors import NotApplicable, out_of_range
from oodometer.core.predictions import Predictions
from oodometer.core.protocols import StreamingEstimator
from oodometer.core.results import Estimate
from oodometer.core.stats import (
    bootstrap_counts,
    bootstrap_normal_approx,
    effective_sample_fraction,
    poisson_bootstrap_weights,
)
from oodometer.estimators import _label_shift_em

# Above this condition number of the confusion matrix, the solution is regularized towards the
# source's class frequencies with the weight RIDGE. Otherwise the weight is MIN_RIDGE.
ILL_CONDITIONED = 1e3
RIDGE = 1e-2
MIN_RIDGE = 1e-12
# Maximum number of cells of all resampled confusion matrices together, and minimum number of
# resampled matrices. The minimum has precedence.
MAX_BOOTSTRAP_CELLS = 400_000
MIN_BOOTSTRAP_MATRICES = 50


def require_labels(source: Predictions) -> Ints:
    """Return the source labels; raise NotApplicable if there are none.

    A source without labels may still state whether each row is classified correctly.
    """
    if source.labels is None:
        raise NotApplicable("it requires source labels, not only whether each row is correct")
    return source.labels


def confusion_counts(source: Predictions) -> Ints:
    """Return counts (k, k) of source rows by predicted class and label."""
    labels = require_labels(source)
    cells = source.classes.astype(np.int64) * source.k + labels
    counts = np.bincount(cells, minlength=source.k**2).reshape(source.k, source.k)
    if np.count_nonzero(counts.sum(axis=0)) < 2:
        raise NotApplicable(
            "the source has labels of one class only; label shift requires at least two"
        )
    return counts


def counts_by_class(counts: Ints) -> Ints:
    """Return the numbers of wrong and correct rows per label, (…, k, 2).

    `counts` are confusion counts of shape (…, k, k).
    """
    correct = np.diagonal(counts, axis1=-2, axis2=-1)
    return np.stack([counts.sum(axis=-2) - correct, correct], axis=-1)


def weighted_recall(shares: Floats, rows: Ints) -> Floats:
    """Return Σ_y q_y · recall_y for many replicates at once.

    `shares` are the class frequencies q, (…, k). `rows` are the numbers of wrong and correct rows
    per label, (…, k, 2).
    """
    recall = rows[..., 1] / np.maximum(rows.sum(axis=-1), 1)
    return np.asarray((shares * recall).sum(axis=-1))


def _facts(shares: Floats, rows: Ints) -> dict[str, float]:
    labelled = rows.sum(axis=1)
    weights = shares / np.maximum(labelled, 1)
    return {"effective_share": effective_sample_fraction(np.repeat(weights, labelled))}


def _notes(rows: Ints) -> tuple[str, ...]:
    missing = np.flatnonzero(rows.sum(axis=1) == 0)
    if not missing.size:
        return ()
    return (f"{missing.size} classes have no source rows and are assumed absent from the target",)


def solve_class_shares(counts: Ints, predicted: Ints, ridge: float) -> Floats:
    """Return the class frequencies q that solve P_s(predicted | label) q = predicted frequencies.

    The system is solved by least squares with a ridge penalty towards the class frequencies of the
    source. Negative frequencies are then set to 0, and the result is normalized. If the arrays have
    leading dimensions, all systems are solved at once.
    """
    labelled = counts.sum(axis=-2, keepdims=True)
    confusion = counts / np.maximum(labelled, 1)
    prior = labelled[..., 0, :] / labelled.sum(axis=(-2, -1))[..., None]
    rates = predicted / predicted.sum(axis=-1, keepdims=True)
    transposed = np.swapaxes(confusion, -1, -2)
    left = transposed @ confusion + ridge * np.eye(counts.shape[-1])
    right = (transposed @ rates[..., None])[..., 0] + ridge * prior
    shares = np.linalg.solve(left, right[..., None])[..., 0]
    shares = np.where(labelled[..., 0, :] > 0, np.maximum(shares, 0.0), 0.0)
    total = shares.sum(axis=-1, keepdims=True)
    return np.asarray(np.where(total > 0, shares / np.where(total > 0, total, 1.0), prior))


@dataclass(frozen=True)
class BBSE(StreamingEstimator[Ints, Ints]):
    """Black-box shift estimation (BBSE) of the accuracy, ``Σ_y q_y · recall_s(y)``.

    The class frequencies q of the target solve ``C q = μ``. C is the source's confusion matrix
    P(ŷ | y), and μ are the frequencies of the predicted classes on the target. With fewer than 20
    rows per class on average, the estimate is biased and has no confidence interval.

    Examples
    --------
    >>> source = Predictions.from_classes([0, 0, 1, 1], k=2, labels=[0, 0, 1, 0])
    >>> target = Predictions.from_classes([0, 1, 1, 1], k=2)
    >>> round(BBSE().estimate(source, target).value, 4)
    0.875
    """

    name: ClassVar[str] = "bbse"
    assumes: ClassVar[str] = "label shift: class frequencies changed, p(x|y) did not"
    needs: ClassVar[tuple[str, ...]] = ("classes", "source labels")
    paper: ClassVar[str] = "Lipton et al., ICML 2018"
    min_rows_per_class: ClassVar[int] = 25

    def learn(self, source: Predictions) -> Ints:
        """Return the confusion counts of the source."""
        return confusion_counts(source)

    def summarize(self, learned: Ints, batch: Predictions) -> Ints:
        """Return the number of rows per predicted class."""
        return batch.class_counts

    def finish(self, learned: Ints, total: Ints) -> Estimate:
        """Return the mean recall, weighted by the estimated class frequencies."""
        return bbse_estimate(learned, counts_by_class(learned), total)

    def resample(self, learned: Ints, total: Ints, rng: np.random.Generator, count: int) -> Floats:
        """Resample the confusion counts and the predicted classes, and solve for q again.

        With many classes, only some replicates are computed like this. All further replicates are
        drawn from a normal distribution that is fitted to them.
        """
        n_solved = max(MAX_BOOTSTRAP_CELLS // learned.size, MIN_BOOTSTRAP_MATRICES)
        return bootstrap_normal_approx(
            lambda size: self._resample_exactly(learned, total, rng, size), rng, count, n_solved
        )

    def _resample_exactly(
        self, learned: Ints, total: Ints, rng: np.random.Generator, count: int
    ) -> Floats:
        ridge = ridge_for(condition_number(learned))
        values = np.empty(count)
        for rows in replicate_chunks(count, learned.size):
            source = bootstrap_counts(rng, learned, rows.stop - rows.start)
            target = bootstrap_counts(rng, total, rows.stop - rows.start)
            values[rows] = weighted_recall(
                solve_class_shares(source, target, ridge), counts_by_class(source)
            )
        return values

    def row_values(self, learned: Ints, total: Ints, rows: Predictions) -> Floats:
        """Return the derivative of the estimate with respect to the share of each row's class."""
        return bbse_gradient(learned, counts_by_class(learned))[rows.classes]


def bbse_estimate(confusion: Ints, rows: Ints, predicted: Ints) -> Estimate:
    """Return the mean recall, weighted by class frequencies that explain the predicted classes.

    `confusion` are the counts (k, k) of source rows by predicted class and label, `rows` the
    numbers (k, 2) of wrong and correct source rows per label, and `predicted` the numbers of target
    rows per predicted class.
    """
    condition = condition_number(confusion)
    shares = solve_class_shares(confusion, predicted, ridge_for(condition))
    notes = _notes(rows)
    if condition > ILL_CONDITIONED:
        notes += ("the confusion matrix is ill-conditioned; the solution is regularized",)
    facts = {"condition": condition, **_facts(shares, rows)}
    return Estimate(float(weighted_recall(shares, rows)), notes=notes, facts=facts)


def bbse_gradient(confusion: Ints, rows: Ints) -> Floats:
    """Return the derivative (k,) of the BBSE estimate with respect to the predicted shares.

    `confusion` and `rows` are those of `bbse_estimate`.
    """
    rates = confusion / np.maximum(confusion.sum(axis=0, keepdims=True), 1)
    recall = rows[:, 1] / np.maximum(rows.sum(axis=1), 1)
    left = rates.T @ rates + ridge_for(condition_number(confusion)) * np.eye(len(rates))
    return np.asarray(rates @ np.linalg.solve(left, recall))


def condition_number(counts: Ints) -> float:
    """Return the condition number of P(predicted | label), without labels that do not occur."""
    present = counts[:, counts.sum(axis=0) > 0]
    values = np.linalg.svd(present / present.sum(axis=0), compute_uv=False)
    return float(values[0] / values[-1]) if values[-1] > values[0] * 1e-15 else float("inf")


def ridge_for(condition: float) -> float:
    """Return the ridge penalty for a confusion matrix with this condition number."""
    return RIDGE if condition > ILL_CONDITIONED else MIN_RIDGE


def replicate_chunks(count: int, cells: int) -> list[slice]:
    """Split replicates into slices whose matrices have at most about 4 million cells together."""
    step = max(1, 4_000_000 // cells)
    return [slice(start, min(start + step, count)) for start in range(0, count, step)]


@dataclass(frozen=True)
class LabelShiftSummary:
    """Estimated class frequencies of the target, and a sample of its rows for the bootstrap.

    `n` is the number of all target rows. `shares` are the class frequencies, estimated from all
    rows, and `converged` is whether their iteration converged.
    """

    sample: Floats
    n: int
    shares: Floats
    converged: bool


@dataclass(frozen=True)
class MLLS(StreamingEstimator[Ints, LabelShiftSummary]):
    """Maximum-likelihood label shift (MLLS) estimate of the accuracy, ``Σ_y q_y · recall_s(y)``.

    The class frequencies q of the target maximize ``mean_t log Σ_y q_y p_y(x) / p_s(y)``. With fewer
    than 25 rows per class on average, there is no confidence interval, because recalls are hardly
    known.

    Parameters
    ----------
    max_iterations : int
        Maximum number of EM iterations.

    Raises
    ------
    InputError
        If `max_iterations` is below 1.

    Examples
    --------
    >>> source = Predictions.from_probs([[1, 0], [0, 1], [0, 1]], labels=[0, 1, 1])
    >>> target = Predictions.from_probs([[1, 0], [1, 0], [0, 1]])
    >>> round(MLLS().estimate(source, target).value, 4)
    1.0
    """

    max_iterations: int = 1000

    name: ClassVar[str] = "mlls"
    assumes: ClassVar[str] = (
        "label shift: class frequencies changed, p(x|y) did not; and the model is calibrated on "
        "the source"
    )
    needs: ClassVar[tuple[str, ...]] = ("probabilities", "source labels")
    paper: ClassVar[str] = "Saerens et al., 2002; Garg et al., NeurIPS 2020"
    min_rows_per_class: ClassVar[int] = 25
    is_mergeable: ClassVar[bool] = False
    reads_probabilities: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.max_iterations < 1:
            raise out_of_range("max_iterations", self.max_iterations, low=1)

    def learn(self, source: Predictions) -> Ints:
        """Return the numbers of wrong and correct source rows per label."""
        return counts_by_class(confusion_counts(source))

    def summarize(self, learned: Ints, batch: Predictions) -> LabelShiftSummary:
        """Return the class frequencies of the whole target; LEAP reuses them through a cache."""
        prior = _prior(learned)

        def fit() -> LabelShiftSummary:
            probs = batch.probs
            shares, converged = _label_shift_em.fit_class_shares(probs, prior, self.max_iterations)
            step = -(-batch.n // _label_shift_em.max_bootstrap_rows(batch.k))
            return LabelShiftSummary(probs[::step].copy(), batch.n, shares, converged)

        return batch.cached(("mlls", prior.tobytes(), self.max_iterations), fit)

    def finish(self, learned: Ints, total: LabelShiftSummary) -> Estimate:
        """Return the mean recall, weighted by the estimated class frequencies."""
        notes = _notes(learned)
        if not total.converged:
            notes += (f"not converged after {self.max_iterations} iterations",)
        value = float(weighted_recall(total.shares, learned))
        return Estimate(value, notes=notes, facts=_facts(total.shares, learned))

    def resample(
        self, learned: Ints, total: LabelShiftSummary, rng: np.random.Generator, count: int
    ) -> Floats:
        """Resample the source counts and the target rows, and update the class frequencies.

        The update is one Newton step on the likelihood of the resampled rows.
        """
        source = bootstrap_counts(rng, learned, count)
        shares = _label_shift_em.resample_class_shares(
            total.sample,
            total.n,
            solution=total.shares,
            prior=_prior(learned),
            priors=_prior(source),
            weights=poisson_bootstrap_weights(rng, (count, len(total.sample))),
        )
        return weighted_recall(shares, source)

    def row_values(self, learned: Ints, total: LabelShiftSummary, rows: Predictions) -> Floats:
        """Return the change of the estimate by a Newton step of the likelihood of each row."""
        recall = learned[:, 1] / np.maximum(learned.sum(axis=1), 1)
        return _label_shift_em.row_influence(
            rows.probs, solution=total.shares, prior=_prior(learned), slope=recall
        )


def _prior(rows: Ints) -> Floats:
    labelled = rows.sum(axis=-1)
    return np.asarray(labelled / labelled.sum(axis=-1, keepdims=True))
