"""PPI++: an accuracy and an honest interval from a few labels. Angelopoulos et al., 2023.

A label-free score f of every row (how often rows as sure are right on the source) is no accuracy, but rows that have labels
say how far it is off. With y = right or wrong on n labelled rows and f there and on N others,

    θ = λ · mean_N f + mean_n (y − λ f),   λ = cov(y, f) / ((1 + n/N) var f),

is right on average whatever f is, and the more surely the better f tells y. λ is found on other
rows than it is used on (cross-fitting).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from oodometer.core import validation
from oodometer.core.array_types import Array, Bools, Floats, Ints
from oodometer.core.errors import InputError, NotApplicable
from oodometer.core.labels import encode_labels, is_blank
from oodometer.core.predictions import Predictions
from oodometer.core.results import Estimate
from oodometer.core.stats import Z95, equal_mass_edges, histogram, rng_for, wilson_interval

# With fewer labels than this the normal approximation is not to be trusted.
MIN_LABELS = 25
N_FOLDS = 5
N_BINS = 20
PPI_METHOD, WILSON_METHOD = "ppi++", "wilson"
ASSUMES = "labelled rows were drawn from the target at random (or as `oodometer plan` said)"


@dataclass(frozen=True)
class FewLabelsEstimate:
    """An accuracy from n labels, its 95 % interval, and the labels that the score saved.

    `label_savings` is the share of labels that one would need more of with the same interval from labels
    alone: 0.3 means that ten labels did the work of fourteen.
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
        """The same as other methods have it."""
        facts = {"labels": self.n_labels, "weight": self.weight, "saved": self.label_savings}
        note = f"from {self.n_labels} labels of the target"
        if self.method == PPI_METHOD:
            note += f"; its scores saved {100 * self.label_savings:.0f} % of the labels"
        return Estimate(
            self.value, self.method, self.low, self.high, ASSUMES, notes=(note,), facts=facts
        )


def labelled_rows(target_labels: Any, target: Predictions) -> tuple[Ints, Bools]:
    """Which rows have labels, and where the model is right on them.

    Given are (rows, labels), or a label a row with blanks (None, NaN or an empty text).

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
    known = encode_labels(labels, len(rows), target.k, target.class_names, "labels of the target")
    assert known is not None
    return rows, target.classes[rows] == known


def _check_row_indices(rows: Array, n: int) -> None:
    if rows.ndim != 1 or rows.dtype.kind not in "iu":
        raise InputError(f"Labelled rows are whole numbers from 0 on; got {rows.dtype}.")
    outside = (rows < 0) | (rows >= n)
    if outside.any():
        raise InputError(f"Labelled rows must lie in 0…{n - 1}; one is {rows[outside.argmax()]}.")
    if len(np.unique(rows)) < len(rows):
        raise InputError("A row was labelled twice. Give every row once.")


def ppi_from_labels(
    source: Predictions, target: Predictions, target_labels: Any, seed: int
) -> FewLabelsEstimate | None:
    """The accuracy from some labels of the target; None where there is not one."""
    rows, correct = labelled_rows(target_labels, target)
    if not len(rows):
        return None
    scores = expected_correctness(source, target)
    rng = rng_for(seed, "few labels")
    return ppi_estimate(correct, scores[rows], np.delete(scores, rows), rng=rng)


def expected_correctness(source: Predictions, target: Predictions) -> Floats:
    """For every target row, how often source rows of like confidence are right.

    Confidences themselves may be crowded near 1 and tell right from wrong by hairs; these do not.

    >>> sure = [[0.9, 0.1], [0.9, 0.1], [0.6, 0.4], [0.6, 0.4]]
    >>> rows = Predictions.from_probs(sure, labels=[0, 0, 0, 1])
    >>> expected_correctness(rows, rows).tolist()
    [1.0, 1.0, 0.5, 0.5]
    """
    try:
        known, new = BinnedAccuracy.fit(source), target.confidence
    except NotApplicable:  # classes alone
        return np.full(target.n, source.correct.mean())
    return known(new)


@dataclass(frozen=True, eq=False)
class BinnedAccuracy:
    """How often rows of a source are right, in bins of their confidence of equal mass."""

    edges: Floats
    accuracies: Floats

    @classmethod
    def fit(cls, source: Predictions) -> BinnedAccuracy:
        """Of labelled rows."""
        known, overall = source.confidence, source.correct.mean()
        edges = equal_mass_edges(known, N_BINS)
        sizes, right = (histogram(edges, known, where=w) for w in (None, source.correct))
        return cls(edges, np.where(sizes > 0, right / np.maximum(sizes, 1), overall))

    def __call__(self, confidence: Floats) -> Floats:
        """The chance of every row."""
        return np.asarray(self.accuracies[np.searchsorted(self.edges, confidence, side="right")])

    def bin_counts(self, confidence: Floats) -> Ints:
        """How many rows are in every bin."""
        return histogram(self.edges, confidence)


@dataclass(frozen=True)
class UnlabelledMoments:
    """What is needed of the scores of the rows without labels: how many, their mean, their variance.

    >>> UnlabelledMoments.from_scores(np.array([1.0, 2.0, 3.0]))
    UnlabelledMoments(n=3, mean=2.0, variance=1.0)
    """

    n: int
    mean: float
    variance: float

    @classmethod
    def from_scores(cls, scores: Floats) -> UnlabelledMoments:
        """Of the scores themselves."""
        n = len(scores)
        # One score alone has no spread that could be told.
        return cls(
            n, float(scores.mean()) if n else 0.0, float(scores.var(ddof=1)) if n > 1 else 0.0
        )

    @classmethod
    def from_counts(
        cls, counts: Ints, bin_scores: Floats, labelled_scores: Floats
    ) -> UnlabelledMoments:
        """Of how many of all rows have each of some scores, without those that have labels.

        >>> UnlabelledMoments.from_counts(np.array([1, 1, 1, 1]), np.array([1.0, 4.0, 3.0, 2.0]), np.array([4.0]))
        UnlabelledMoments(n=3, mean=2.0, variance=1.0)
        """
        n = int(counts.sum()) - len(labelled_scores)
        total = float(np.dot(counts, bin_scores) - labelled_scores.sum())
        squares = float(np.dot(counts, bin_scores**2) - np.dot(labelled_scores, labelled_scores))
        spread = max(squares - total * total / max(n, 1), 0.0)
        return cls(n, total / max(n, 1), spread / (n - 1) if n > 1 else 0.0)


def ppi_estimate(
    correct: Bools,
    scores: Floats,
    unlabelled: Floats | UnlabelledMoments,
    *,
    rng: np.random.Generator,
) -> FewLabelsEstimate:
    """The accuracy from labelled rows, their scores, and the scores of the unlabelled rest.

    >>> scores = np.linspace(0, 1, 40)
    >>> found = ppi_estimate(scores > 0.5, scores, np.full(400, 0.5), rng=np.random.default_rng(0))
    >>> round(found.value, 2), found.method
    (0.5, 'ppi++')
    """
    n = len(correct)
    others = (
        unlabelled
        if isinstance(unlabelled, UnlabelledMoments)
        else UnlabelledMoments.from_scores(unlabelled)
    )
    if n == 0 or len(scores) != n:
        raise InputError(
            f"{n} labels and {len(scores)} scores of labelled rows; give as many, and at least one."
        )
    if n < MIN_LABELS or not others.n or correct.all() or not correct.any():
        low, high = wilson_interval(int(correct.sum()), n)
        return FewLabelsEstimate(
            float(correct.mean()), low, high, n, others.n, 0.0, 0.0, WILSON_METHOD
        )
    right = correct.astype(np.float64)
    weights = _cross_fit_weights(right, scores, others.n, rng)
    left = right - weights * scores
    value = float(weights.mean() * others.mean + left.mean())
    variance = left.var(ddof=1) / n + weights.mean() ** 2 * others.variance / others.n
    half = Z95 * float(np.sqrt(variance))
    plain = right.var(ddof=1) / n
    return FewLabelsEstimate(
        min(max(value, 0.0), 1.0),
        max(value - half, 0.0),
        min(value + half, 1.0),
        n,
        others.n,
        float(weights.mean()),
        float(1 - variance / plain),
        PPI_METHOD,
    )


def best_weight(correct: Floats, scores: Floats, n_unlabelled: int) -> float:
    """λ = cov(y, f) / ((1 + n/N) var f); 0 where the scores are all alike."""
    if np.ptp(scores) == 0:
        return 0.0
    spread = scores.var(ddof=1)
    together = float(((correct - correct.mean()) * (scores - scores.mean())).sum())
    return together / (len(correct) - 1) / ((1 + len(correct) / n_unlabelled) * float(spread))


def _cross_fit_weights(
    correct: Floats, scores: Floats, n_unlabelled: int, rng: np.random.Generator
) -> Floats:
    """λ for every labelled row, from the rows of other folds."""
    folds = rng.permutation(len(correct)) % N_FOLDS
    found = [
        best_weight(correct[folds != j], scores[folds != j], n_unlabelled) for j in range(N_FOLDS)
    ]
    return np.asarray(found)[folds]
