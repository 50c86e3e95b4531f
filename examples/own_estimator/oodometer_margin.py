"""An estimator from another package: ATC with the margin between the two likeliest classes."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from oodometer import Estimate, Predictions


@dataclass(frozen=True)
class AverageThresholdedMargin:
    """The share of the target whose margin p₁ − p₂ reaches the source's threshold.

    As many source rows lie below the threshold as the source has errors.
    """

    name: ClassVar[str] = "atc-margin"
    assumes: ClassVar[str] = "rows above the threshold are right as often as on the source"
    needs: ClassVar[tuple[str, ...]] = ("probabilities", "source labels")
    paper: ClassVar[str] = "after Garg et al., ICLR 2022"

    def estimate(self, source: Predictions, target: Predictions) -> Estimate:
        """The accuracy on the target."""
        margins = np.sort(_margins(source))
        errors = int(source.n - np.count_nonzero(source.correct))
        threshold = margins[errors] if errors < source.n else np.inf
        return Estimate(
            float(np.mean(_margins(target) >= threshold)), facts={"source_errors": errors}
        )


def _margins(rows: Predictions) -> np.ndarray:
    """How far the likeliest class is before the next."""
    ordered = np.sort(rows.probs, axis=1)
    return ordered[:, -1] - ordered[:, -2]
