"""Accuracy under label shift: BBSE (Lipton et al., ICML 2018) and MLLS (Saerens et al., 2002).

Both estimate the target's class frequencies q and return the recall of each class on the source
weighted by q: Σ_y q_y · recall_y, which equals mean_s w_y · correct with w = q / p_s. BBSE solves the
confusion matrix for the frequencies of the predicted classes; MLLS (also Garg et al., NeurIPS 2020)
maximizes the likelihood of the target's calibrated probabilities.
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
)
from oodometer.estimators import _label_shift_em

# Above this condition number the system is regularized towards the source's class frequencies.
ILL_CONDITIONED = 1e3
RIDGE = 1e-2
MIN_RIDGE = 1e-12
# Total cells of the resampled confusion matrices, and their minimum number.
MAX_BOOTSTRAP_CELLS = 400_000
MIN_BOOTSTRAP_MATRICES = 50


def require_labels(source: Predictions) -> Ints:
    """Return the source labels; raise NotApplicable if only the correctness is known."""
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
    """Return wrong and correct rows per class, (…, k, 2), from confusion counts (…, k, k)."""
    correct = np.diagonal(counts, axis1=-2, axis2=-1)
    return np.stack([counts.sum(axis=-2) - correct, correct], axis=-1)


def weighted_recall(shares: Floats, rows: Ints) -> Floats:
    """Return Σ_y q_y · recall_y for many class frequencies and counts by class at once."""
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
    """Return the class frequencies q with P_s(predicted | label) q = predicted frequencies.

    Least squares with a ridge towards the source frequencies; then clipped at 0 and normalized.
    Leading dimensions are solved at once.
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
    """Black-box shift estimation: ``Σ_y q_y · recall_s(y)`` with q from the confusion matrix.

    q solves ``C q = μ``, where C is the source's P(ŷ | y) and μ the target's predicted frequencies.

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

    def learn(self, source: Predictions) -> Ints:
        """Return the confusion counts."""
        return confusion_counts(source)

    def summarize(self, learned: Ints, batch: Predictions) -> Ints:
        """Return the number of rows per predicted class."""
        return batch.class_counts

    def finish(self, learned: Ints, total: Ints) -> Estimate:
        """Return the weighted recall."""
        condition = _condition_number(learned)
        rows = counts_by_class(learned)
        shares = solve_class_shares(learned, total, _ridge_for(condition))
        notes = _notes(rows)
        if condition > ILL_CONDITIONED:
            notes += ("the confusion matrix is ill-conditioned; the solution is regularized",)
        facts = {"condition": condition, **_facts(shares, rows)}
        return Estimate(float(weighted_recall(shares, rows)), notes=notes, facts=facts)

    def resample(self, learned: Ints, total: Ints, rng: np.random.Generator, count: int) -> Floats:
        """Resample and solve the confusion matrix and the predicted frequencies.

        With many classes only some replicates are solved; the others are drawn from the normal
        distribution fitted to these.
        """
        n_solved = max(MAX_BOOTSTRAP_CELLS // learned.size, MIN_BOOTSTRAP_MATRICES)
        return bootstrap_normal_approx(
            lambda size: self._resample_exactly(learned, total, rng, size), rng, count, n_solved
        )

    def _resample_exactly(
        self, learned: Ints, total: Ints, rng: np.random.Generator, count: int
    ) -> Floats:
        ridge = _ridge_for(_condition_number(learned))
        values = np.empty(count)
        for rows in replicate_chunks(count, learned.size):
            source = bootstrap_counts(rng, learned, rows.stop - rows.start)
            target = bootstrap_counts(rng, total, rows.stop - rows.start)
            values[rows] = weighted_recall(
                solve_class_shares(source, target, ridge), counts_by_class(source)
            )
        return values


def _condition_number(counts: Ints) -> float:
    present = counts[:, counts.sum(axis=0) > 0]
    values = np.linalg.svd(present / present.sum(axis=0), compute_uv=False)
    return float(values[0] / values[-1]) if values[-1] > values[0] * 1e-15 else float("inf")


def _ridge_for(condition: float) -> float:
    return RIDGE if condition > ILL_CONDITIONED else MIN_RIDGE


def replicate_chunks(count: int, cells: int) -> list[slice]:
    """Return slices of the replicates with at most about 4 million matrix cells each."""
    step = max(1, 4_000_000 // cells)
    return [slice(start, min(start + step, count)) for start in range(0, count, step)]


@dataclass(frozen=True)
class LabelShiftSummary:
    """Target rows for the bootstrap (a sample of `n`), and the class frequencies of all rows."""

    sample: Floats
    n: int
    shares: Floats
    converged: bool


@dataclass(frozen=True)
class MLLS(StreamingEstimator[Ints, LabelShiftSummary]):
    """Maximum-likelihood label shift: ``Σ_y q_y · recall_s(y)`` with q of highest likelihood.

    q maximizes ``mean_t log Σ_y q_y p_y(x) / p_s(y)``.

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
    is_mergeable: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.max_iterations < 1:
            raise out_of_range("max_iterations", self.max_iterations, low=1)

    def learn(self, source: Predictions) -> Ints:
        """Return wrong and correct rows per class."""
        return counts_by_class(confusion_counts(source))

    def summarize(self, learned: Ints, batch: Predictions) -> LabelShiftSummary:
        """Return the class frequencies of the whole target; shared with LEAP by a cache."""
        prior = _prior(learned)

        def fit() -> LabelShiftSummary:
            probs = batch.probs
            shares, converged = _label_shift_em.fit_class_shares(probs, prior, self.max_iterations)
            step = -(-batch.n // _label_shift_em.max_bootstrap_rows(batch.k))
            return LabelShiftSummary(probs[::step].copy(), batch.n, shares, converged)

        return batch.cached(("mlls", prior.tobytes(), self.max_iterations), fit)

    def finish(self, learned: Ints, total: LabelShiftSummary) -> Estimate:
        """Return the weighted recall."""
        notes = _notes(learned)
        if not total.converged:
            notes += (f"not converged after {self.max_iterations} iterations",)
        value = float(weighted_recall(total.shares, learned))
        return Estimate(value, notes=notes, facts=_facts(total.shares, learned))

    def resample(
        self, learned: Ints, total: LabelShiftSummary, rng: np.random.Generator, count: int
    ) -> Floats:
        """Resample source counts; update frequencies by the likelihood of resampled target rows."""
        source = bootstrap_counts(rng, learned, count)
        shares = _label_shift_em.resample_class_shares(
            total.sample,
            total.n,
            solution=total.shares,
            prior=_prior(learned),
            priors=_prior(source),
            rng=rng,
        )
        return weighted_recall(shares, source)


def _prior(rows: Ints) -> Floats:
    labelled = rows.sum(axis=-1)
    return np.asarray(labelled / labelled.sum(axis=-1, keepdims=True))
