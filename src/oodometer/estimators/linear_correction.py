"""Any estimator, corrected by a robust line fitted on labelled domains (ATC §5.1, Table 5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from oodometer.core.predictions import Predictions
from oodometer.core.protocols import Estimator
from oodometer.core.results import Estimate
from oodometer.core.stats import Line, repeated_median_line


@dataclass(frozen=True)
class LinearCorrection:
    """accuracy = slope · estimate + intercept, by Siegel's repeated medians.

    >>> from oodometer.estimators.average_confidence import AverageConfidence
    >>> target = Predictions.from_probs([[0.9, 0.1], [0.3, 0.7]])
    >>> tuned = LinearCorrection(AverageConfidence(), Line(slope=0.5, intercept=0.1))
    >>> tuned.name, tuned.estimate(target, target).value
    ('ac+line', 0.5)
    """

    base: Estimator
    line: Line

    @classmethod
    def fit(
        cls, base: Estimator, source: Predictions, domains: Sequence[Predictions]
    ) -> LinearCorrection:
        """Fit the line on target domains whose labels are known."""
        estimates = [base.estimate(source, domain.without_labels()).value for domain in domains]
        truths = [float(domain.correct.mean()) for domain in domains]
        return cls(base, repeated_median_line(estimates, truths))

    @property
    def name(self) -> str:
        """The base's name, and that a line follows it."""
        return f"{self.base.name}+line"

    @property
    def assumes(self) -> str:
        """What the base assumes matters less than that the line carries over."""
        return "the target lies on the same line as the labelled domains it was fitted on"

    def estimate(self, source: Predictions, target: Predictions) -> Estimate:
        """The base's estimate, moved onto the line."""
        return Estimate(self.line(self.base.estimate(source, target).value))
