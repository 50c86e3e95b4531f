"""Generalization disagreement equality (GDE; Jiang et al., ICLR 2022)."""

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
    """Agreement rate of models that differ only in their random seed, ``mean_t 1[ŷ = ŷ′]``.

    With more than two models, the estimate is the mean agreement rate of all pairs of models.

    Examples
    --------
    >>> first = Predictions.from_classes([0, 1, 2, 2], k=3)
    >>> second = Predictions.from_classes([0, 1, 1, 2], k=3)
    >>> GDE().estimate(first, first.with_other_models(second)).value
    0.75
    """

    name: ClassVar[str] = "gde"
    assumes: ClassVar[str] = (
        "the models differ only in the randomness of their training, and their ensemble is "
        "calibrated on the target"
    )
    needs: ClassVar[tuple[str, ...]] = ("classes", "second model")
    paper: ClassVar[str] = "Jiang et al., ICLR 2022"
    supports_decisions: ClassVar[bool] = False

    def learn(self, source: Predictions) -> None:
        """Do nothing, because the estimate depends on the target only."""

    def summarize(self, learned: None, batch: Predictions) -> Ints:
        """Return, for j = 0, 1, …, the number of rows on which j pairs of models agree."""
        if not batch.other_models:
            raise NotApplicable("it requires the predictions of a second model")
        n_agreeing, n_pairs = _count_agreeing_pairs(batch)
        return np.bincount(n_agreeing, minlength=n_pairs + 1)

    def finish(self, learned: None, total: Ints) -> Estimate:
        """Return the mean agreement rate of all pairs."""
        return Estimate(float(_mean_agreement(total[None])[0]))

    def resample(self, learned: None, total: Ints, rng: np.random.Generator, count: int) -> Floats:
        """Return mean agreement rates on resampled target rows."""
        return _mean_agreement(bootstrap_counts(rng, total, count))

    def row_values(self, learned: None, total: Ints, rows: Predictions) -> Floats:
        """Return the share of pairs of models that agree on each row."""
        n_agreeing, n_pairs = _count_agreeing_pairs(rows)
        return n_agreeing / n_pairs


def _count_agreeing_pairs(rows: Predictions) -> tuple[Ints, int]:
    """Return how many pairs of models agree on each row, and the number of pairs."""
    models = [rows.classes, *(model.classes for model in rows.other_models)]
    pairs = list(combinations(models, 2))
    n_agreeing = np.zeros(rows.n, dtype=np.int64)
    for first, second in pairs:
        n_agreeing += first == second
    return n_agreeing, len(pairs)


def _mean_agreement(counts: Ints) -> Floats:
    n_pairs = counts.shape[1] - 1
    return np.asarray(counts @ np.arange(n_pairs + 1) / (n_pairs * counts.sum(axis=1)))
