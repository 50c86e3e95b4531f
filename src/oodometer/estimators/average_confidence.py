"""Average confidence (AC; Hendrycks & Gimpel, ICLR 2017), a baseline in Garg et al., ICLR 2022."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from oodometer.core.array_types import Floats
from oodometer.core.predictions import Predictions
from oodometer.core.protocols import StreamingEstimator
from oodometer.core.results import Estimate
from oodometer.core.stats import bootstrap_means, moments


@dataclass(frozen=True)
class AverageConfidence(StreamingEstimator[None, Floats]):
    """Mean confidence on the target, ``mean_t max_j p_j``.

    Examples
    --------
    >>> target = Predictions.from_probs([[0.9, 0.1], [0.3, 0.7]])
    >>> AverageConfidence().estimate(target, target).value
    0.8
    """

    name: ClassVar[str] = "ac"
    assumes: ClassVar[str] = "the model is calibrated on the target"
    needs: ClassVar[tuple[str, ...]] = ("confidence",)
    paper: ClassVar[str] = "Hendrycks & Gimpel, ICLR 2017"
    assumes_calibrated: ClassVar[bool] = True
    reads_probabilities: ClassVar[bool] = True

    def learn(self, source: Predictions) -> None:
        """Do nothing, because the estimate depends on the target only."""

    def summarize(self, learned: None, batch: Predictions) -> Floats:
        """Return count, sum and sum of squares of the confidence."""
        return moments(batch.confidence)

    def finish(self, learned: None, total: Floats) -> Estimate:
        """Return the mean confidence."""
        return Estimate(total[1] / total[0])

    def resample(
        self, learned: None, total: Floats, rng: np.random.Generator, count: int
    ) -> Floats:
        """Return the mean confidences of resampled target rows."""
        return bootstrap_means(rng, total, count)

    def row_values(self, learned: None, total: Floats, rows: Predictions) -> Floats:
        """Return the confidences."""
        return rows.confidence
