"""ATC (Garg et al., ICLR 2022) that counts rows with features far from the source as errors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from oodometer.core import validation
from oodometer.core.array_types import Floats, Ints
from oodometer.core.errors import NotApplicable, out_of_range
from oodometer.core.predictions import Predictions
from oodometer.core.protocols import StreamingEstimator
from oodometer.core.results import Estimate
from oodometer.core.stats import bootstrap_counts, histogram
from oodometer.estimators._knn import leave_one_out_distances, mean_distances
from oodometer.estimators.atc import Threshold, fit_threshold, resample_share_above, share_above
from oodometer.estimators.importance_weighting import subsample_rows


@dataclass(frozen=True)
class SourceSupport:
    """Confidence threshold, features of the source, and largest distance of near rows to them."""

    threshold: Threshold
    features: Floats
    max_distance: float


@dataclass(frozen=True)
class ATCDistance(StreamingEstimator[SourceSupport, Ints]):
    """Share of target rows that reach the confidence threshold and are near the source.

    The distance of a row is the mean distance of its features to those of the nearest source rows.
    A target row is near the source if its distance is at most a certain quantile of the distances
    that source rows have to other source rows.

    Parameters
    ----------
    nearest : int
        Number of nearest source rows to average the distance over.
    within : float
        Level of the quantile, above 0 and at most 1.
    max_rows : int
        Maximum number of source rows and of target rows. If there are more, every k-th row is used.

    Raises
    ------
    InputError
        If a parameter is out of range.

    Examples
    --------
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
        "rows far from the source are errors; among the remaining rows, the number of errors above "
        "the threshold equals the number of correct rows below it"
    )
    needs: ClassVar[tuple[str, ...]] = ("confidence", "features", "source labels")
    paper: ClassVar[str] = "after Garg et al., ICLR 2022"
    is_mergeable: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.nearest < 1:
            raise out_of_range("nearest", self.nearest, low=1)
        if self.max_rows < 2:
            raise out_of_range("max_rows", self.max_rows, low=2)
        if not 0 < self.within <= 1:
            raise out_of_range("within", self.within, above=0, high=1)

    def learn(self, source: Predictions) -> SourceSupport:
        """Fit the threshold, and compute the quantile of the distances between source rows."""
        features = _require_features(subsample_rows(source, self.max_rows))
        if len(features) < 2:
            raise NotApplicable("distances require at least two source rows")
        distances = leave_one_out_distances(features, self.nearest)
        max_distance = float(np.quantile(distances, self.within, method="higher"))
        threshold = fit_threshold(source.confidence, source.correct)
        return SourceSupport(threshold, features, max_distance)

    def summarize(self, learned: SourceSupport, batch: Predictions) -> Ints:
        """Return the numbers of far and near rows per bin of confidence, (bins, 2)."""
        rows = subsample_rows(batch, self.max_rows)
        features = _require_features(rows)
        validation.check_same_feature_count(learned.features, features)
        near = mean_distances(features, learned.features, self.nearest) <= learned.max_distance
        edges = learned.threshold.edges
        counts = [histogram(edges, rows.confidence, where=part) for part in (~near, near)]
        return np.stack(counts, axis=1)

    def finish(self, learned: SourceSupport, total: Ints) -> Estimate:
        """Return the share of rows that are near and at or above the threshold."""
        near = float(total[:, 1].sum() / total.sum())
        facts = {"beyond_support": 1 - near}
        if not near:
            return Estimate(0.0, notes=("all target rows are far from the source",), facts=facts)
        estimate = share_above(learned.threshold, total[:, 1])
        facts |= estimate.facts
        return Estimate(near * estimate.value, notes=estimate.notes, facts=facts)

    def resample(
        self, learned: SourceSupport, total: Ints, rng: np.random.Generator, count: int
    ) -> Floats:
        """Resample the number of near rows, and the share of near rows above the threshold."""
        far, near = total.sum(axis=0)
        if not near:
            return np.zeros(count)
        shares = bootstrap_counts(rng, np.array([far, near]), count)[:, 1] / total.sum()
        return np.asarray(shares * resample_share_above(learned.threshold, total[:, 1], rng, count))

    def row_values(self, learned: SourceSupport, total: Ints, rows: Predictions) -> Floats:
        """Return 1 for rows at or above the threshold and 0 for the others, far or near."""
        return (rows.confidence >= learned.threshold.value).astype(np.float64)


def _require_features(rows: Predictions) -> Floats:
    if rows.features is None:
        raise NotApplicable("it requires features of source and target")
    return rows.features.astype(np.float64)
