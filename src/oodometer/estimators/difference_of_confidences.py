"""Difference of confidences (DOC; Guillory et al., ICCV 2021)."""

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
class DifferenceOfConfidences(StreamingEstimator[Floats, Floats]):
    """Source accuracy minus the drop in mean confidence, ``acc_s + mean_t conf − mean_s conf``.

    Examples
    --------
    >>> source = Predictions.from_probs([[0.9, 0.1], [0.3, 0.7]], labels=[0, 1])
    >>> target = Predictions.from_probs([[0.5, 0.5], [0.3, 0.7]])
    >>> round(DifferenceOfConfidences().estimate(source, target).value, 3)
    0.8
    """

    name: ClassVar[str] = "doc"
    assumes: ClassVar[str] = "accuracy falls by as much as the mean confidence"
    needs: ClassVar[tuple[str, ...]] = ("confidence", "source labels")
    paper: ClassVar[str] = "Guillory et al., ICCV 2021"

    def learn(self, source: Predictions) -> Floats:
        """Return count, sum and sum of squares of (correctness − confidence) on the source."""
        return moments(source.correct - source.confidence.astype(np.float64))

    def summarize(self, learned: Floats, batch: Predictions) -> Floats:
        """Return count, sum and sum of squares of the confidence."""
        return moments(batch.confidence)

    def finish(self, learned: Floats, total: Floats) -> Estimate:
        """Return the target's mean confidence plus (accuracy − mean confidence) of the source."""
        return Estimate(learned[1] / learned[0] + total[1] / total[0])

    def resample(
        self, learned: Floats, total: Floats, rng: np.random.Generator, count: int
    ) -> Floats:
        """Return the sum of the source term and the target term, each over resampled rows."""
        return bootstrap_means(rng, learned, count) + bootstrap_means(rng, total, count)

    def row_values(self, learned: Floats, total: Floats, rows: Predictions) -> Floats:
        """Return the confidences."""
        return rows.confidence
