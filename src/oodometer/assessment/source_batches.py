"""Errors of the headline method on batches of the source, each estimated from the rest of it.

The batches show how far estimates are off if nothing shifts but what varies within the source, such
as time. They make the typical range narrower for targets that look like the source.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from oodometer.assessment.bootstrap import EstimatorRun, LearnedSource
from oodometer.assessment.conformal_interval import MIN_DOMAINS, History
from oodometer.assessment.diagnostics import confidence_distance
from oodometer.assessment.segments import segment_values
from oodometer.assessment.typical_range import Covariates, ReferenceErrors
from oodometer.core.array_types import Array, Bools
from oodometer.core.calibration import Calibration
from oodometer.core.errors import NotApplicable
from oodometer.core.predictions import Predictions
from oodometer.core.stats import rng_for
from oodometer.estimators.regime_weighting import RegimeWeighting
from oodometer.parallel.runners import limit_to_one_thread

# Rows of the source that are used, and rows of the smallest batch, in all and per class.
MAX_ROWS = 2000
MIN_BATCH_ROWS = 100
MIN_ROWS_PER_CLASS = 5
N_RANDOM_BATCHES = 8
MAX_BATCHES = 20
REPLICATES = 20


@dataclass(frozen=True)
class BatchCase:
    """Estimate on a batch of the source, its accuracy, and what predicts the size of the error."""

    estimate: float
    accuracy: float
    covariates: Covariates


@dataclass(frozen=True, eq=False)
class SourceBatches:
    """Batches of a labelled source: its segments if there are at least five, or random batches.

    Parameters
    ----------
    source : LearnedSource
        Scaled and calibrated source.
    segment_by : array of shape (n,), optional
        One value per source row, such as a day.
    seed : int
        Random seed.
    """

    source: LearnedSource
    segment_by: Array | None
    seed: int

    @cached_property
    def cases(self) -> list[BatchCase]:
        """Return the estimates on the batches; none if there are fewer than five batches."""
        rows = self.source.calibration.source
        if not rows.has_probs:
            return []
        # Evenly spaced rows keep the order of time.
        places = np.arange(0, rows.n, -(-rows.n // MAX_ROWS))
        rows = rows.rows(places)
        with limit_to_one_thread():
            results = [self._estimate(rows, batch) for batch in self._batches(places)]
        known = [result for result in results if result is not None]
        return known if len(known) >= MIN_DOMAINS else []

    @cached_property
    def history(self) -> History | None:
        """Return estimate, accuracy and predicted size of the error of the batches, if any."""
        return batch_history(self.cases, ReferenceErrors.load())

    def _batches(self, places: Array) -> list[Bools]:
        """Return which of the used rows are in each batch."""
        min_rows = max(MIN_BATCH_ROWS, MIN_ROWS_PER_CLASS * self.source.predictions.k)
        if self.segment_by is not None:
            _names, index, counts = np.unique(
                segment_values(self.segment_by)[places].astype(str),
                return_inverse=True,
                return_counts=True,
            )
            largest = np.argsort(-counts, kind="stable")[:MAX_BATCHES]
            chosen = [j for j in largest.tolist() if counts[j] >= min_rows]
            if len(chosen) >= MIN_DOMAINS:
                return [index == j for j in chosen]
        n_batches = min(N_RANDOM_BATCHES, len(places) // min_rows)
        if n_batches < MIN_DOMAINS:
            return []
        if n_batches < MIN_DOMAINS:
            return []
        order = rng_for(self.seed, "source batches").permutation(len(places))
        return [order % n_batches == j for j in range(n_batches)]

    def _estimate(self, rows: Predictions, is_batch: Bools) -> BatchCase | None:
        """Return the estimate on a batch; None if the headline method does not apply."""
        rest, batch = rows.rows(~is_batch), rows.rows(is_batch)
        learned = LearnedSource(rest, None, Calibration("temperature", None, rest))
        run = EstimatorRun(RegimeWeighting(), learned, self.seed, REPLICATES)
        try:
            estimate = run.run(batch.without_labels())
        except NotApplicable:
            return None
        covariates = Covariates.of(
            estimate,
            n_source=rest.n,
            n_target=batch.n,
            distance=confidence_distance(rest, batch),
        )
        if covariates is None:
            return None
        return BatchCase(estimate.value, float(batch.correct.mean()), covariates)


def batch_history(cases: Sequence[BatchCase], reference: ReferenceErrors) -> History | None:
    """Return the batches as past domains; None if there are none."""
    if not cases:
        return None
    return History(
        np.array([case.estimate for case in cases]),
        np.array([case.accuracy for case in cases]),
        expected_errors=np.array([min(reference.size(case.covariates), 1.0) for case in cases]),
    )
