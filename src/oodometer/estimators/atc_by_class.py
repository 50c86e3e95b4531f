"""ATC with a threshold for each predicted class.

Classes that the model knows well and classes that it is too sure of no longer share one threshold.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from oodometer.core.array_types import Floats, Ints
from oodometer.core.errors import InputError
from oodometer.core.predictions import Predictions
from oodometer.core.protocols import StreamingEstimator
from oodometer.core.results import Estimate
from oodometer.core.stats import bootstrap_counts, histogram
from oodometer.estimators.atc import Threshold, fit_threshold, resample_share_above, share_above

# Edges a class; there may be a thousand classes.
MAX_EDGES_PER_CLASS = 128


@dataclass(frozen=True)
class ClassThresholds:
    """Thresholds: the first is of all rows, for classes with too few; `index_by_class` says whose is whose."""

    thresholds: tuple[Threshold, ...]
    index_by_class: Ints

    @property
    def count_offsets(self) -> Ints:
        """Where the counts of each threshold begin in a summary."""
        return np.cumsum([0, *(len(one.edges) + 1 for one in self.thresholds)])

    @property
    def outer_edges(self) -> tuple[Floats, Floats]:
        """The lowest and the highest edge of each threshold."""
        low, high = (np.array([one.edges[end] for one in self.thresholds]) for end in (0, -1))
        return low, high


@dataclass(frozen=True)
class ATCByClass(StreamingEstimator[ClassThresholds, Ints]):
    """The share of the target whose confidence reaches the threshold of its predicted class.

    A class that is predicted for fewer than `fewest` source rows takes the threshold of all rows.

    >>> source = Predictions.from_probs([[0.9, 0.1], [0.6, 0.4], [0.2, 0.8]], labels=[0, 1, 1])
    >>> target = Predictions.from_probs([[0.7, 0.3], [0.1, 0.9]])
    >>> ATCByClass(fewest=1).estimate(source, target).value
    0.5
    """

    fewest: int = 20

    name: ClassVar[str] = "atc-class"
    assumes: ClassVar[str] = (
        "in each predicted class, rows wrongly above its threshold balance rows wrongly below it, "
        "as on the source"
    )
    needs: ClassVar[tuple[str, ...]] = ("confidence", "classes", "source labels")
    paper: ClassVar[str] = "after Garg et al., ICLR 2022"

    def __post_init__(self) -> None:
        if self.fewest < 1:
            raise InputError(f"fewest must be at least 1; got {self.fewest}.")

    def learn(self, source: Predictions) -> ClassThresholds:
        """A threshold for all rows, and one for each class with enough of them."""
        scores, correct = source.confidence, source.correct
        cuts, of = [fit_threshold(scores, correct)], np.zeros(source.k, dtype=np.int64)
        for one in np.flatnonzero(source.class_counts >= self.fewest):
            of[one] = len(cuts)
            rows = source.classes == one
            cuts.append(fit_threshold(scores[rows], correct[rows], MAX_EDGES_PER_CLASS))
        return ClassThresholds(tuple(cuts), of)

    def summarize(self, learned: ClassThresholds, batch: Predictions) -> Ints:
        """Target rows counted between the edges of their threshold, one threshold after another."""
        scores, classes = batch.confidence, batch.classes
        low, high = learned.outer_edges
        below = np.bincount(np.compress(scores < low.min(), classes), minlength=batch.k)
        # What is sorted by classes is only what may lie between the edges of its class.
        middle = np.flatnonzero((scores >= low.min()) & (scores < high.max()))
        scores, classes = scores[middle], classes[middle].astype(np.intp)
        above = batch.class_counts - below - np.bincount(classes, minlength=batch.k)
        whose = learned.index_by_class[classes]
        order = np.argsort(whose.astype(np.uint16), kind="stable")  # of 16 bits: no comparisons
        ends = np.searchsorted(whose[order], np.arange(len(learned.thresholds) + 1))
        scores = scores[order]
        counts = []
        for j, one in enumerate(learned.thresholds):
            counts.append(histogram(one.edges, scores[ends[j] : ends[j + 1]]))
            counts[-1][0] += below[learned.index_by_class == j].sum()
            counts[-1][-1] += above[learned.index_by_class == j].sum()
        return np.concatenate(counts)

    def finish(self, learned: ClassThresholds, total: Ints) -> Estimate:
        """The share of rows at or above their threshold."""
        parts = _nonempty_thresholds(learned, total)
        right = sum(share_above(one, part).value * part.sum() for one, part in parts)
        own = len(learned.thresholds) - 1
        return Estimate(right / total.sum(), facts={"classes_with_a_threshold": own})

    def resample(
        self, learned: ClassThresholds, total: Ints, rng: np.random.Generator, count: int
    ) -> Floats:
        """How many rows fall to each threshold, and the shares above it, drawn again."""
        parts = _nonempty_thresholds(learned, total)
        sizes = bootstrap_counts(rng, np.array([part.sum() for _, part in parts]), count)
        shares = [resample_share_above(one, part, rng, count) for one, part in parts]
        return np.asarray((sizes * np.stack(shares, axis=1)).sum(axis=1) / total.sum())


def _nonempty_thresholds(learned: ClassThresholds, total: Ints) -> list[tuple[Threshold, Ints]]:
    """Every threshold that has target rows, with their counts."""
    found = zip(learned.thresholds, np.split(total, learned.count_offsets[1:-1]), strict=True)
    return [(one, part) for one, part in found if part.sum()]
