"""ATC where the source has been: rows whose features are far from it count as wrong."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from oodometer.core import validation
from oodometer.core.array_types import Floats, Ints
from oodometer.core.errors import InputError, NotApplicable
from oodometer.core.predictions import Predictions
from oodometer.core.protocols import StreamingEstimator
from oodometer.core.results import Estimate
from oodometer.core.stats import bootstrap_counts, histogram
from oodometer.estimators._knn import leave_one_out_distances, mean_distances
from oodometer.estimators.atc import Threshold, fit_threshold, resample_share_above, share_above
from oodometer.estimators.importance_weighting import subsample_rows


@dataclass(frozen=True)
class SourceSupport:
    """The threshold of confidence, the source's features, and how far from them is too far."""

    threshold: Threshold
    features: Floats
    max_distance: float


@dataclass(frozen=True)
class ATCDistance(StreamingEstimator[SourceSupport, Ints]):
    """The share of the target that is sure enough and near enough to the source.

    Near is a mean distance to the `nearest` source rows up to the `within` quantile of the source
    rows' own. Beyond `max_rows` a side it takes every second, third, … row.

    >>> rows = [[0.9, 0.1], [0.8, 0.2], [0.6, 0.4]]
    >>> source = Predictions.from_probs(rows, labels=[0, 0, 1], features=[[0.0], [1.0], [2.0]])
    >>> target = Predictions.from_probs(rows, features=[[0.0], [9.0], [2.0]])
    >>> round(ATCDistance(nearest=1).estimate(source, target).value, 3)
    0.333
    """

    nearest: int = 25
    within: float = 0.99
    max_rows: int = 10_000

    name: ClassVar[str] = "atc-near"
    assumes: ClassVar[str] = (
        "rows far from the source are wrong; of the others, those wrongly above the threshold "
        "balance those wrongly below it"
    )
    needs: ClassVar[tuple[str, ...]] = ("confidence", "features", "source labels")
    paper: ClassVar[str] = "after Garg et al., ICLR 2022"
    is_mergeable: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.nearest < 1 or self.max_rows < 2:
            raise InputError(
                f"nearest must be at least 1 and max_rows 2; got {self.nearest}, {self.max_rows}."
            )
        if not 0 < self.within <= 1:
            raise InputError(f"within must be above 0 and at most 1; got {self.within}.")

    def learn(self, source: Predictions) -> SourceSupport:
        """The threshold, and how far from one another source rows are."""
        known = _require_features(subsample_rows(source, self.max_rows))
        if len(known) < 2:
            raise NotApplicable("distances need at least two source rows")
        own = leave_one_out_distances(known, self.nearest)
        farthest = float(np.quantile(own, self.within, method="higher"))
        return SourceSupport(fit_threshold(source.confidence, source.correct), known, farthest)

    def summarize(self, learned: SourceSupport, batch: Predictions) -> Ints:
        """Target rows counted between the edges, far and near apart: (cells, [far, near])."""
        some = subsample_rows(batch, self.max_rows)
        features = _require_features(some)
        validation.check_same_feature_count(learned.features, features)
        near = mean_distances(features, learned.features, self.nearest) <= learned.max_distance
        edges, scores = learned.threshold.edges, some.confidence
        counts = [histogram(edges, scores, where=part) for part in (~near, near)]
        return np.stack(counts, axis=1)

    def finish(self, learned: SourceSupport, total: Ints) -> Estimate:
        """The share of rows that are near and at or above the threshold."""
        near = float(total[:, 1].sum() / total.sum())
        facts = {"beyond_support": 1 - near}
        if not near:
            return Estimate(0.0, notes=("all of the target is far from the source",), facts=facts)
        found = share_above(learned.threshold, total[:, 1])
        facts |= found.facts
        return Estimate(near * found.value, notes=found.notes, facts=facts)

    def resample(
        self, learned: SourceSupport, total: Ints, rng: np.random.Generator, count: int
    ) -> Floats:
        """How many rows are near, and which share of them is above the threshold, drawn again."""
        far, near = total.sum(axis=0)
        if not near:
            return np.zeros(count)
        shares = bootstrap_counts(rng, np.array([far, near]), count)[:, 1] / total.sum()
        return np.asarray(shares * resample_share_above(learned.threshold, total[:, 1], rng, count))


def _require_features(rows: Predictions) -> Floats:
    if rows.features is None:
        raise NotApplicable("it needs features of both sides")
    return rows.features.astype(np.float64)
