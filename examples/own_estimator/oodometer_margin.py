"""An estimator in a package of its own: ATC on the margin between the two most likely classes."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from oodometer import Estimate, Predictions


@dataclass(frozen=True)
class AverageThresholdedMargin:
    """Share of target rows whose margin p₁ − p₂ reaches a threshold fitted on the source.

    The number of source rows below the threshold equals the number of source errors.
    """

    name: ClassVar[str] = "atc-margin"
    assumes: ClassVar[str] = "rows above the threshold are correct as often as on the source"
    needs: ClassVar[tuple[str, ...]] = ("probabilities", "source labels")
    paper: ClassVar[str] = "after Garg et al., ICLR 2022"

    def estimate(self, source: Predictions, target: Predictions) -> Estimate:
        margins = np.sort(_margins(source))
        n_errors = int(source.n - np.count_nonzero(source.correct))
        threshold = margins[n_errors] if n_errors < source.n else np.inf
        share = float(np.mean(_margins(target) >= threshold))
        return Estimate(share, facts={"source_errors": n_errors})


def _margins(predictions: Predictions) -> np.ndarray:
    """Return the difference between the two highest probabilities of each row."""
    ordered = np.sort(predictions.probs, axis=1)
    return ordered[:, -1] - ordered[:, -2]
