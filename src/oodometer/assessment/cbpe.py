"""Expected precision, recall, F1 and AUROC without labels (CBPE; Kivimäki et al., 2025).

If probabilities are calibrated, "row i has class c" is a Bernoulli variable with probability p_ic,
and counts over rows have a Poisson-binomial distribution. The expected number TP_c of true
positives is the sum of p_ic over the rows predicted as c. The expected number FN_c of false
negatives is the sum of p_ic over all other rows. A ratio of counts is estimated by the ratio of
their expectations. The ranking metrics, AUROC and average precision, rank rows by p and use p as
fractional labels. Variances are computed from the variances of the Bernoulli variables; the delta
method is used for metrics that are not linear in the counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from oodometer.core.array_types import Floats, Ints
from oodometer.core.errors import NotApplicable
from oodometer.core.jsonable import fields_to_jsonable
from oodometer.core.predictions import Predictions
from oodometer.core.stats import Z95

ASSUMES = "the probabilities are calibrated on the target"
METRIC_NAMES = ("accuracy", "precision", "recall", "f1", "auroc", "average_precision")
MACRO_SCOPE = "macro"
NO_EXPECTED_ROWS = "no row is expected to have this class"
NO_PAIRS = "the class requires rows that may have it and rows that may not"


@dataclass(frozen=True)
class ExpectedMetric:
    """Expected value of a metric with its confidence interval.

    `scope` is the name of a class, "all" for all rows, or "macro" for the mean over classes. If the
    metric is not defined, the value is None and `reason` says why.
    """

    metric: str
    scope: str
    value: float | None
    low: float | None = None
    high: float | None = None
    reason: str = ""

    def to_dict(self) -> dict[str, Any]:
        return fields_to_jsonable(self)


def expected_metrics(target: Predictions) -> tuple[ExpectedMetric, ...]:
    """Return the expected accuracy, all other metrics of each class, and their class means.

    The 95 % intervals reflect the randomness of the labels, given the rows and calibrated
    probabilities.

    >>> rows = Predictions.from_probs([[0.8, 0.2], [0.6, 0.4], [0.3, 0.7]])
    >>> results = expected_metrics(rows)
    >>> [round(result.value, 3) for result in results if result.scope in ("all", "0")]
    [0.7, 0.7, 0.824, 0.757, 0.813, 0.929]
    """
    if not target.has_probs:
        raise NotApplicable("expected metrics require probabilities")
    probs = target.probs
    names = target.class_names or tuple(str(j) for j in range(target.k))
    confidence = target.confidence.astype(np.float64)
    variance = float((confidence * (1 - confidence)).sum() / target.n**2)
    results = [_with_interval("accuracy", "all", float(confidence.mean()), variance)]
    counts = [_ExpectedCounts.from_probs(probs, target.classes, j) for j in range(target.k)]
    for metric, compute in (("precision", _precision), ("recall", _recall), ("f1", _f1)):
        results += _per_class_and_macro(metric, names, compute, counts)
    for metric, compute_rank in (("auroc", _auroc), ("average_precision", _average_precision)):
        columns = (probs[:, j].astype(np.float64) for j in range(target.k))
        results += _per_class_and_macro(metric, names, compute_rank, columns)
    return tuple(results)


ClassInput = TypeVar("ClassInput")


def _per_class_and_macro(
    metric: str,
    names: tuple[str, ...],
    compute: Callable[[ClassInput], tuple[float, float]],
    class_inputs: Iterable[ClassInput],
) -> Iterator[ExpectedMetric]:
    """Yield the metric of every class, then its mean over the classes for which it is defined."""
    values: list[float] = []
    deviations: list[float] = []
    for name, class_input in zip(names, class_inputs, strict=True):
        try:
            value, variance = compute(class_input)
        except NotApplicable as error:
            yield ExpectedMetric(metric, name, None, reason=str(error))
            continue
        values.append(value)
        deviations.append(variance**0.5)
        yield _with_interval(metric, name, value, variance)
    if not values:
        yield ExpectedMetric(metric, MACRO_SCOPE, None, reason="the metric is defined for no class")
        return
    # The metrics of different classes are correlated. Full correlation is assumed, so the standard
    # deviations are averaged, which gives an upper bound.
    variance = float(np.mean(deviations)) ** 2
    n_undefined = len(names) - len(values)
    reason = f"{n_undefined} classes without a value are left out" if n_undefined else ""
    yield _with_interval(metric, MACRO_SCOPE, float(np.mean(values)), variance, reason)


def _with_interval(
    metric: str, scope: str, value: float, variance: float, reason: str = ""
) -> ExpectedMetric:
    half = Z95 * variance**0.5
    return ExpectedMetric(
        metric, scope, value, low=max(value - half, 0.0), high=min(value + half, 1.0), reason=reason
    )


@dataclass(frozen=True)
class _ExpectedCounts:
    """Means and variances of TP and FN of a class, and its number of predicted rows."""

    n_predicted: int
    true_positives: float
    true_positives_variance: float
    false_negatives: float
    false_negatives_variance: float

    @classmethod
    def from_probs(cls, probs: Floats, classes: Ints, j: int) -> _ExpectedCounts:
        p = probs[:, j].astype(np.float64)
        variance = p * (1 - p)
        predicted = classes == j
        return cls(
            n_predicted=int(np.count_nonzero(predicted)),
            true_positives=float(p[predicted].sum()),
            true_positives_variance=float(variance[predicted].sum()),
            false_negatives=float(p[~predicted].sum()),
            false_negatives_variance=float(variance[~predicted].sum()),
        )

    def delta_variance(self, by_true_positive: float, by_false_negative: float) -> float:
        """Return the delta-method variance of a metric from its derivatives in TP and FN."""
        return (
            by_true_positive**2 * self.true_positives_variance
            + by_false_negative**2 * self.false_negatives_variance
        )


# Each of the following functions returns the value of a metric and its variance.


def _precision(counts: _ExpectedCounts) -> tuple[float, float]:
    if not counts.n_predicted:
        raise NotApplicable("this class is predicted for no row")
    return (
        counts.true_positives / counts.n_predicted,
        counts.true_positives_variance / counts.n_predicted**2,
    )


def _recall(counts: _ExpectedCounts) -> tuple[float, float]:
    total = counts.true_positives + counts.false_negatives
    if not total:
        raise NotApplicable(NO_EXPECTED_ROWS)
    variance = counts.delta_variance(
        counts.false_negatives / total**2, -counts.true_positives / total**2
    )
    return counts.true_positives / total, variance


def _f1(counts: _ExpectedCounts) -> tuple[float, float]:
    """Compute 2 TP / (predicted rows + TP + FN)."""
    total = counts.n_predicted + counts.true_positives + counts.false_negatives
    if not total:
        raise NotApplicable("no row is predicted or expected to have this class")
    value = 2 * counts.true_positives / total
    return value, counts.delta_variance((2 - value) / total, -value / total)


def _auroc(scores: Floats) -> tuple[float, float]:
    """Compute the probability that a row of the class ranks above another row; ties count ½."""
    p, first, end = _sort_with_ties(scores)
    positive, negative = p.sum(), (1 - p).sum()
    if len(p) < 2 or not positive or not negative:
        raise NotApplicable(NO_PAIRS)
    up_to = np.r_[0.0, np.cumsum(p)]
    # A row is not paired with itself, so p is subtracted.
    above = (up_to[first] + up_to[end] - p) / 2
    total = len(p) - (first + end) / 2
    below = total - (positive - (up_to[first] + up_to[end]) / 2) - (1 - p) / 2
    pairs = positive * negative - (p * (1 - p)).sum()
    if pairs <= 0:
        raise NotApplicable(NO_PAIRS)
    value = float((p * below).sum() / pairs)
    by_row = (below - above - value * ((negative - (1 - p)) - (positive - p))) / pairs
    return value, float((by_row**2 * p * (1 - p)).sum())


def _average_precision(scores: Floats) -> tuple[float, float]:
    """Compute the mean precision at the rank of each row of the class."""
    p, _, end = _sort_with_ties(scores)
    positive = p.sum()
    if not positive:
        raise NotApplicable(NO_EXPECTED_ROWS)
    up_to = np.cumsum(p)
    precision = (1 + up_to[end - 1] - p) / end
    value = float((p * precision).sum() / positive)
    later = np.r_[np.cumsum((p / end)[::-1])[::-1], 0.0]
    first = np.searchsorted(end, end)
    by_row = (precision + later[first] - p / end - value) / positive
    return value, float((by_row**2 * p * (1 - p)).sum())


def _sort_with_ties(scores: Floats) -> tuple[Floats, Ints, Ints]:
    """Return descending scores, and for each the first and end index of the equal scores."""
    ordered = np.sort(scores)[::-1]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    sizes = np.diff(np.r_[starts, len(ordered)])
    return ordered, np.repeat(starts, sizes), np.repeat(starts + sizes, sizes)
