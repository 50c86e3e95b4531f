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
from oodometer.core.errors import InputError, NoAnswer
from oodometer.core.predictions import Predictions
from oodometer.core.protocols import Estimate
from oodometer.core.softmax_kernels import Array, Bools, Floats, Ints
from oodometer.core.stats import Z95, counts_between, equal_mass_edges, stream, wilson
from oodometer.core.validation import is_blank

# With fewer labels than this the normal approximation is not to be trusted.
FEWEST = 25
FOLDS = 5
BINS = 20
PPI, WILSON = "ppi++", "wilson"
ASSUMES = "labelled rows were drawn from the target at random (or as `oodometer plan` said)"


@dataclass(frozen=True)
class FewLabels:
    """An accuracy from n labels, its 95 % interval, and the labels that the score saved.

    `saved` is the share of labels that one would need more of with the same interval from labels
    alone: 0.3 means that ten labels did the work of fourteen.
    """

    value: float
    low: float
    high: float
    labels: int
    rest: int
    weight: float
    saved: float
    method: str

    @property
    def estimate(self) -> Estimate:
        """The same as other methods have it."""
        facts = {"labels": self.labels, "weight": self.weight, "saved": self.saved}
        note = f"from {self.labels} labels of the target"
        if self.method == PPI:
            note += f"; its scores saved {100 * self.saved:.0f} % of the labels"
        return Estimate(
            self.value, self.method, self.low, self.high, ASSUMES, notes=(note,), facts=facts
        )


def labelled_rows(given: Any, target: Predictions) -> tuple[Ints, Bools]:
    """Which rows have labels, and where the model is right on them.

    Given are (rows, labels), or a label a row with blanks (None, NaN or an empty text).

    >>> target = Predictions.from_probs([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]])
    >>> labelled_rows([0, None, 1], target), labelled_rows(([0, 2], [0, 1]), target)
    ((array([0, 2]), array([ True, False])), (array([0, 2]), array([ True, False])))
    """
    if isinstance(given, tuple) and len(given) == 2:
        rows, labels = np.asarray(given[0]), np.asarray(given[1])
        _are_rows(rows, target.n)
    else:
        values = validation.per_row(given, target.n, "labels of the target")
        assert values is not None
        rows = np.flatnonzero([not is_blank(value) for value in values.tolist()])
        labels = np.array(values[rows].tolist())
    known = validation.labels(
        labels, len(rows), target.k, target.class_names, "labels of the target"
    )
    assert known is not None
    return rows, target.classes[rows] == known


def _are_rows(rows: Array, n: int) -> None:
    if rows.ndim != 1 or rows.dtype.kind not in "iu":
        raise InputError(f"Labelled rows are whole numbers from 0 on; got {rows.dtype}.")
    outside = (rows < 0) | (rows >= n)
    if outside.any():
        raise InputError(f"Labelled rows must lie in 0…{n - 1}; one is {rows[outside.argmax()]}.")
    if len(np.unique(rows)) < len(rows):
        raise InputError("A row was labelled twice. Give every row once.")


def from_few(source: Predictions, target: Predictions, given: Any, seed: int) -> FewLabels | None:
    """The accuracy from some labels of the target; None where there is not one."""
    rows, correct = labelled_rows(given, target)
    if not len(rows):
        return None
    scores = chances(source, target)
    rng = stream(seed, "few labels")
    return few_labels(correct, scores[rows], np.delete(scores, rows), rng=rng)


def chances(source: Predictions, target: Predictions) -> Floats:
    """For every target row, how often source rows of like confidence are right.

    Confidences themselves may be crowded near 1 and tell right from wrong by hairs; these do not.

    >>> sure = [[0.9, 0.1], [0.9, 0.1], [0.6, 0.4], [0.6, 0.4]]
    >>> rows = Predictions.from_probs(sure, labels=[0, 0, 0, 1])
    >>> chances(rows, rows).tolist()
    [1.0, 1.0, 0.5, 0.5]
    """
    try:
        known, new = Chances.of(source), target.confidence
    except NoAnswer:  # classes alone
        return np.full(target.n, source.correct.mean())
    return known(new)


@dataclass(frozen=True, eq=False)
class Chances:
    """How often rows of a source are right, in bins of their confidence of equal mass."""

    edges: Floats
    shares: Floats

    @classmethod
    def of(cls, source: Predictions) -> Chances:
        """Of labelled rows."""
        known, overall = source.confidence, source.correct.mean()
        edges = equal_mass_edges(known, BINS)
        sizes, right = (counts_between(edges, known, where=w) for w in (None, source.correct))
        return cls(edges, np.where(sizes > 0, right / np.maximum(sizes, 1), overall))

    def __call__(self, confidence: Floats) -> Floats:
        """The chance of every row."""
        return np.asarray(self.shares[np.searchsorted(self.edges, confidence, side="right")])

    def counts(self, confidence: Floats) -> Ints:
        """How many rows are in every bin."""
        return counts_between(self.edges, confidence)


@dataclass(frozen=True)
class Rest:
    """What is needed of the scores of the rows without labels: how many, their mean, their variance.

    >>> Rest.of(np.array([1.0, 2.0, 3.0]))
    Rest(n=3, mean=2.0, variance=1.0)
    """

    n: int
    mean: float
    variance: float

    @classmethod
    def of(cls, scores: Floats) -> Rest:
        """Of the scores themselves."""
        n = len(scores)
        # One score alone has no spread that could be told.
        return cls(
            n, float(scores.mean()) if n else 0.0, float(scores.var(ddof=1)) if n > 1 else 0.0
        )

    @classmethod
    def beside(cls, counts: Ints, shares: Floats, scores: Floats) -> Rest:
        """Of how many of all rows have each of some scores, without those that have labels.

        >>> Rest.beside(np.array([1, 1, 1, 1]), np.array([1.0, 4.0, 3.0, 2.0]), np.array([4.0]))
        Rest(n=3, mean=2.0, variance=1.0)
        """
        n = int(counts.sum()) - len(scores)
        total = float(np.dot(counts, shares) - scores.sum())
        squares = float(np.dot(counts, shares**2) - np.dot(scores, scores))
        spread = max(squares - total * total / max(n, 1), 0.0)
        return cls(n, total / max(n, 1), spread / (n - 1) if n > 1 else 0.0)


def few_labels(
    correct: Bools, scores: Floats, rest: Floats | Rest, *, rng: np.random.Generator
) -> FewLabels:
    """The accuracy from labelled rows, their scores, and the scores of the unlabelled rest.

    >>> scores = np.linspace(0, 1, 40)
    >>> found = few_labels(scores > 0.5, scores, np.full(400, 0.5), rng=np.random.default_rng(0))
    >>> round(found.value, 2), found.method
    (0.5, 'ppi++')
    """
    n = len(correct)
    others = rest if isinstance(rest, Rest) else Rest.of(rest)
    if n == 0 or len(scores) != n:
        raise InputError(
            f"{n} labels and {len(scores)} scores of labelled rows; give as many, and at least one."
        )
    if n < FEWEST or not others.n or correct.all() or not correct.any():
        low, high = wilson(int(correct.sum()), n)
        return FewLabels(float(correct.mean()), low, high, n, others.n, 0.0, 0.0, WILSON)
    right = correct.astype(np.float64)
    weights = _cross_fitted(right, scores, others.n, rng)
    left = right - weights * scores
    value = float(weights.mean() * others.mean + left.mean())
    variance = left.var(ddof=1) / n + weights.mean() ** 2 * others.variance / others.n
    half = Z95 * float(np.sqrt(variance))
    plain = right.var(ddof=1) / n
    return FewLabels(
        min(max(value, 0.0), 1.0),
        max(value - half, 0.0),
        min(value + half, 1.0),
        n,
        others.n,
        float(weights.mean()),
        float(1 - variance / plain),
        PPI,
    )


def best_weight(correct: Floats, scores: Floats, rest: int) -> float:
    """λ = cov(y, f) / ((1 + n/N) var f); 0 where the scores are all alike."""
    if np.ptp(scores) == 0:
        return 0.0
    spread = scores.var(ddof=1)
    together = float(((correct - correct.mean()) * (scores - scores.mean())).sum())
    return together / (len(correct) - 1) / ((1 + len(correct) / rest) * float(spread))


def _cross_fitted(correct: Floats, scores: Floats, rest: int, rng: np.random.Generator) -> Floats:
    """λ for every labelled row, from the rows of other folds."""
    folds = rng.permutation(len(correct)) % FOLDS
    found = [best_weight(correct[folds != j], scores[folds != j], rest) for j in range(FOLDS)]
    return np.asarray(found)[folds]
