"""IM, importance re-weighting over bins of confidence. Chen et al. (Mandoline), ICML 2021."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from oodometer.core.array_types import Array, Floats, Ints
from oodometer.core.errors import InputError
from oodometer.core.predictions import Predictions
from oodometer.core.protocols import StreamingEstimator
from oodometer.core.results import Estimate
from oodometer.core.stats import (
    bootstrap_counts,
    effective_sample_fraction,
    equal_mass_edges,
    histogram,
)


@dataclass(frozen=True)
class ConfidenceBins:
    """Inner edges of the bins, and the source counted in them: (bins, [wrong, right])."""

    edges: Floats
    counts: Ints


@dataclass(frozen=True)
class Mandoline(StreamingEstimator[ConfidenceBins, Ints]):
    """The source's accuracy in each bin of confidence, weighted by the target's share of the bin.

    A bin with target rows but no source row takes the accuracy of the nearest one that has some.

    >>> source = Predictions.from_probs([[0.9, 0.1], [0.6, 0.4], [0.6, 0.4]], labels=[0, 0, 1])
    >>> target = Predictions.from_probs([[0.9, 0.1], [0.6, 0.4]])
    >>> Mandoline().estimate(source, target).value
    0.75
    """

    bins: int = 10
    binning: Literal["equal-width", "equal-mass"] = "equal-width"

    name: ClassVar[str] = "im"
    assumes: ClassVar[str] = "rows of like confidence are right as often as on the source"
    needs: ClassVar[tuple[str, ...]] = ("confidence", "source labels")
    paper: ClassVar[str] = "Chen et al., ICML 2021"

    def __post_init__(self) -> None:
        if self.bins < 1:
            raise InputError(f"bins must be at least 1; got {self.bins}.")
        if self.binning not in ("equal-width", "equal-mass"):
            raise InputError(
                f"binning must be 'equal-width' or 'equal-mass'; got {self.binning!r}."
            )

    def learn(self, source: Predictions) -> ConfidenceBins:
        """The edges and the source's counts between them."""
        inner: Floats = np.arange(1, self.bins) / self.bins
        if self.binning == "equal-mass":
            inner = equal_mass_edges(source.confidence, self.bins)
        sides = (~source.correct, source.correct)
        counts = [histogram(inner, source.confidence, where=side) for side in sides]
        return ConfidenceBins(inner, np.stack(counts, axis=1))

    def summarize(self, learned: ConfidenceBins, batch: Predictions) -> Ints:
        """The target counted in the bins."""
        return histogram(learned.edges, batch.confidence)

    def finish(self, learned: ConfidenceBins, total: Ints) -> Estimate:
        """The weighted mean of the bins' accuracies."""
        in_source = learned.counts.sum(axis=1)
        alone = int(total[in_source == 0].sum())
        weights = np.divide(total, in_source, out=np.zeros(len(total)), where=in_source > 0)
        facts = {"borrowed_share": alone / total.sum()}
        if weights.any():
            facts["effective_share"] = effective_sample_fraction(np.repeat(weights, in_source))
        notes = (f"{alone} target rows lie in bins that the source has no row in",) if alone else ()
        value = _weighted_accuracy(learned.counts[None], total[None])[0]
        return Estimate(value, notes=notes, facts=facts)

    def resample(
        self, learned: ConfidenceBins, total: Ints, rng: np.random.Generator, count: int
    ) -> Floats:
        """Both histograms drawn again; the edges stay."""
        return _weighted_accuracy(
            bootstrap_counts(rng, learned.counts, count), bootstrap_counts(rng, total, count)
        )


def _weighted_accuracy(source: Ints, target: Ints) -> Floats:
    """Σ_b share_t(b) · accuracy_s(b) for many histograms at once; empty bins take the nearest."""
    in_bin = source.sum(axis=2)
    accuracy = source[:, :, 1] / np.maximum(in_bin, 1)
    accuracy = np.take_along_axis(accuracy, _nearest_filled(in_bin > 0), axis=1)
    shares = target / target.sum(axis=1, keepdims=True)
    return np.asarray((shares * accuracy).sum(axis=1))


def _nearest_filled(filled: Array) -> Ints:
    """For every bin the nearest bin that is not empty, the lower one on a draw."""
    bins = np.arange(filled.shape[1])
    distance = np.abs(bins[:, None] - bins).astype(np.float64)
    blocked = np.where(filled[:, None, :], distance, np.inf)
    return np.asarray(blocked.argmin(axis=2))
