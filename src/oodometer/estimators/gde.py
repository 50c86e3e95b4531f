"""GDE, generalised disagreement equality. Jiang et al., ICLR 2022."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import ClassVar

import numpy as np

from oodometer.core.array_types import Floats, Ints
from oodometer.core.errors import NotApplicable
from oodometer.core.predictions import Predictions
from oodometer.core.protocols import StreamingEstimator
from oodometer.core.results import Estimate
from oodometer.core.stats import bootstrap_counts


@dataclass(frozen=True)
class GDE(StreamingEstimator[None, Ints]):
    """How often models trained alike on the same data agree on the target; mean over pairs.

    >>> one = Predictions.from_classes([0, 1, 2, 2], k=3)
    >>> two = Predictions.from_classes([0, 1, 1, 2], k=3)
    >>> GDE().estimate(one, one.with_other_models(two)).value
    0.75
    """

    name: ClassVar[str] = "gde"
    assumes: ClassVar[str] = (
        "the models differ in training randomness alone, and together are calibrated on the target"
    )
    needs: ClassVar[tuple[str, ...]] = ("classes", "second model")
    paper: ClassVar[str] = "Jiang et al., ICLR 2022"

    def learn(self, source: Predictions) -> None:
        """Nothing of the source is needed."""

    def summarize(self, learned: None, batch: Predictions) -> Ints:
        """Rows by how many of the pairs agree on them: 0, 1, …, all."""
        if not batch.other_models:
            raise NotApplicable("it compares two models; give the second one's predictions")
        models = [batch.classes, *(peer.classes for peer in batch.other_models)]
        pairs = list(combinations(models, 2))
        agreeing = np.zeros(batch.n, dtype=np.int64)
        for one, other in pairs:
            agreeing += one == other
        return np.bincount(agreeing, minlength=len(pairs) + 1)

    def finish(self, learned: None, total: Ints) -> Estimate:
        """The share of agreement."""
        return Estimate(float(_mean_agreement(total[None])[0]))

    def resample(self, learned: None, total: Ints, rng: np.random.Generator, count: int) -> Floats:
        """The target drawn again."""
        return _mean_agreement(bootstrap_counts(rng, total, count))


def _mean_agreement(counts: Ints) -> Floats:
    pairs = counts.shape[1] - 1
    return np.asarray(counts @ np.arange(pairs + 1) / (pairs * counts.sum(axis=1)))
