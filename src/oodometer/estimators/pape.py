"""Mean confidence, recalibrated with importance weights towards the target (PAPE; Białek et al.).

A domain classifier gives higher weights to source rows that resemble target rows. The confidence is
then recalibrated on the weighted source rows. The estimate is the mean recalibrated confidence on
the target.
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
    project_on_target,
    resample_weights,
    source_weights,
)


@dataclass(frozen=True)
class RecalibrationBins:
    """Weighted source rows, the confidence bin of each row, and the inner edges of the bins."""

    source: WeightingSource
    edges: Floats
    bin_index: Ints


@dataclass(frozen=True)
class RecalibrationSummary:
    """Domain classifier, and number of target rows per confidence bin."""

    classifier: DomainClassifier
    counts: Ints


@dataclass(frozen=True)
class PAPE(StreamingEstimator[RecalibrationBins, RecalibrationSummary]):
    """Mean confidence on the target, recalibrated on importance-weighted source rows.

    The estimate is ``Σ_b share_t(b) acc_w(b)``: the share of target rows in each confidence bin b
    times the weighted accuracy of the source rows in the bin. The domain classifier, which gives
    the weights, uses features if source and target have them, otherwise log-probabilities.

    Parameters
    ----------
    bins : int
        Number of confidence bins. Each bin has about the same number of source rows.
    max_rows : int
        Maximum number of source rows and of target rows for the weights. If there are more, every
        k-th row is used.

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
    reads_probabilities: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.bins < 1:
            raise out_of_range("bins", self.bins, low=1)

    @property
    def _weighting(self) -> ImportanceWeighting:
        return ImportanceWeighting(self.max_rows)

    def learn(self, source: Predictions) -> RecalibrationBins:
        """Divide the source rows into confidence bins with about the same number of rows each."""
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
        """Resample rows, update the classifier by one Newton step, and recalibrate again."""
        counts = bootstrap_counts(rng, total.counts, count)
        values = [
            _calibrated_accuracy(weights, learned, counts[replicates])
            for replicates, weights in resample_weights(total.classifier, rng, count)
        ]
        return np.concatenate(values)

    def row_values(
        self, learned: RecalibrationBins, total: RecalibrationSummary, rows: Predictions
    ) -> Floats | None:
        """Return the weighted accuracy of each row's bin, plus the regression of the residuals."""
        weights = source_weights(total.classifier)[:, None]
        counts = np.eye(len(learned.edges) + 1, dtype=np.int64)
        accuracy = np.array(
            [_calibrated_accuracy(weights, learned, row[None])[0] for row in counts]
        )
        residuals = learned.source.correct - accuracy[learned.bin_index]
        projected = project_on_target(total.classifier, residuals)
        if len(projected) != rows.n:
            return None
        edges = learned.edges.astype(rows.confidence.dtype)
        return accuracy[np.searchsorted(edges, rows.confidence, side="right")] + projected


def _calibrated_accuracy(weights: Floats, learned: RecalibrationBins, counts: Ints) -> Floats:
    """Return Σ_b share_t(b) acc_w(b) for each column of `weights`, which are (rows, count).

    A bin in which all weights are 0 gets the weighted accuracy of all rows.
    """
    in_bin = learned.bin_index[:, None] == np.arange(len(learned.edges) + 1)
    mass = in_bin.T @ weights
    correct_mass = (in_bin & learned.source.correct[:, None]).T @ weights
    overall = correct_mass.sum(axis=0) / np.maximum(mass.sum(axis=0), np.finfo(float).tiny)
    accuracy = np.where(mass > 0, correct_mass / np.where(mass > 0, mass, 1.0), overall)
    return np.asarray((counts * accuracy.T).sum(axis=1) / counts.sum(axis=1))
