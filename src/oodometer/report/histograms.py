"""Histograms of confidence, reliability bins and class shares: the counts that charts show."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from oodometer.core.array_types import Floats
from oodometer.core.calibration import bin_reliability
from oodometer.core.predictions import Predictions
from oodometer.core.stats import wilson_interval

N_CONFIDENCE_BINS = 40
MAX_CLASSES = 30
MAX_NAME_CHARS = 60
# If there are at most this many distinct values, each has its own bar. Otherwise the values are
# binned into this many bars.
MAX_BARS = 24


def truncate_name(name: str) -> str:
    """Shorten a name for a table.

    >>> len(truncate_name("a" * 1000))
    60
    """
    return name if len(name) <= MAX_NAME_CHARS else name[: MAX_NAME_CHARS - 1] + "…"


def unique_labels(names: Sequence[str]) -> list[str]:
    """Shorten names for an axis and number equal ones, which would otherwise be drawn as one.

    >>> unique_labels(["cat", "other", "other"])
    ['cat', 'other', 'other (2)']
    """
    labels: dict[str, None] = {}
    for name in map(truncate_name, names):
        label = name
        number = 1
        while label in labels:
            number += 1
            label = f"{name} ({number})"
        labels[label] = None
    return list(labels)


@dataclass(frozen=True, eq=False)
class ConfidenceHistogram:
    """Shares of source and target rows per bin of confidence."""

    edges: Floats
    source: Floats
    target: Floats

    def bins(self) -> Iterator[tuple[float, float, float, float]]:
        """Yield the lower edge, upper edge, source share and target share of each bin."""
        return zip(self.edges[:-1], self.edges[1:], self.source, self.target, strict=True)


def confidence_histogram(source: Predictions, target: Predictions) -> ConfidenceHistogram:
    """Return histograms of confidence with equal bins from 1 / (number of classes) to 1."""
    edges = np.linspace(1 / source.k, 1.0, N_CONFIDENCE_BINS + 1)
    shares = [
        # Rounding can put a confidence slightly outside the range. The last bin includes its
        # upper edge.
        np.histogram(np.clip(rows.confidence, edges[0], edges[-1]), edges)[0] / rows.n
        for rows in (source, target)
    ]
    return ConfidenceHistogram(edges, *shares)


@dataclass(frozen=True)
class ReliabilityBin:
    """Rows of similar confidence: count, mean confidence, accuracy and its interval."""

    n: int
    confidence: float
    accuracy: float
    low: float
    high: float


def reliability_bins(source: Predictions) -> list[ReliabilityBin]:
    """Return the non-empty bins of the reliability diagram, with Wilson intervals."""
    bins = []
    shares, means, accuracies = bin_reliability(source.confidence, source.correct.astype(float))
    for share, mean, accuracy in zip(shares, means, accuracies, strict=True):
        n = round(share * source.n)
        if n:
            low, high = wilson_interval(float(accuracy) * n, n)
            bins.append(ReliabilityBin(n, float(mean), float(accuracy), low, high))
    return bins


@dataclass(frozen=True)
class ClassShare:
    """Shares of source and target rows that are predicted as one class."""

    name: str
    source: float
    target: float


def class_shares(source: Predictions, target: Predictions) -> list[ClassShare]:
    """Return the share of each predicted class; all but the most frequent ones form one group."""
    names = source.class_names or target.class_names or tuple(map(str, range(source.k)))
    shares = [rows.class_counts / rows.n for rows in (source, target)]
    by_size = np.argsort(-(shares[0] + shares[1]), kind="stable")
    shown = np.sort(by_size[:MAX_CLASSES])
    others = by_size[MAX_CLASSES:]
    labels = [names[j] for j in shown]
    if len(others):
        labels.append(f"other ({len(others)} classes)")
    values = [
        np.append(share[shown], share[others].sum())[: len(labels)].tolist() for share in shares
    ]
    return [ClassShare(*row) for row in zip(unique_labels(labels), *values, strict=True)]


@dataclass(frozen=True)
class HistogramBar:
    """Bar with the share of examples, in percent, whose value is between `left` and `right`.

    `value` is the label of the bar.
    """

    value: str
    left: float
    right: float
    share: float


def histogram_bars(values_per_model: Sequence[Floats]) -> list[list[HistogramBar]]:
    """Return a histogram of the values of each model; all models have the same bars.

    >>> [(bar.value, bar.share) for bar in histogram_bars([np.array([0.5, 1.0, 1.0, 1.0])])[0]]
    [('0.500', 25.0), ('1.000', 75.0)]
    """
    levels = np.unique(np.round(np.concatenate(values_per_model), 9))
    if len(levels) <= MAX_BARS:
        half_width = 0.45 * float(np.diff(levels).min()) if len(levels) > 1 else 0.02
        ends = [(level - half_width, level + half_width) for level in levels.tolist()]
        labels = [_format_value(level) for level in levels.tolist()]
        counts_per_model = [
            [int((np.round(values, 9) == level).sum()) for level in levels]
            for values in values_per_model
        ]
    else:
        edges = np.linspace(levels[0], levels[-1], MAX_BARS + 1)
        ends = list(zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True))
        labels = [f"{_format_value(low)} to {_format_value(high)}" for low, high in ends]
        counts_per_model = [np.histogram(values, edges)[0].tolist() for values in values_per_model]
    return [
        [
            HistogramBar(label, round(left, 5), round(right, 5), round(100 * n / len(values), 3))
            for label, (left, right), n in zip(labels, ends, counts, strict=True)
        ]
        for values, counts in zip(values_per_model, counts_per_model, strict=True)
    ]


def _format_value(value: float) -> str:
    return f"{value:z.3f}".replace("-", "−")
