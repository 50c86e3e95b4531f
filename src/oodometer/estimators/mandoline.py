"""Importance re-weighting over confidence bins (IM; Mandoline, Chen et al., ICML 2021)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from oodometer.core.array_types import Array, Floats, Ints
from oodometer.core.errors import InputError, out_of_range
from oodometer.core.format import pluralize
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
    """Inner edges of the confidence bins, and numbers of wrong and correct source rows per bin."""

    edges: Floats
    counts: Ints


@dataclass(frozen=True)
class Mandoline(StreamingEstimator[ConfidenceBins, Ints]):
    """Mean source accuracy of the confidence bins, weighted by the bins' shares of target rows.

    The estimate is ``Σ_b share_t(b) acc_s(b)``. A bin with target rows but without source rows gets
    the accuracy of the nearest bin with source rows.

    Parameters
    ----------
    bins : int
        Number of bins.
    binning : {"equal-width", "equal-mass"}
        "equal-width" uses bins of equal width, and "equal-mass" uses bins with about the same
        number of source rows.

    Raises
    ------
    InputError
        If `bins` is below 1 or `binning` is unknown.

    Examples
    --------
    >>> source = Predictions.from_probs([[0.9, 0.1], [0.6, 0.4], [0.6, 0.4]], labels=[0, 0, 1])
    >>> target = Predictions.from_probs([[0.9, 0.1], [0.6, 0.4]])
    >>> Mandoline().estimate(source, target).value
    0.75
    """

    bins: int = 10
    binning: Literal["equal-width", "equal-mass"] = "equal-width"

    name: ClassVar[str] = "im"
    assumes: ClassVar[str] = "the accuracy given the confidence is the same as on the source"
    needs: ClassVar[tuple[str, ...]] = ("confidence", "source labels")
    paper: ClassVar[str] = "Chen et al., ICML 2021"

    def __post_init__(self) -> None:
        if self.bins < 1:
            raise out_of_range("bins", self.bins, low=1)
        if self.binning not in ("equal-width", "equal-mass"):
            raise InputError(
                f"binning must be 'equal-width' or 'equal-mass'; got {self.binning!r}."
            )

    def learn(self, source: Predictions) -> ConfidenceBins:
        """Return the edges of the bins and the numbers of wrong and correct source rows per bin."""
        edges: Floats = np.arange(1, self.bins) / self.bins
        if self.binning == "equal-mass":
            edges = equal_mass_edges(source.confidence, self.bins)
        outcomes = (~source.correct, source.correct)
        counts = [histogram(edges, source.confidence, where=outcome) for outcome in outcomes]
        return ConfidenceBins(edges, np.stack(counts, axis=1))

    def summarize(self, learned: ConfidenceBins, batch: Predictions) -> Ints:
        """Return the number of target rows per bin."""
        return histogram(learned.edges, batch.confidence)

    def finish(self, learned: ConfidenceBins, total: Ints) -> Estimate:
        """Return the mean of the bins' accuracies, weighted by their shares of target rows."""
        n_source = learned.counts.sum(axis=1)
        n_borrowed = int(total[n_source == 0].sum())
        weights = np.divide(total, n_source, out=np.zeros(len(total)), where=n_source > 0)
        facts = {"borrowed_share": n_borrowed / total.sum()}
        if weights.any():
            facts["effective_share"] = effective_sample_fraction(np.repeat(weights, n_source))
        notes: tuple[str, ...] = ()
        if n_borrowed:
            notes = (f"bins without source rows have {pluralize(n_borrowed, 'target row')}",)
        value = _weighted_accuracy(learned.counts[None], total[None])[0]
        return Estimate(value, notes=notes, facts=facts)

    def resample(
        self, learned: ConfidenceBins, total: Ints, rng: np.random.Generator, count: int
    ) -> Floats:
        """Resample the histograms of source and target; the edges are not changed."""
        return _weighted_accuracy(
            bootstrap_counts(rng, learned.counts, count), bootstrap_counts(rng, total, count)
        )

    def row_values(self, learned: ConfidenceBins, total: Ints, rows: Predictions) -> Floats:
        """Return the source accuracy of each row's bin."""
        one_row_per_bin = np.eye(len(learned.edges) + 1, dtype=np.int64)
        counts = np.broadcast_to(learned.counts, (len(one_row_per_bin), *learned.counts.shape))
        accuracy = _weighted_accuracy(counts, one_row_per_bin)
        edges = learned.edges.astype(rows.confidence.dtype)
        return np.asarray(accuracy[np.searchsorted(edges, rows.confidence, side="right")])


def _weighted_accuracy(source: Ints, target: Ints) -> Floats:
    """Return Σ_b share_t(b) · acc_s(b) per replicate; empty bins use the nearest bin's accuracy."""
    n_source = source.sum(axis=2)
    accuracy = source[:, :, 1] / np.maximum(n_source, 1)
    accuracy = np.take_along_axis(accuracy, _nearest_filled(n_source > 0), axis=1)
    shares = target / target.sum(axis=1, keepdims=True)
    return np.asarray((shares * accuracy).sum(axis=1))


def _nearest_filled(filled: Array) -> Ints:
    """Return, for every bin, the nearest non-empty bin; the lower one if two are equally near."""
    bins = np.arange(filled.shape[1])
    distance = np.abs(bins[:, None] - bins).astype(np.float64)
    blocked = np.where(filled[:, None, :], distance, np.inf)
    return np.asarray(blocked.argmin(axis=2))
