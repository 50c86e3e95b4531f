"""Accuracy from a few target labels by prediction-powered inference (PPI++; Angelopoulos et al., 2023).

Each target row has a score f, which is the source accuracy in the confidence bin of the row and
needs no target label. There are n labelled rows, with y = 1 if the model is correct and y = 0
otherwise, and N unlabelled rows. The estimate

    θ = λ · mean_N f + mean_n (y − λ f),   λ = cov(y, f) / ((1 + n/N) var f),

is unbiased for any f, and it is more precise if f predicts y better. λ is fitted by cross-fitting:
the λ of a labelled row is computed from the labelled rows of the other folds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from oodometer.core import validation
from oodometer.core.array_types import Array, Bools, Floats, Ints
from oodometer.core.errors import InputError, out_of_range
from oodometer.core.format import format_percent, pluralize
from oodometer.core.labels import encode_labels, is_blank
from oodometer.core.predictions import Predictions
from oodometer.core.results import Estimate
from oodometer.core.stats import Z95, equal_mass_edges, histogram, rng_for, wilson_interval

# With fewer labels the normal approximation is unreliable, and the Wilson interval is used.
MIN_LABELS = 25
N_FOLDS = 5
N_BINS = 20
PPI_METHOD = "ppi++"
WILSON_METHOD = "wilson"
ASSUMES = (
    "the labelled rows are a random sample of the target (or were selected by `oodometer plan`)"
)


@dataclass(frozen=True)
class FewLabelsEstimate:
    """Accuracy from labels with its 95 % confidence interval.

    `weight` is λ. `label_savings` is one minus the ratio of the variances with and without scores.
    A value of 0.3 means that ten labels with scores are as precise as fourteen labels without
    scores.
    """

    value: float
    low: float
    high: float
    n_labels: int
    n_unlabelled: int
    weight: float
    label_savings: float
    method: str

    @property
    def estimate(self) -> Estimate:
        facts = {"labels": self.n_labels, "weight": self.weight, "saved": self.label_savings}
        note = f"from {self.n_labels} target labels"
        if self.method == PPI_METHOD:
            note += f"; the scores saved {100 * self.label_savings:.0f} % of the labels"
        return Estimate(
            self.value,
            self.method,
            low=self.low,
            high=self.high,
            assumes=ASSUMES,
            notes=(note,),
            facts=facts,
        )


def unused_label_notes(result: FewLabelsEstimate | None) -> tuple[str, ...]:
    """Return why target labels do not determine the headline, and the accuracy on their rows."""
    if result is None or result.method == PPI_METHOD:
        return ()
    accuracy = (
        f"{format_percent(result.value)} % "
        f"({format_percent(result.low)}–{format_percent(result.high)})"
    )
    labels = pluralize(result.n_labels, "label")
    if result.n_labels < MIN_LABELS:
        verb = "is" if result.n_labels == 1 else "are"
        return (
            f"{labels} {verb} too few for the headline (at least {MIN_LABELS} are needed); on these "
            f"rows the accuracy is {accuracy}.",
        )
    return (
        f"The {labels} of the target are not used for the headline, which needs unlabelled rows, and "
        f"labelled rows on which the model is correct and wrong; on the labelled rows the accuracy "
        f"is {accuracy}.",
    )


def labelled_rows(target_labels: Any, target: Predictions) -> tuple[Ints, Bools]:
    """Return the labelled rows in ascending order, and whether the model is correct on them.

    `target_labels` is a pair (rows, labels), or a sequence with one label per target row in which
    missing labels are None, NaN or empty text.

    >>> target = Predictions.from_probs([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]])
    >>> labelled_rows([0, None, 1], target), labelled_rows(([0, 2], [0, 1]), target)
    ((array([0, 2]), array([ True, False])), (array([0, 2]), array([ True, False])))
    """
    if isinstance(target_labels, tuple) and len(target_labels) == 2:
        rows, labels = np.asarray(target_labels[0]), np.asarray(target_labels[1])
        _check_row_indices(rows, target.n)
    else:
        values = validation.validate_row_values(target_labels, target.n, "labels of the target")
        assert values is not None
        rows = np.flatnonzero([not is_blank(value) for value in values.tolist()])
        labels = np.array(values[rows].tolist())
    classes = encode_labels(labels, len(rows), target.k, target.class_names, "labels of the target")
    assert classes is not None
    order = np.argsort(rows)  # the folds of PPI++ must not depend on the order of the labels
    return rows[order], (target.classes[rows] == classes)[order]


def _check_row_indices(rows: Array, n: int) -> None:
    if rows.ndim != 1 or rows.dtype.kind not in "iu":
        raise InputError(f"Labelled rows must be integers, counted from 0; got {rows.dtype}.")
    outside = (rows < 0) | (rows >= n)
    if outside.any():
        raise out_of_range("labelled rows", int(rows[outside.argmax()]), low=0, high=n - 1)
    if len(np.unique(rows)) < len(rows):
        values, counts = np.unique(rows, return_counts=True)
        raise InputError(
            f"Row {values[counts > 1][0]} has more than one label. Pass each row once."
        )


def ppi_from_labels(
    source: Predictions, target: Predictions, target_labels: Any, seed: int
) -> FewLabelsEstimate | None:
    """Return the accuracy estimated from target labels; None if there are no labels."""
    rows, correct = labelled_rows(target_labels, target)
    if not len(rows):
        return None
    scores = expected_correctness(source, target)
    rng = rng_for(seed, "few labels")
    return ppi_estimate(correct, scores[rows], np.delete(scores, rows), rng=rng)


def expected_correctness(source: Predictions, target: Predictions) -> Floats:
    """Return the source accuracy in the confidence bin of every target row.

    Confidences are often all close to 1. The accuracies of their bins show larger differences.

    >>> probs = [[0.9, 0.1], [0.9, 0.1], [0.6, 0.4], [0.6, 0.4]]
    >>> rows = Predictions.from_probs(probs, labels=[0, 0, 0, 1])
    >>> expected_correctness(rows, rows).tolist()
    [1.0, 1.0, 0.5, 0.5]
    """
    binned_accuracy = BinnedAccuracy.fit_for(source, has_confidence=target.has_confidence)
    return binned_accuracy(row_confidence(target))


def row_confidence(rows: Predictions) -> Floats:
    """Return the confidence of each row; zeros if the model returns classes only."""
    return rows.confidence if rows.has_confidence else np.zeros(rows.n)


@dataclass(frozen=True, eq=False)
class BinnedAccuracy:
    """Source accuracy in confidence bins that contain equal numbers of source rows."""

    edges: Floats
    accuracies: Floats

    @classmethod
    def fit(cls, source: Predictions, *, smoothed: bool = False) -> BinnedAccuracy:
        """Fit the bins on labelled rows.

        With `smoothed`, one row with the overall accuracy is added to each bin, so that no accuracy
        is 0 or 1. The fit is computed once for these rows.
        """
        key = ("binned accuracy", smoothed)
        return source.cached(key, lambda: cls._fit(source, smoothed=smoothed))

    @classmethod
    def fit_for(cls, source: Predictions, *, has_confidence: bool) -> BinnedAccuracy:
        """Return the bins, or a single bin if source or target have classes without confidences."""
        if has_confidence and source.has_confidence:
            return cls.fit(source)
        return cls(np.empty(0), np.array([source.correct.mean()]))

    @classmethod
    def _fit(cls, source: Predictions, *, smoothed: bool) -> BinnedAccuracy:
        edges = equal_mass_edges(source.confidence, N_BINS)
        n_rows = histogram(edges, source.confidence)
        n_correct = histogram(edges, source.confidence, where=source.correct)
        overall = source.correct.mean()
        if smoothed:
            overall = (n_correct.sum() + 0.5) / (source.n + 1)
            return cls(edges, (n_correct + overall) / (n_rows + 1))
        return cls(edges, np.where(n_rows > 0, n_correct / np.maximum(n_rows, 1), overall))

    def __call__(self, confidence: Floats) -> Floats:
        """Return the accuracy in the bin of every row."""
        return np.asarray(self.accuracies[np.searchsorted(self.edges, confidence, side="right")])

    def bin_counts(self, confidence: Floats) -> Ints:
        """Return the number of rows per bin."""
        return histogram(self.edges, confidence)


@dataclass(frozen=True)
class UnlabelledMoments:
    """Number, mean and variance of the scores of unlabelled rows.

    >>> UnlabelledMoments.from_scores(np.array([1.0, 2.0, 3.0]))
    UnlabelledMoments(n=3, mean=2.0, variance=1.0)
    """

    n: int
    mean: float
    variance: float

    @classmethod
    def from_scores(cls, scores: Floats) -> UnlabelledMoments:
        n = len(scores)
        return cls(
            n,
            mean=float(scores.mean()) if n else 0.0,
            variance=float(scores.var(ddof=1)) if n > 1 else 0.0,
        )

    @classmethod
    def from_counts(
        cls, counts: Ints, bin_scores: Floats, labelled_scores: Floats
    ) -> UnlabelledMoments:
        """Return the moments from the counts of all rows per bin score, minus the labelled rows.

        >>> bin_scores = np.array([1.0, 4.0, 3.0, 2.0])
        >>> UnlabelledMoments.from_counts(np.array([1, 1, 1, 1]), bin_scores, np.array([4.0]))
        UnlabelledMoments(n=3, mean=2.0, variance=1.0)
        """
        n = int(counts.sum()) - len(labelled_scores)
        total = float(np.dot(counts, bin_scores) - labelled_scores.sum())
        squares = float(np.dot(counts, bin_scores**2) - np.dot(labelled_scores, labelled_scores))
        variation = max(squares - total * total / max(n, 1), 0.0)
        return cls(n, mean=total / max(n, 1), variance=variation / (n - 1) if n > 1 else 0.0)


def ppi_estimate(
    correct: Bools,
    scores: Floats,
    unlabelled: Floats | UnlabelledMoments,
    *,
    rng: np.random.Generator,
) -> FewLabelsEstimate:
    """Return the accuracy estimated from labelled rows and the scores of all rows.

    `correct` and `scores` have one value per labelled row; `unlabelled` has the scores of the
    unlabelled rows, or their moments.

    >>> scores = np.linspace(0, 1, 40)
    >>> unlabelled = np.full(400, 0.5)
    >>> result = ppi_estimate(scores > 0.5, scores, unlabelled, rng=np.random.default_rng(0))
    >>> round(result.value, 2), result.method
    (0.5, 'ppi++')
    """
    n = len(correct)
    if not isinstance(unlabelled, UnlabelledMoments):
        unlabelled = UnlabelledMoments.from_scores(unlabelled)
    if n == 0 or len(scores) != n:
        raise InputError(
            f"There are {n} labels and {len(scores)} scores of labelled rows; pass equally many, at "
            "least one."
        )
    if n < MIN_LABELS or not unlabelled.n or correct.all() or not correct.any():
        low, high = wilson_interval(int(correct.sum()), n)
        return FewLabelsEstimate(
            value=float(correct.mean()),
            low=low,
            high=high,
            n_labels=n,
            n_unlabelled=unlabelled.n,
            weight=0.0,
            label_savings=0.0,
            method=WILSON_METHOD,
        )
    y = correct.astype(np.float64)
    weights = _cross_fit_weights(y, scores, unlabelled.n, rng)
    residuals = y - weights * scores
    value = float(weights.mean() * unlabelled.mean + residuals.mean())
    variance = residuals.var(ddof=1) / n + weights.mean() ** 2 * unlabelled.variance / unlabelled.n
    half = Z95 * float(np.sqrt(variance))
    variance_without_scores = y.var(ddof=1) / n
    return FewLabelsEstimate(
        value=min(max(value, 0.0), 1.0),
        low=max(value - half, 0.0),
        high=min(value + half, 1.0),
        n_labels=n,
        n_unlabelled=unlabelled.n,
        weight=float(weights.mean()),
        label_savings=float(1 - variance / variance_without_scores),
        method=PPI_METHOD,
    )


def best_weight(correct: Floats, scores: Floats, n_unlabelled: int) -> float:
    """Return λ = cov(y, f) / ((1 + n/N) var f), or 0 if all scores f are equal."""
    if np.ptp(scores) == 0:
        return 0.0
    variance = float(scores.var(ddof=1))
    products = float(((correct - correct.mean()) * (scores - scores.mean())).sum())
    return products / (len(correct) - 1) / ((1 + len(correct) / n_unlabelled) * variance)


def _cross_fit_weights(
    correct: Floats, scores: Floats, n_unlabelled: int, rng: np.random.Generator
) -> Floats:
    """Return the λ of every labelled row, computed from the labelled rows of the other folds."""
    folds = rng.permutation(len(correct)) % N_FOLDS
    weights = [
        best_weight(correct[folds != j], scores[folds != j], n_unlabelled) for j in range(N_FOLDS)
    ]
    return np.asarray(weights)[folds]
