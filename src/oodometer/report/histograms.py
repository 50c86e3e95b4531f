"""What the charts show, counted by us: no raw row ever reaches a page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from oodometer.core.array_types import Floats
from oodometer.core.calibration import bin_reliability
from oodometer.core.predictions import Predictions
from oodometer.core.stats import wilson_interval

N_CONFIDENCE_BINS = 40
MAX_CLASSES = 30
MAX_NAME_CHARS = 60


def truncate_name(name: str) -> str:
    """A name that fits a table.

    >>> len(truncate_name("a" * 1000))
    60
    """
    return name if len(name) <= MAX_NAME_CHARS else name[: MAX_NAME_CHARS - 1] + "…"


def unique_labels(names: Sequence[str]) -> list[str]:
    """Names that fit an axis and are still distinct, as two of one name would share a place.

    >>> unique_labels(["cat", "other", "other"])
    ['cat', 'other', 'other (2)']
    """
    seen: dict[str, None] = {}
    for name in map(truncate_name, names):
        label, count = name, 1
        while label in seen:
            count += 1
            label = f"{name} ({count})"
        seen[label] = None
    return list(seen)


@dataclass(frozen=True, eq=False)
class ConfidenceHistogram:
    """The share of rows between each two edges of confidence."""

    edges: Floats
    source: Floats
    target: Floats


def confidence_histogram(source: Predictions, target: Predictions) -> ConfidenceHistogram:
    """Both distributions of confidence, in equal bins from 1/k to 1."""
    edges = np.linspace(1 / source.k, 1.0, N_CONFIDENCE_BINS + 1)
    shares = [
        # Rounding may put a confidence a hair outside; the last bin includes its upper edge.
        np.histogram(np.clip(rows.confidence, edges[0], edges[-1]), edges)[0] / rows.n
        for rows in (source, target)
    ]
    return ConfidenceHistogram(edges, *shares)


@dataclass(frozen=True)
class ReliabilityBin:
    """Rows of about one confidence: how many, how sure, how often right."""

    n: int
    confidence: float
    accuracy: float
    low: float
    high: float


def reliability_bins(source: Predictions) -> list[ReliabilityBin]:
    """The filled bins of the reliability diagram, with Wilson's interval of the accuracy."""
    found = []
    shares, means, accuracies = bin_reliability(source.confidence, source.correct.astype(float))
    for share, mean, accuracy in zip(shares, means, accuracies, strict=True):
        n = round(share * source.n)
        if n:
            low, high = wilson_interval(float(accuracy) * n, n)
            found.append(ReliabilityBin(n, float(mean), float(accuracy), low, high))
    return found


@dataclass(frozen=True)
class ClassShare:
    """How much of the source and of the target goes to one class."""

    name: str
    source: float
    target: float


def class_shares(source: Predictions, target: Predictions) -> list[ClassShare]:
    """Shares of the predicted classes, the rarest ones lumped where there are many."""
    names = source.class_names or target.class_names or tuple(map(str, range(source.k)))
    shares = [rows.class_counts / rows.n for rows in (source, target)]
    by_size = np.argsort(-(shares[0] + shares[1]), kind="stable")
    kept, rest = np.sort(by_size[:MAX_CLASSES]), by_size[MAX_CLASSES:]
    shown = [names[j] for j in kept] + ([f"other ({len(rest)} classes)"] if len(rest) else [])
    values = [np.append(share[kept], share[rest].sum())[: len(shown)].tolist() for share in shares]
    return [ClassShare(*row) for row in zip(unique_labels(shown), *values, strict=True)]
