"""CBPE: the metrics that calibrated probabilities let one expect, without a label.

Where a row's probability of class c is p, "the row is of class c" is a coin of that chance. What is
counted over rows is then Poisson-binomial: TP_c sums the p of the rows that are called c, FN_c that
of all others. Ratios of counts are ratios of expectations. Ranking metrics (AUROC, average
precision) sort rows by p and take the p as fractional labels. Variances are those of the coins, by
the delta method where a metric is not linear in them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from oodometer.core.array_types import Floats, Ints
from oodometer.core.errors import NotApplicable
from oodometer.core.predictions import Predictions
from oodometer.core.stats import Z95

ASSUMES = "the probabilities are calibrated on the target"
METRIC_NAMES = ("accuracy", "precision", "recall", "f1", "auroc", "average_precision")
MACRO_SCOPE = "macro"


@dataclass(frozen=True)
class ExpectedMetric:
    """A metric of one class (or `macro`, the mean over classes), with its 95 % interval."""

    metric: str
    scope: str
    value: float | None
    low: float | None = None
    high: float | None = None
    reason: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "metric": self.metric,
            "scope": self.scope,
            "value": self.value,
            "low": self.low,
            "high": self.high,
            "reason": self.reason,
        }


def expected_metrics(target: Predictions) -> tuple[ExpectedMetric, ...]:
    """Accuracy, and precision, recall, F1, AUROC and average precision of each class and macro.

    The intervals are of the labels' luck, given the rows and calibrated probabilities.

    >>> rows = Predictions.from_probs([[0.8, 0.2], [0.6, 0.4], [0.3, 0.7]])
    >>> [round(one.value, 3) for one in expected_metrics(rows) if one.scope in ("all", "0")]
    [0.7, 0.7, 0.824, 0.757, 0.813, 0.929]
    """
    if not target.has_probs:
        raise NotApplicable("expected metrics need probabilities")
    probs = target.probs
    names = target.class_names or tuple(str(j) for j in range(target.k))
    found = [_accuracy(target)]
    coins = [_ExpectedCounts.from_probs(probs, target.classes, j) for j in range(target.k)]
    for metric, ask in (("precision", _precision), ("recall", _recall), ("f1", _f1)):
        found += _per_class_and_macro(metric, names, [ask(one) for one in coins])
    columns = (probs[:, j].astype(np.float64) for j in range(target.k))
    ranked = [(_auroc(one), _average_precision(one)) for one in columns]
    found += _per_class_and_macro("auroc", names, [one for one, _ in ranked])
    found += _per_class_and_macro("average_precision", names, [one for _, one in ranked])
    return tuple(found)


# A value and its variance; None with the reason.
MetricOrReason = tuple[float, float] | str


@dataclass(frozen=True)
class _ExpectedCounts:
    """Means and variances of TP and FN of a class, and how many rows are called it."""

    n_predicted: int
    true_positives: float
    true_positives_variance: float
    false_negatives: float
    false_negatives_variance: float

    @classmethod
    def from_probs(cls, probs: Floats, classes: Ints, j: int) -> _ExpectedCounts:
        p = probs[:, j].astype(np.float64)
        spread, called = p * (1 - p), classes == j
        return cls(
            int(np.count_nonzero(called)), float(p[called].sum()), float(spread[called].sum()),
            float(p[~called].sum()), float(spread[~called].sum()),
        )  # fmt: skip


def _accuracy(target: Predictions) -> ExpectedMetric:
    sure = target.confidence.astype(np.float64)
    value, variance = float(sure.mean()), float((sure * (1 - sure)).sum() / target.n**2)
    return _with_interval("accuracy", "all", (value, variance))


def _precision(counts: _ExpectedCounts) -> MetricOrReason:
    if not counts.n_predicted:
        return "no row is called this class"
    return (
        counts.true_positives / counts.n_predicted,
        counts.true_positives_variance / counts.n_predicted**2,
    )


def _recall(counts: _ExpectedCounts) -> MetricOrReason:
    """TP / (TP + FN)."""
    total = counts.true_positives + counts.false_negatives
    if not total:
        return "no row is expected to be of this class"
    by_hit, by_miss = counts.false_negatives / total**2, -counts.true_positives / total**2
    variance = (
        by_hit**2 * counts.true_positives_variance + by_miss**2 * counts.false_negatives_variance
    )
    return counts.true_positives / total, variance


def _f1(counts: _ExpectedCounts) -> MetricOrReason:
    """2 TP / (rows called so + TP + FN)."""
    total = counts.n_predicted + counts.true_positives + counts.false_negatives
    if not total:
        return "no row is called, or expected to be of, this class"
    value = 2 * counts.true_positives / total
    by_hit, by_miss = (2 - value) / total, -value / total
    return (
        value,
        by_hit**2 * counts.true_positives_variance + by_miss**2 * counts.false_negatives_variance,
    )


def _sort_with_ties(scores: Floats) -> tuple[Floats, Ints, Ints]:
    """Scores in falling order, and where each row's group of equal scores begins and ends."""
    ordered = np.sort(scores)[::-1]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    sizes = np.diff(np.r_[starts, len(ordered)])
    return ordered, np.repeat(starts, sizes), np.repeat(starts + sizes, sizes)


def _auroc(scores: Floats) -> MetricOrReason:
    """How often a row of the class scores above one that is not, ties by half."""
    p, first, end = _sort_with_ties(scores)
    positive, negative = p.sum(), (1 - p).sum()
    if len(p) < 2 or not positive or not negative:
        return "the class needs rows that may be of it and rows that may not"
    up_to = np.r_[0.0, np.cumsum(p)]
    # Rows are pairs with others, not with themselves.
    above = (up_to[first] + up_to[end] - p) / 2
    total = len(p) - (first + end) / 2
    below = total - (positive - (up_to[first] + up_to[end]) / 2) - (1 - p) / 2
    pairs = positive * negative - (p * (1 - p)).sum()
    if pairs <= 0:
        return "the class needs rows that may be of it and rows that may not"
    value = float((p * below).sum() / pairs)
    by_row = (below - above - value * ((negative - (1 - p)) - (positive - p))) / pairs
    return value, float((by_row**2 * p * (1 - p)).sum())


def _average_precision(scores: Floats) -> MetricOrReason:
    """Precision at every row of the class, in falling order of score, averaged over them."""
    p, _, end = _sort_with_ties(scores)
    positive = p.sum()
    if not positive:
        return "no row is expected to be of this class"
    up_to = np.cumsum(p)
    reached = (1 + up_to[end - 1] - p) / end
    value = float((p * reached).sum() / positive)
    later = np.r_[np.cumsum((p / end)[::-1])[::-1], 0.0]
    first = np.searchsorted(end, end)
    by_row = (reached + later[first] - p / end - value) / positive
    return value, float((by_row**2 * p * (1 - p)).sum())


def _per_class_and_macro(
    metric: str, names: tuple[str, ...], answers: list[MetricOrReason]
) -> Iterator[ExpectedMetric]:
    """Every class, then their mean; classes without an answer are not in it."""
    for name, answer in zip(names, answers, strict=True):
        yield _with_interval(metric, name, answer)
    known = [one for one in answers if not isinstance(one, str)]
    if not known:
        yield ExpectedMetric(metric, MACRO_SCOPE, None, reason="no class has an answer")
        return
    value = float(np.mean([value for value, _ in known]))
    # Labels of classes lean on one another; were they all alike, deviations would add up.
    deviation = float(np.mean([variance**0.5 for _, variance in known]))
    left = len(answers) - len(known)
    reason = f"{left} classes without an answer are left out" if left else ""
    found = _with_interval(metric, MACRO_SCOPE, (value, deviation**2))
    yield ExpectedMetric(metric, MACRO_SCOPE, found.value, found.low, found.high, reason)


def _with_interval(metric: str, scope: str, answer: MetricOrReason) -> ExpectedMetric:
    if isinstance(answer, str):
        return ExpectedMetric(metric, scope, None, reason=answer)
    value, half = answer[0], Z95 * answer[1] ** 0.5
    return ExpectedMetric(metric, scope, value, max(value - half, 0.0), min(value + half, 1.0))
