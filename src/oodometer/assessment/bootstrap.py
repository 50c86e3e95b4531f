"""Bootstrap confidence intervals of estimators: run each estimator on a target and resample it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from oodometer.assessment import headline
from oodometer.assessment.result import Segment
from oodometer.core.array_types import Floats
from oodometer.core.errors import NotApplicable
from oodometer.core.predictions import Predictions
from oodometer.core.protocols import Estimator, ProgressCallback, StreamingEstimator
from oodometer.core.results import Estimate
from oodometer.core.stats import Z95, rng_for, wilson_interval

# Third-party estimators that do not implement `resample` are run again on resampled rows. This is
# the maximum number of such runs.
MAX_ROW_BOOTSTRAP_REPLICATES = 50


@dataclass(frozen=True, eq=False)
class EstimatorRun:
    """Estimator with a source and a temperature; it can be run on any number of targets.

    The random stream of an estimate depends only on the seed, the method and the stream labels.
    Therefore results do not depend on the order in which targets are estimated.
    """

    estimator: Estimator
    source: Predictions
    temperature: float | None
    seed: int
    replicates: int

    @cached_property
    def learned_state(self) -> Any:
        """Return the state that a streaming estimator learns from the source; it is cached."""
        assert isinstance(self.estimator, StreamingEstimator)
        return self.estimator.learn(self.source)

    def run(self, target: Predictions, *stream_labels: object) -> Estimate:
        """Return the estimate for target rows that are in memory."""
        if isinstance(self.estimator, StreamingEstimator):
            total = self.estimator.summarize(self.learned_state, target)
            return self.from_total(total, *stream_labels)
        estimate = self.estimator.estimate(self.source, target)
        rng = rng_for(self.seed, "bootstrap", self.estimator.name, *stream_labels)
        replicates = [
            self.estimator.estimate(
                _resample_rows(self.source, rng), _resample_rows(target, rng)
            ).value
            for _ in range(min(self.replicates, MAX_ROW_BOOTSTRAP_REPLICATES))
        ]
        half = Z95 * float(np.std(replicates))
        return self._with_interval(
            estimate, np.array([estimate.value - half, estimate.value + half])
        )

    def from_total(self, total: Any, *stream_labels: object) -> Estimate:
        """Return the estimate of a streaming estimator from its sums over the target."""
        assert isinstance(self.estimator, StreamingEstimator)
        estimate = self.estimator.finish(self.learned_state, total)
        rng = rng_for(self.seed, "bootstrap", self.estimator.name, *stream_labels)
        replicates = self.estimator.resample(self.learned_state, total, rng, self.replicates)
        return self._with_interval(estimate, np.quantile(replicates, [0.025, 0.975]))

    def estimate_segment(
        self, name: str, n: int, *, rows: Predictions | None = None, total: Any = None
    ) -> Segment:
        """Return the estimate of a segment from its rows or, if `rows` is None, from its sums."""
        try:
            if rows is not None:
                return Segment(name, n, self.run(rows, "segment", name))
            return Segment(name, n, self.from_total(total, "segment", name))
        except NotApplicable as reason:
            return Segment(name, n, None, str(reason))

    def _with_interval(self, estimate: Estimate, bounds: Floats) -> Estimate:
        low = min(float(bounds[0]), estimate.value)
        high = max(float(bounds[1]), estimate.value)
        if getattr(self.estimator, "assumes_calibrated", False):
            uncertainty = _calibration_uncertainty(self.source)
            low = estimate.value - math.hypot(estimate.value - low, uncertainty)
            high = estimate.value + math.hypot(high - estimate.value, uncertainty)
        notes = estimate.notes
        if "source labels" in getattr(
            self.estimator, "needs", ()
        ) and headline.has_constant_correctness(self.source):
            # The source has only correct rows or only errors. A bootstrap cannot draw the other
            # outcome, because it was never observed; the Wilson interval allows for it.
            accuracy = float(self.source.correct[0])
            wilson = wilson_interval(accuracy * self.source.n, self.source.n)
            low -= accuracy - wilson[0]
            high += wilson[1] - accuracy
            missing = "errors" if accuracy else "correct rows"
            notes += (f"the source has no {missing}; the interval is widened by Wilson's bound",)
        return replace(
            estimate,
            method=self.estimator.name,
            assumes=self.estimator.assumes,
            low=max(low, 0.0),
            high=min(high, 1.0),
            temperature=self.temperature,
            notes=notes,
        )


def _calibration_uncertainty(source: Predictions) -> float:
    """Return the 95 % half-width for the difference of accuracy and mean confidence on the source.

    A bootstrap of the scores alone does not include this error, because labels are needed to know
    whether the scores are calibrated.
    """
    difference = source.correct - source.confidence
    return Z95 * float(difference.std()) / math.sqrt(source.n)


def _resample_rows(rows: Predictions, rng: np.random.Generator) -> Predictions:
    return rows.rows(rng.integers(rows.n, size=rows.n))


def make_runs(
    estimators: Sequence[Estimator],
    source: Predictions,
    temperature: float | None,
    *,
    seed: int,
    replicates: int,
) -> dict[str, EstimatorRun]:
    """Return one run per estimator by name; `source` is already scaled by `temperature`."""
    return {
        estimator.name: EstimatorRun(estimator, source, temperature, seed, replicates)
        for estimator in estimators
    }


def run_all(
    runs: Mapping[str, EstimatorRun],
    target: Predictions,
    *,
    totals: Mapping[str, Any] | None = None,
    skipped: Mapping[str, str] | None = None,
    progress: ProgressCallback | None = None,
) -> tuple[dict[str, Estimate], dict[str, str]]:
    """Return the estimates by method, and the reason for each method that is not applicable.

    If `totals` has the sums of a method, the estimate is computed from these sums, otherwise from
    the target rows. Methods in `skipped` are not run.
    """
    totals = totals or {}
    skipped = skipped or {}
    estimates: dict[str, Estimate] = {}
    reasons: dict[str, str] = {}
    for done, (name, run) in enumerate(runs.items()):
        if progress is not None:
            progress(done, len(runs), name)
        if name in skipped:
            reasons[name] = skipped[name]
            continue
        try:
            estimates[name] = run.from_total(totals[name]) if name in totals else run.run(target)
        except NotApplicable as reason:
            reasons[name] = str(reason)
    return estimates, reasons
