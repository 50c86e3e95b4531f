"""One estimator with the source it has learned from, and the interval of what it says."""

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

# Third-party estimators without a bootstrap of their own get one by rows, of this many replicates.
MAX_ROW_BOOTSTRAP_REPLICATES = 50


@dataclass(frozen=True, eq=False)
class EstimatorRun:
    """One estimator with the source it has learned from."""

    estimator: Estimator
    source: Predictions
    temperature: float | None
    seed: int
    replicates: int

    @cached_property
    def learned_state(self) -> Any:
        """What a staged estimator learned, once for all segments."""
        return (
            self.estimator.learn(self.source)
            if isinstance(self.estimator, StreamingEstimator)
            else None
        )

    def run(self, target: Predictions, *path: object) -> Estimate:
        """The estimate with its interval; randomness depends on seed, method and path alone."""
        rng = rng_for(self.seed, "bootstrap", self.estimator.name, *path)
        if isinstance(self.estimator, StreamingEstimator):
            total = self.estimator.summarize(self.learned_state, target)
            found = self.estimator.finish(self.learned_state, total)
            drawn = self.estimator.resample(self.learned_state, total, rng, self.replicates)
            return self._with_interval(found, np.quantile(drawn, [0.025, 0.975]))
        found = self.estimator.estimate(self.source, target)
        values = [
            self.estimator.estimate(
                _resample_rows(self.source, rng), _resample_rows(target, rng)
            ).value
            for _ in range(min(self.replicates, MAX_ROW_BOOTSTRAP_REPLICATES))
        ]
        half = Z95 * float(np.std(values))
        return self._with_interval(found, np.array([found.value - half, found.value + half]))

    def estimate_segment(self, name: str, n: int, rows: Predictions) -> Segment:
        """The estimate of one part of n rows, or why there is none."""
        try:
            return Segment(name, n, self.run(rows, "segment", name))
        except NotApplicable as reason:
            return Segment(name, n, None, str(reason))

    def _with_interval(self, estimate: Estimate, bounds: Floats) -> Estimate:
        low, high = min(float(bounds[0]), estimate.value), max(float(bounds[1]), estimate.value)
        if getattr(self.estimator, "assumes_calibrated", False):
            low, high = _widen_interval(
                estimate.value, (low, high), _calibration_uncertainty(self.source)
            )
        notes = estimate.notes
        if "source labels" in getattr(
            self.estimator, "needs", ()
        ) and headline.has_constant_correctness(self.source):
            # A bootstrap can't draw the error that was not seen; Wilson's interval can.
            share = float(self.source.correct[0])
            wide = wilson_interval(share * self.source.n, self.source.n)
            low, high = low - (share - wide[0]), high + (wide[1] - share)
            lacking = "error" if share else "right answer"
            notes += (f"the source shows no {lacking}; the interval is widened by Wilson's bound",)
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
    """How far mean confidence may be from accuracy on the source for all that its rows can tell.

    A bootstrap of scores alone has no part in it: that they are chances is known from labels.
    """
    off = source.correct - source.confidence
    return Z95 * float(off.std()) / math.sqrt(source.n)


def _widen_interval(
    value: float, interval: tuple[float, float], uncertainty: float
) -> tuple[float, float]:
    """Ends farther away by a doubt of another kind."""
    low, high = interval
    return value - math.hypot(value - low, uncertainty), value + math.hypot(
        high - value, uncertainty
    )


def make_runs(
    estimators: Sequence[Estimator],
    source: Predictions,
    temperature: float | None,
    *,
    seed: int,
    replicates: int,
) -> dict[str, EstimatorRun]:
    """Estimators by name, with the source, which is at that temperature."""
    return {m.name: EstimatorRun(m, source, temperature, seed, replicates) for m in estimators}


def _resample_rows(rows: Predictions, rng: np.random.Generator) -> Predictions:
    return rows.rows(rng.integers(rows.n, size=rows.n))


def run_all(
    runs: Mapping[str, EstimatorRun], target: Predictions, progress: ProgressCallback | None
) -> tuple[dict[str, Estimate], dict[str, str]]:
    """What all of them say of a target, and why some say nothing."""
    found: dict[str, Estimate] = {}
    refused: dict[str, str] = {}
    for done, (name, task) in enumerate(runs.items()):
        if progress:
            progress(done, len(runs), name)
        try:
            found[name] = task.run(target)
        except NotApplicable as reason:
            refused[name] = str(reason)
    return found, refused
