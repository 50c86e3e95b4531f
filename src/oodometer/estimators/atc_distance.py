"""ATC where the source has been: rows whose features are far from it count as wrong."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from oodometer.core import validation
from oodometer.core.errors import InputError, NoAnswer
from oodometer.core.predictions import Predictions
from oodometer.core.protocols import Estimate, Staged
from oodometer.core.softmax_kernels import Floats, Ints
from oodometer.core.stats import counts_between, draw_counts
from oodometer.estimators._knn import mean_distances, own_distances
from oodometer.estimators.atc import Cut, cut, redrawn_above, share_above
from oodometer.estimators.importance_weighting import thinned


@dataclass(frozen=True)
class Reach:
    """The threshold of confidence, the source's features, and how far from them is too far."""

    cut: Cut
    features: Floats
    farthest: float


@dataclass(frozen=True)
class ThresholdWithDistance(Staged[Reach, Ints]):
    """The share of the target that is sure enough and near enough to the source.

    Near is a mean distance to the `nearest` source rows up to the `within` quantile of the source
    rows' own. Beyond `max_rows` a side it takes every second, third, … row.

    >>> rows = [[0.9, 0.1], [0.8, 0.2], [0.6, 0.4]]
    >>> source = Predictions.from_probs(rows, labels=[0, 0, 1], features=[[0.0], [1.0], [2.0]])
    >>> target = Predictions.from_probs(rows, features=[[0.0], [9.0], [2.0]])
    >>> round(ThresholdWithDistance(nearest=1).estimate(source, target).value, 3)
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
    streams: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.nearest < 1 or self.max_rows < 2:
            raise InputError(
                f"nearest must be at least 1 and max_rows 2; got {self.nearest}, {self.max_rows}."
            )
        if not 0 < self.within <= 1:
            raise InputError(f"within must be above 0 and at most 1; got {self.within}.")

    def learn(self, source: Predictions) -> Reach:
        """The threshold, and how far from one another source rows are."""
        known = _features(thinned(source, self.max_rows))
        if len(known) < 2:
            raise NoAnswer("distances need at least two source rows")
        own = own_distances(known, self.nearest)
        farthest = float(np.quantile(own, self.within, method="higher"))
        return Reach(cut(source.confidence, source.correct), known, farthest)

    def summarize(self, learned: Reach, batch: Predictions) -> Ints:
        """Target rows counted between the edges, far and near apart: (cells, [far, near])."""
        some = thinned(batch, self.max_rows)
        features = _features(some)
        validation.same_width(learned.features, features)
        near = mean_distances(features, learned.features, self.nearest) <= learned.farthest
        edges, scores = learned.cut.edges, some.confidence
        counts = [counts_between(edges, scores, where=part) for part in (~near, near)]
        return np.stack(counts, axis=1)

    def finish(self, learned: Reach, total: Ints) -> Estimate:
        """The share of rows that are near and at or above the threshold."""
        near = float(total[:, 1].sum() / total.sum())
        facts = {"beyond_support": 1 - near}
        if not near:
            return Estimate(0.0, notes=("all of the target is far from the source",), facts=facts)
        found = share_above(learned.cut, total[:, 1])
        facts |= found.facts
        return Estimate(near * found.value, notes=found.notes, facts=facts)

    def resample(self, learned: Reach, total: Ints, rng: np.random.Generator, count: int) -> Floats:
        """How many rows are near, and which share of them is above the threshold, drawn again."""
        far, near = total.sum(axis=0)
        if not near:
            return np.zeros(count)
        shares = draw_counts(rng, np.array([far, near]), count)[:, 1] / total.sum()
        return np.asarray(shares * redrawn_above(learned.cut, total[:, 1], rng, count))


def _features(rows: Predictions) -> Floats:
    if rows.features is None:
        raise NoAnswer("it needs features of both sides")
    return rows.features.astype(np.float64)
