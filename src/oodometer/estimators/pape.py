"""PAPE: probabilities calibrated anew for the target. Białek et al., 2024.

A domain classifier says how much like the target every source row is; weighted so, the source
tells how often rows of a confidence are right there; the mean of that over the target is the
estimate.
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
from oodometer.core.stats import (
    bootstrap_counts,
    effective_sample_fraction,
    equal_mass_edges,
    histogram,
)
from oodometer.estimators.importance_weighting import (
    DomainClassifier,
    ImportanceWeighting,
    WeightingSource,
    resample_weights,
    source_weights,
)


@dataclass(frozen=True)
class RecalibrationBins:
    """The source rows that are weighted, edges of confidence between bins, and each row's bin."""

    source: WeightingSource
    edges: Floats
    bin_index: Ints


@dataclass(frozen=True)
class RecalibrationSummary:
    """The domain classifier, and target rows by bin."""

    classifier: DomainClassifier
    counts: Ints


@dataclass(frozen=True)
class PAPE(StreamingEstimator[RecalibrationBins, RecalibrationSummary]):
    """The mean of confidences that were calibrated on the source as weighted towards the target.

    The calibrator has `bins` of equal mass on the source. It looks at features where both sides
    have them, else at the log-probabilities.

    >>> rows = Predictions.from_probs([[0.9, 0.1], [0.3, 0.7], [0.4, 0.6]], labels=[0, 1, 0])
    >>> round(PAPE().estimate(rows, rows).value, 3)
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
    paper: ClassVar[str] = "Białek et al., 2024"
    is_mergeable: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.bins < 1:
            raise InputError(f"bins must be at least 1; got {self.bins}.")

    @property
    def _weighting(self) -> ImportanceWeighting:
        return ImportanceWeighting(self.max_rows)

    def learn(self, source: Predictions) -> RecalibrationBins:
        """The source rows, in bins of equal mass."""
        known, sure = self._weighting.learn(source), self._weighting.select_rows(source).confidence
        edges = equal_mass_edges(sure, self.bins)
        return RecalibrationBins(known, edges, np.searchsorted(edges, sure, side="right"))

    def summarize(self, learned: RecalibrationBins, batch: Predictions) -> RecalibrationSummary:
        """The domain classifier, and how sure the target is."""
        counts = histogram(learned.edges, batch.confidence)
        return RecalibrationSummary(self._weighting.summarize(learned.source, batch), counts)

    def finish(self, learned: RecalibrationBins, total: RecalibrationSummary) -> Estimate:
        """The mean calibrated confidence."""
        weights = source_weights(total.classifier)
        value = _calibrated_accuracy(weights[:, None], learned, total.counts[None])[0]
        return Estimate(float(value), facts={"effective_share": effective_sample_fraction(weights)})

    def resample(
        self,
        learned: RecalibrationBins,
        total: RecalibrationSummary,
        rng: np.random.Generator,
        count: int,
    ) -> Floats:
        """Rows drawn again, the classifier moved by a step, the calibrator made anew."""
        drawn = bootstrap_counts(rng, total.counts, count)
        values = [
            _calibrated_accuracy(weights, learned, drawn[rows])
            for rows, weights in resample_weights(total.classifier, rng, count)
        ]
        return np.concatenate(values)


def _calibrated_accuracy(weights: Floats, learned: RecalibrationBins, counts: Ints) -> Floats:
    """Accuracy by bin of weighted source rows (rows, count), averaged over target counts by bin.

    A bin that has no weight takes the accuracy of all.
    """
    bins = len(learned.edges) + 1
    member = learned.bin_index[:, None] == np.arange(bins)
    mass, right = member.T @ weights, (member & learned.source.correct[:, None]).T @ weights
    overall = right.sum(axis=0) / np.maximum(mass.sum(axis=0), np.finfo(float).tiny)
    rates = np.where(mass > 0, right / np.where(mass > 0, mass, 1.0), overall)
    return np.asarray((counts * rates.T).sum(axis=1) / counts.sum(axis=1))
