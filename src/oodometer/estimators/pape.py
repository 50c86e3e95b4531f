"""PAPE: probabilities calibrated anew for the target. Kivimäki et al., 2024.

A domain classifier says how much like the target every source row is; weighted so, the source
tells how often rows of a confidence are right there; the mean of that over the target is the
estimate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from oodometer.core.errors import InputError
from oodometer.core.predictions import Predictions
from oodometer.core.protocols import Estimate, Staged
from oodometer.core.softmax_kernels import Floats, Ints
from oodometer.core.stats import counts_between, draw_counts, effective_share, equal_mass_edges
from oodometer.estimators.importance_weighting import (
    ImportanceWeighting,
    Known,
    Separation,
    redrawn_weights,
    weights_of,
)


@dataclass(frozen=True)
class Bins:
    """The source rows that are weighted, edges of confidence between bins, and each row's bin."""

    known: Known
    edges: Floats
    of: Ints


@dataclass(frozen=True)
class Compared:
    """The domain classifier, and target rows by bin."""

    separation: Separation
    counts: Ints


@dataclass(frozen=True)
class RecalibratedConfidence(Staged[Bins, Compared]):
    """The mean of confidences that were calibrated on the source as weighted towards the target.

    The calibrator has `bins` of equal mass on the source. It looks at features where both sides
    have them, else at the log-probabilities.

    >>> rows = Predictions.from_probs([[0.9, 0.1], [0.3, 0.7], [0.4, 0.6]], labels=[0, 1, 0])
    >>> round(RecalibratedConfidence().estimate(rows, rows).value, 3)
    0.667
    """

    bins: int = 20
    max_rows: int = 10_000

    name: ClassVar[str] = "pape"
    assumes: ClassVar[str] = (
        "like inputs of like confidence are right as often as on the source, which covers the "
        "target (covariate shift)"
    )
    needs: ClassVar[tuple[str, ...]] = ("features or probabilities", "confidence", "source labels")
    paper: ClassVar[str] = "Kivimäki et al., 2024"
    streams: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.bins < 1:
            raise InputError(f"bins must be at least 1; got {self.bins}.")

    @property
    def _weighting(self) -> ImportanceWeighting:
        return ImportanceWeighting(self.max_rows)

    def learn(self, source: Predictions) -> Bins:
        """The source rows, in bins of equal mass."""
        known, sure = self._weighting.learn(source), self._weighting.some(source).confidence
        edges = equal_mass_edges(sure, self.bins)
        return Bins(known, edges, np.searchsorted(edges, sure, side="right"))

    def summarize(self, learned: Bins, batch: Predictions) -> Compared:
        """The domain classifier, and how sure the target is."""
        counts = counts_between(learned.edges, batch.confidence)
        return Compared(self._weighting.summarize(learned.known, batch), counts)

    def finish(self, learned: Bins, total: Compared) -> Estimate:
        """The mean calibrated confidence."""
        weights = weights_of(total.separation)
        value = _calibrated(weights[:, None], learned, total.counts[None])[0]
        return Estimate(float(value), facts={"effective_share": effective_share(weights)})

    def resample(
        self, learned: Bins, total: Compared, rng: np.random.Generator, count: int
    ) -> Floats:
        """Rows drawn again, the classifier moved by a step, the calibrator made anew."""
        drawn = draw_counts(rng, total.counts, count)
        values = [
            _calibrated(weights, learned, drawn[rows])
            for rows, weights in redrawn_weights(total.separation, rng, count)
        ]
        return np.concatenate(values)


def _calibrated(weights: Floats, learned: Bins, counts: Ints) -> Floats:
    """Accuracy by bin of weighted source rows (rows, count), averaged over target counts by bin.

    A bin that has no weight takes the accuracy of all.
    """
    bins = len(learned.edges) + 1
    member = learned.of[:, None] == np.arange(bins)
    mass, right = member.T @ weights, (member & learned.known.correct[:, None]).T @ weights
    overall = right.sum(axis=0) / np.maximum(mass.sum(axis=0), np.finfo(float).tiny)
    rates = np.where(mass > 0, right / np.where(mass > 0, mass, 1.0), overall)
    return np.asarray((counts * rates.T).sum(axis=1) / counts.sum(axis=1))
