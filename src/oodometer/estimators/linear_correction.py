"""Linear correction of an estimator, fitted on labelled domains (Garg et al., ICLR 2022, §5.1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from oodometer.core.predictions import Predictions
from oodometer.core.protocols import Estimator
from oodometer.core.results import Estimate
from oodometer.core.stats import Line, repeated_median_line


@dataclass(frozen=True)
class LinearCorrection:
    """Estimator that is corrected by a line, ``accuracy = slope · estimate + intercept``.

    `fit` fits the line to labelled domains by Siegel's repeated medians, a method that is robust to
    outliers.

    Parameters
    ----------
    base : Estimator
        Estimator to correct.
    line : Line
        Slope and intercept.

    Examples
    --------
    >>> from oodometer.estimators.average_confidence import AverageConfidence
    >>> target = Predictions.from_probs([[0.9, 0.1], [0.3, 0.7]])
    >>> corrected = LinearCorrection(AverageConfidence(), Line(slope=0.5, intercept=0.1))
    >>> corrected.name, corrected.estimate(target, target).value
    ('ac+line', 0.5)
    """

    base: Estimator
    line: Line

    assumes: ClassVar[str] = (
        "estimate and accuracy on the target lie on the line fitted to the labelled domains"
    )

    @classmethod
    def fit(
        cls, base: Estimator, source: Predictions, domains: Sequence[Predictions]
    ) -> LinearCorrection:
        """Fit the line to the estimates and the true accuracies on labelled domains."""
        estimates = [base.estimate(source, domain.without_labels()).value for domain in domains]
        accuracies = [float(domain.correct.mean()) for domain in domains]
        return cls(base, repeated_median_line(estimates, accuracies))

    @property
    def name(self) -> str:
        return f"{self.base.name}+line"

    def estimate(self, source: Predictions, target: Predictions) -> Estimate:
        """Return the corrected estimate of the base estimator."""
        return Estimate(self.line(self.base.estimate(source, target).value))
