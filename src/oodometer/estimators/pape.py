"""Probabilistic adaptive performance estimation (PAPE; Białek et al., 2024).

Source rows are weighted towards the target by a domain classifier; the weighted rows recalibrate the
confidence; the estimate is the mean recalibrated confidence on the target.
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
    """Source rows to weight, inner edges of the confidence bins, and the bin of each row."""

    source: WeightingSource
    edges: Floats
    bin_index: Ints


@dataclass(frozen=True)
class RecalibrationSummary:
    """Domain classifier, and number of target rows per bin."""

    classifier: DomainClassifier
    counts: Ints


@dataclass(frozen=True)
class PAPE(StreamingEstimator[RecalibrationBins, RecalibrationSummary]):
    """Mean confidence, recalibrated on importance-weighted source rows: ``Σ_b share_t(b) acc_w(b)``.

    The domain classifier uses the features if both sides have them, otherwise the
    log-probabilities.

    Parameters
    ----------
    bins : int
        Number of confidence bins, with equally many source rows each.
    max_rows : int
        Maximum number of rows per side for the weights; of more rows every k-th is used.

    Raises
    ------
    InputError
        If `bins` is below 1.

    Examples
    --------
    >>> rows = Predictions.from_probs([[0.9, 0.1], [0.3, 0.7], [0.4, 0.6]], labels=[0, 1, 0])
    >>> round(PAPE().estimate(rows, rows).value, 3)
    0.667
    """

    bins: int = 20
    max_rows: int = 10_000

    name: ClassVar[str] = "pape"
    assumes: ClassVar[str] = (
        "covariate shift: accuracy given x and confidence is unchanged, and the source covers the "
        "target"
    )
    needs: ClassVar[tuple[str, ...]] = ("features or probabilities", "confidence", "source labels")
    paper: ClassVar[str] = "Białek et al., 2024"
    is_mergeable: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.bins < 1:
            raise out_of_range("bins", self.bins, low=1)

    @property
    def _weighting(self) -> ImportanceWeighting:
        return ImportanceWeighting(self.max_rows)

    def learn(self, source: Predictions) -> RecalibrationBins:
        """Return the source rows in bins of equal mass."""
        confidence = self._weighting.select_rows(source).confidence
        edges = equal_mass_edges(confidence, self.bins)
        bin_index = np.searchsorted(edges, confidence, side="right")
        return RecalibrationBins(self._weighting.learn(source), edges, bin_index)

    def summarize(self, learned: RecalibrationBins, batch: Predictions) -> RecalibrationSummary:
        """Fit the domain classifier, and count the target rows per bin."""
        counts = histogram(learned.edges, batch.confidence)
        return RecalibrationSummary(self._weighting.summarize(learned.source, batch), counts)

    def finish(self, learned: RecalibrationBins, total: RecalibrationSummary) -> Estimate:
        """Return the mean recalibrated confidence."""
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
        """Resample rows, update the classifier by one Newton step, and recalibrate."""
        counts = bootstrap_counts(rng, total.counts, count)
        values = [
            _calibrated_accuracy(weights, learned, counts[replicates])
            for replicates, weights in resample_weights(total.classifier, rng, count)
        ]
        return np.concatenate(values)


def _calibrated_accuracy(weights: Floats, learned: RecalibrationBins, counts: Ints) -> Floats:
    """Return the target mean of the weighted source accuracy by bin, for weights (rows, count).

    A bin without weight has the accuracy of all rows.
    """
    in_bin = learned.bin_index[:, None] == np.arange(len(learned.edges) + 1)
    mass = in_bin.T @ weights
    correct_mass = (in_bin & learned.source.correct[:, None]).T @ weights
    overall = correct_mass.sum(axis=0) / np.maximum(mass.sum(axis=0), np.finfo(float).tiny)
    accuracy = np.where(mass > 0, correct_mass / np.where(mass > 0, mass, 1.0), overall)
    return np.asarray((counts * accuracy.T).sum(axis=1) / counts.sum(axis=1))
