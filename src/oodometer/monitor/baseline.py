"""Baseline of a monitored stream: the level m0 below which the mean score must not fall.

m0 is the lower (1 − α/2) confidence bound of the source's mean score, minus the margin, and the stream
is tested at α/2, because the source is a sample too. Without the bound, a source of 500 rows would
give many times more false alarms than promised.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from oodometer.core.array_types import Bools, Floats
from oodometer.core.errors import InputError, out_of_range
from oodometer.monitor.e_detector import DetectorForm, DetectorSettings

MIN_SOURCE_ROWS = 30


@dataclass(frozen=True, kw_only=True)
class Baseline:
    """Level of one stream, fixed when the monitor is created.

    Parameters
    ----------
    n_source : int
        Number of source rows.
    source_mean : float
        Mean score of the source.
    source_bound : float
        Lower confidence bound of the mean score of the source distribution.
    margin : float
        Fall of the mean score that is tolerated.
    alpha : float
        Probability of ever raising a false alarm, half for the source and half for the stream.
    row_variance : float
        Variance of the score of a row at the level.
    source_accuracy : float
        Accuracy on the source rows.

    Examples
    --------
    >>> scores = np.array([1.0] * 425 + [0.0] * 75)
    >>> baseline = Baseline.fit(scores, scores > 0, margin=0.01, alpha=0.01)
    >>> round(100 * baseline.cost, 1), round(baseline.level, 3)
    (4.1, 0.799)
    """

    n_source: int
    source_mean: float
    source_bound: float
    margin: float
    alpha: float
    row_variance: float
    source_accuracy: float

    @classmethod
    def fit(cls, scores: Floats, correct: Bools, *, margin: float, alpha: float) -> Baseline:
        """Return the baseline of source rows with a watched score.

        Raises
        ------
        InputError
            If there are too few rows, or the level is not above 0.
        """
        if len(scores) < MIN_SOURCE_ROWS:
            raise InputError(
                f"The source has {len(scores)} rows; a monitor needs at least {MIN_SOURCE_ROWS}."
            )
        if not 0 <= margin < 1:
            raise out_of_range("alarm_margin", margin, low=0, below=1)
        if not 0 < alpha < 1:
            raise out_of_range("false_alarms", alpha, above=0, below=1)
        mean, deviation = float(scores.mean()), float(scores.std(ddof=1))
        z = NormalDist().inv_cdf(1 - alpha / 2)
        bound = mean - z * deviation / math.sqrt(len(scores))
        level = bound - margin
        if level <= 0:
            raise InputError(
                f"The mean score of the source is {mean:.3f}; minus its error and the margin, the "
                f"level is {level:.3f}, and must be above 0. Use a larger source or a smaller margin."
            )
        # Scores of 0 or 1 have the binomial variance at the level, which exceeds that of the source.
        is_indicator = bool(np.isin(scores, (0.0, 1.0)).all())
        return cls(
            n_source=len(scores),
            source_mean=mean,
            source_bound=bound,
            margin=margin,
            alpha=alpha,
            row_variance=level * (1 - level) if is_indicator else deviation**2,
            source_accuracy=float(np.mean(correct)),
        )

    @property
    def level(self) -> float:
        """Return m0."""
        return self.source_bound - self.margin

    @property
    def cost(self) -> float:
        """Return how much the level is lower because the source is finite."""
        return self.source_mean - self.source_bound

    def detector(self, form: DetectorForm) -> DetectorSettings:
        """Return the settings of the detector of the stream."""
        return DetectorSettings(
            level=self.level, alpha=self.alpha / 2, form=form, row_variance=self.row_variance
        )
