"""Average thresholded confidence (ATC) per predicted class (after Garg et al., ICLR 2022).

A class for which the model is overconfident gets a higher threshold than other classes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from oodometer.core.array_types import Floats, Ints
from oodometer.core.errors import out_of_range
from oodometer.core.predictions import Predictions
from oodometer.core.protocols import StreamingEstimator
from oodometer.core.results import Estimate
from oodometer.core.stats import bootstrap_counts, histogram
from oodometer.estimators.atc import (
    Threshold,
    fit_threshold,
    resample_share_above,
    share_above,
    threshold_bias,
)

# Approximate maximum number of histogram edges per class. It is lower than for a single threshold,
# because there may be 1000 classes.
MAX_EDGES_PER_CLASS = 128


@dataclass(frozen=True)
class ClassThresholds:
    """Threshold of all rows, followed by the thresholds of classes.

    `index_by_class` has the index of each class's threshold in `thresholds`. Classes with too few
    source rows use the threshold of all rows, which has the index 0.
    """

    thresholds: tuple[Threshold, ...]
    index_by_class: Ints

    @property
    def count_offsets(self) -> Ints:
        """Return the positions at which the counts of each threshold begin in a summary."""
        return np.cumsum([0, *(len(threshold.edges) + 1 for threshold in self.thresholds)])

    @property
    def outer_edges(self) -> tuple[Floats, Floats]:
        """Return the lowest and the highest histogram edge of each threshold."""
        low = np.array([threshold.edges[0] for threshold in self.thresholds])
        high = np.array([threshold.edges[-1] for threshold in self.thresholds])
        return low, high


@dataclass(frozen=True)
class ATCByClass(StreamingEstimator[ClassThresholds, Ints]):
    """Share of target rows whose confidence reaches the threshold of their predicted class.

    With fewer than 100 rows per class on average, there is no confidence interval, because the
    thresholds of classes with few rows have a larger error than the bootstrap shows.

    Parameters
    ----------
    fewest : int
        A class has its own threshold if it is predicted for at least this many source rows. All
        other classes use the threshold of all rows.

    Raises
    ------
    InputError
        If `fewest` is below 1.

    Examples
    --------
    >>> source = Predictions.from_probs([[0.9, 0.1], [0.6, 0.4], [0.2, 0.8]], labels=[0, 1, 1])
    >>> target = Predictions.from_probs([[0.7, 0.3], [0.1, 0.9]])
    >>> ATCByClass(fewest=1).estimate(source, target).value
    0.5
    """

    fewest: int = 20

    name: ClassVar[str] = "atc-class"
    assumes: ClassVar[str] = (
        "for each predicted class: on the target, as on the source, the number of errors above the "
        "threshold equals the number of correct rows below it"
    )
    needs: ClassVar[tuple[str, ...]] = ("confidence", "classes", "source labels")
    paper: ClassVar[str] = "after Garg et al., ICLR 2022"
    min_rows_per_class: ClassVar[int] = 100

    def __post_init__(self) -> None:
        if self.fewest < 1:
            raise out_of_range("fewest", self.fewest, low=1)

    def learn(self, source: Predictions) -> ClassThresholds:
        """Fit a threshold for all rows, and one for each class that has enough source rows."""
        scores, correct = source.confidence, source.correct
        thresholds = [fit_threshold(scores, correct)]
        index_by_class = np.zeros(source.k, dtype=np.int64)
        for class_ in np.flatnonzero(source.class_counts >= self.fewest):
            index_by_class[class_] = len(thresholds)
            rows = source.classes == class_
            thresholds.append(fit_threshold(scores[rows], correct[rows], MAX_EDGES_PER_CLASS))
        return ClassThresholds(tuple(thresholds), index_by_class)

    def summarize(self, learned: ClassThresholds, batch: Predictions) -> Ints:
        """Return one histogram of confidences per threshold, all concatenated.

        A row is counted in the histogram of the threshold that its predicted class uses.
        """
        scores, classes = batch.confidence, batch.classes
        low, high = learned.outer_edges
        below = np.bincount(np.compress(scores < low.min(), classes), minlength=batch.k)
        # Rows below all edges or above all edges are only counted. The rows between are sorted by
        # threshold.
        middle = np.flatnonzero((scores >= low.min()) & (scores < high.max()))
        scores, classes = scores[middle], classes[middle].astype(np.intp)
        above = batch.class_counts - below - np.bincount(classes, minlength=batch.k)
        index = learned.index_by_class[classes]
        # NumPy sorts 16-bit keys by radix sort, which is faster than comparing them.
        order = np.argsort(index.astype(np.uint16), kind="stable")
        ends = np.searchsorted(index[order], np.arange(len(learned.thresholds) + 1))
        scores = scores[order]
        histograms = []
        for j, threshold in enumerate(learned.thresholds):
            counts = histogram(threshold.edges, scores[ends[j] : ends[j + 1]])
            counts[0] += below[learned.index_by_class == j].sum()
            counts[-1] += above[learned.index_by_class == j].sum()
            histograms.append(counts)
        return np.concatenate(histograms)

    def finish(self, learned: ClassThresholds, total: Ints) -> Estimate:
        """Return the share of rows at or above the threshold of their predicted class."""
        n_above = sum(
            share_above(threshold, counts).value * counts.sum()
            for threshold, counts in _nonempty_thresholds(learned, total)
        )
        facts = {"classes_with_a_threshold": len(learned.thresholds) - 1}
        return Estimate(n_above / total.sum(), facts=facts)

    def resample(
        self, learned: ClassThresholds, total: Ints, rng: np.random.Generator, count: int
    ) -> Floats:
        """Resample the number of rows per threshold, and the share of rows above each threshold."""
        parts = _nonempty_thresholds(learned, total)
        sizes = bootstrap_counts(rng, np.array([counts.sum() for _, counts in parts]), count)
        shares = [
            resample_share_above(threshold, counts, rng, count) for threshold, counts in parts
        ]
        return np.asarray((sizes * np.stack(shares, axis=1)).sum(axis=1) / total.sum())

    def bias(self, learned: ClassThresholds, total: Ints, replicates: Floats) -> float:
        """Return the expected error of the thresholds, about one source row each."""
        return float(
            sum(
                threshold_bias(threshold) * counts.sum() / total.sum()
                for threshold, counts in _nonempty_thresholds(learned, total)
            )
        )

    def row_values(self, learned: ClassThresholds, total: Ints, rows: Predictions) -> Floats:
        """Return 1 for rows at or above the threshold of their predicted class, 0 for the others."""
        thresholds = np.array([threshold.value for threshold in learned.thresholds])
        required = thresholds[learned.index_by_class[rows.classes]]
        return (rows.confidence >= required).astype(np.float64)


def _nonempty_thresholds(learned: ClassThresholds, total: Ints) -> list[tuple[Threshold, Ints]]:
    """Return the thresholds that apply to at least one target row, each with its histogram."""
    counts = np.split(total, learned.count_offsets[1:-1])
    pairs = zip(learned.thresholds, counts, strict=True)
    return [(threshold, part) for threshold, part in pairs if part.sum()]
