"""BBSE and MLLS: accuracy under label shift.

Both find the target's class shares q, then weight the source's recall of each class by them:
Σ_y q_y · recall_y, which is mean_s w_y · correct with w = q / p_s. BBSE (Lipton et al., ICML 2018)
solves the confusion matrix against the target's predicted shares; MLLS (Saerens et al. 2002; Garg
et al., NeurIPS 2020) maximises the likelihood of the target's calibrated probabilities.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from oodometer.core.array_types import Floats, Ints
from oodometer.core.errors import InputError, NotApplicable
from oodometer.core.predictions import Predictions
from oodometer.core.protocols import StreamingEstimator
from oodometer.core.results import Estimate
from oodometer.core.stats import (
    bootstrap_counts,
    bootstrap_normal_approx,
    effective_sample_fraction,
)
from oodometer.estimators import _label_shift_em

# Above this condition number the confusion matrix is solved with a pull towards the source's shares.
ILL_CONDITIONED = 1e3
RIDGE, MIN_RIDGE = 1e-2, 1e-12
# Cells of all matrices that are drawn again, and how many of them there are at least.
MAX_BOOTSTRAP_CELLS, MIN_BOOTSTRAP_MATRICES = 400_000, 50


def require_labels(source: Predictions) -> Ints:
    """The label of every source row; signals may know no more than whether it is right."""
    if source.labels is None:
        raise NotApplicable("it needs the class of every source row, not just whether it is right")
    return source.labels


def confusion_counts(source: Predictions) -> Ints:
    """Counts (predicted, label) of the source."""
    labels = require_labels(source)
    cells = source.classes.astype(np.int64) * source.k + labels
    counts = np.bincount(cells, minlength=source.k**2).reshape(source.k, source.k)
    if np.count_nonzero(counts.sum(axis=0)) < 2:
        raise NotApplicable(
            "the source has labels of one class only; label shift needs two or more"
        )
    return counts


def counts_by_class(counts: Ints) -> Ints:
    """Rows of each class, (…, k, [wrong, right]), of confusion counts (…, k, k)."""
    right = np.diagonal(counts, axis1=-2, axis2=-1)
    return np.stack([counts.sum(axis=-2) - right, right], axis=-1)


def weighted_recall(shares: Floats, rows: Ints) -> Floats:
    """Σ_y q_y · recall_y for many (shares, rows by class) at once."""
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
    return (f"{missing.size} classes have no source row and are taken as absent",)


def solve_class_shares(counts: Ints, predicted: Ints, ridge: float) -> Floats:
    """Class shares q with P_s(predicted | label) q = predicted shares, for many at once.

    Least squares with a pull towards the source's shares; then clipped at 0 and made to sum to 1.
    """
    labelled = counts.sum(axis=-2, keepdims=True)
    given = counts / np.maximum(labelled, 1)
    prior = labelled[..., 0, :] / labelled.sum(axis=(-2, -1))[..., None]
    rates = predicted / predicted.sum(axis=-1, keepdims=True)
    turned = np.swapaxes(given, -1, -2)
    left = turned @ given + ridge * np.eye(counts.shape[-1])
    right = (turned @ rates[..., None])[..., 0] + ridge * prior
    shares = np.linalg.solve(left, right[..., None])[..., 0]
    shares = np.where(labelled[..., 0, :] > 0, np.maximum(shares, 0.0), 0.0)
    total = shares.sum(axis=-1, keepdims=True)
    return np.asarray(np.where(total > 0, shares / np.where(total > 0, total, 1.0), prior))


@dataclass(frozen=True)
class BBSE(StreamingEstimator[Ints, Ints]):
    """Recall of each class on the source, weighted by target shares from the confusion matrix.

    >>> source = Predictions.from_classes([0, 0, 1, 1], k=2, labels=[0, 0, 1, 0])
    >>> target = Predictions.from_classes([0, 1, 1, 1], k=2)
    >>> round(BBSE().estimate(source, target).value, 4)
    0.875
    """

    name: ClassVar[str] = "bbse"
    assumes: ClassVar[str] = "classes changed in frequency, not in looks (label shift)"
    needs: ClassVar[tuple[str, ...]] = ("classes", "source labels")
    paper: ClassVar[str] = "Lipton et al., ICML 2018"

    def learn(self, source: Predictions) -> Ints:
        """The confusion counts."""
        return confusion_counts(source)

    def summarize(self, learned: Ints, batch: Predictions) -> Ints:
        """How often each class is predicted."""
        return batch.class_counts

    def finish(self, learned: Ints, total: Ints) -> Estimate:
        """The weighted recall."""
        condition, rows = _condition_number(learned), counts_by_class(learned)
        shares = solve_class_shares(learned, total, _ridge_for(condition))
        notes = _notes(rows)
        if condition > ILL_CONDITIONED:
            notes += ("the confusion matrix is ill-conditioned; a regularised solution was taken",)
        facts = {"condition": condition, **_facts(shares, rows)}
        return Estimate(float(weighted_recall(shares, rows)), notes=notes, facts=facts)

    def resample(self, learned: Ints, total: Ints, rng: np.random.Generator, count: int) -> Floats:
        """Confusion matrix and predicted shares drawn again and solved again.

        Of many classes few are, and the others follow the normal law of these.
        """
        few = max(MAX_BOOTSTRAP_CELLS // learned.size, MIN_BOOTSTRAP_MATRICES)
        return bootstrap_normal_approx(
            lambda some: self._resample_exactly(learned, total, rng, some), rng, count, few
        )

    def _resample_exactly(
        self, learned: Ints, total: Ints, rng: np.random.Generator, count: int
    ) -> Floats:
        pull = _ridge_for(_condition_number(learned))
        values = np.empty(count)
        for rows in replicate_chunks(count, learned.size):
            source = bootstrap_counts(rng, learned, rows.stop - rows.start)
            target = bootstrap_counts(rng, total, rows.stop - rows.start)
            values[rows] = weighted_recall(
                solve_class_shares(source, target, pull), counts_by_class(source)
            )
        return values


def _condition_number(counts: Ints) -> float:
    present = counts[:, counts.sum(axis=0) > 0]
    values = np.linalg.svd(present / present.sum(axis=0), compute_uv=False)
    return float(values[0] / values[-1]) if values[-1] > values[0] * 1e-15 else float("inf")


def _ridge_for(condition: float) -> float:
    return RIDGE if condition > ILL_CONDITIONED else MIN_RIDGE


def replicate_chunks(count: int, cells: int) -> list[slice]:
    """Slices of the replicates whose matrices stay below some 4 million cells together."""
    step = max(1, 4_000_000 // cells)
    return [slice(start, min(start + step, count)) for start in range(0, count, step)]


@dataclass(frozen=True)
class LabelShiftSummary:
    """What MLLS saw of a target: its rows (or a sample of them) and the shares they make likely."""

    sample: Floats
    n: int
    shares: Floats
    converged: bool


@dataclass(frozen=True)
class MLLS(StreamingEstimator[Ints, LabelShiftSummary]):
    """Recall of each class on the source, weighted by the target shares of highest likelihood.

    >>> source = Predictions.from_probs([[1, 0], [0, 1], [0, 1]], labels=[0, 1, 1])
    >>> target = Predictions.from_probs([[1, 0], [1, 0], [0, 1]])
    >>> round(MLLS().estimate(source, target).value, 4)
    1.0
    """

    max_iterations: int = 1000

    name: ClassVar[str] = "mlls"
    assumes: ClassVar[str] = (
        "classes changed in frequency, not in looks (label shift), and the model is calibrated "
        "on the source"
    )
    needs: ClassVar[tuple[str, ...]] = ("probabilities", "source labels")
    paper: ClassVar[str] = "Saerens et al., 2002; Garg et al., NeurIPS 2020"
    is_mergeable: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.max_iterations < 1:
            raise InputError(f"max_iterations must be at least 1; got {self.max_iterations}.")

    def learn(self, source: Predictions) -> Ints:
        """Rows of each class, wrong and right."""
        return counts_by_class(confusion_counts(source))

    def summarize(self, learned: Ints, batch: Predictions) -> LabelShiftSummary:
        """The likeliest shares of the whole target."""
        prior = _prior(learned)

        def seen() -> LabelShiftSummary:
            probs = batch.probs
            found, converged = _label_shift_em.fit_class_shares(probs, prior, self.max_iterations)
            step = -(-batch.n // _label_shift_em.max_bootstrap_rows(batch.k))
            return LabelShiftSummary(probs[::step].copy(), batch.n, found, converged)

        return batch.cached(("mlls", prior.tobytes(), self.max_iterations), seen)

    def finish(self, learned: Ints, total: LabelShiftSummary) -> Estimate:
        """The weighted recall."""
        notes = _notes(learned)
        if not total.converged:
            notes += (f"not converged after {self.max_iterations} iterations",)
        value = float(weighted_recall(total.shares, learned))
        return Estimate(value, notes=notes, facts=_facts(total.shares, learned))

    def resample(
        self, learned: Ints, total: LabelShiftSummary, rng: np.random.Generator, count: int
    ) -> Floats:
        """Source counts drawn again; shares moved by the likelihood of resampled target rows."""
        source = bootstrap_counts(rng, learned, count)
        moved = _label_shift_em.resample_class_shares(
            total.sample, total.n, total.shares, _prior(learned), _prior(source), rng
        )
        return weighted_recall(moved, source)


def _prior(rows: Ints) -> Floats:
    labelled = rows.sum(axis=-1)
    return np.asarray(labelled / labelled.sum(axis=-1, keepdims=True))
