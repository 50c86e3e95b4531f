"""Bootstrap confidence intervals of estimators: run each estimator on a target and resample it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from oodometer.assessment import headline
from oodometer.assessment.ppi import BinnedAccuracy
from oodometer.core import validation
from oodometer.core.array_types import Floats
from oodometer.core.calibration import Calibration
from oodometer.core.errors import NotApplicable
from oodometer.core.predictions import Predictions
from oodometer.core.protocols import Estimator, ProgressCallback, StreamingEstimator
from oodometer.core.results import Estimate
from oodometer.core.stats import accuracy_interval, rng_for

# Third-party estimators that do not implement `resample` are run again on resampled rows. This is
# the maximum number of such runs.
MAX_ROW_BOOTSTRAP_REPLICATES = 50
# Maximum number of target rows from which variances are computed; of more rows, every j-th is used.
# It is the maximum of the estimators that fit a domain classifier, too.
MAX_VARIANCE_ROWS = 10_000
# Logarithms of smaller probabilities are set to this value in the variance of logits.
MIN_LOG_PROBABILITY = -40.0
# Weight, in source errors, of the largest possible variance.
PRIOR_ERRORS = 2.0


def replace_zeros(rows: Predictions, replacement: float | None) -> Predictions:
    """Return rows without probabilities of exactly 0, and with a note if there were any."""
    if replacement is None or rows.scores is None or rows.score_type != "probs":
        return rows
    if not (rows.scores <= 0).any():
        return rows
    note = (
        f"Probabilities of exactly 0 were replaced by {replacement:.3g}, because the logarithm of 0 "
        "does not exist."
    )
    return rows.with_scores(validation.replace_zeros(rows.scores, replacement), note)


def scale(rows: Predictions, temperature: float | None) -> Predictions:
    """Return rows divided by a temperature; unchanged if it is None."""
    return rows if temperature is None else rows.at_temperature(temperature)


@dataclass(frozen=True, eq=False)
class LearnedSource:
    """Source of a set of runs: temperature-scaled, calibrated, and its accuracy by confidence.

    Parameters
    ----------
    predictions : Predictions
        Labelled source predictions, divided by the temperature.
    temperature : float or None
        Temperature, or None if the scores were not changed.
    calibration : Calibration
        Calibration for the estimators that read probabilities.
    zero_replacement : float, optional
        Value that replaces probabilities of exactly 0; None if the source has logits.
    """

    predictions: Predictions
    temperature: float | None
    calibration: Calibration
    zero_replacement: float | None = None

    def prepare(self, rows: Predictions) -> Predictions:
        """Return target rows as the source was prepared: without zeros, scaled."""
        return scale(replace_zeros(rows, self.zero_replacement_for(rows)), self.temperature)

    def zero_replacement_for(self, rows: Predictions) -> float | None:
        """Return what replaces zeros of target rows, which may have fewer decimals than the source."""
        if self.zero_replacement is None or rows.scores is None or rows.score_type != "probs":
            return self.zero_replacement
        step = validation.rounding_step(rows.scores)
        return self.zero_replacement if step is None else max(self.zero_replacement, step / 2)

    @cached_property
    def row_accuracy(self) -> BinnedAccuracy | None:
        """Return the accuracy by confidence; None if the model returns classes only."""
        try:
            return BinnedAccuracy.fit(self.predictions, smoothed=True)
        except NotApplicable:
            return None

    @cached_property
    def smoothed_accuracy(self) -> float:
        """Return the accuracy, with half a correct row and half an error added."""
        n_correct = np.count_nonzero(self.predictions.correct)
        return float((n_correct + 0.5) / (self.predictions.n + 1))

    def calibrated(self, rows: Predictions) -> Predictions:
        """Return rows with calibrated probabilities, computed once for these rows."""
        if self.calibration.is_identity:
            return rows
        return rows.cached(("calibrated", self.calibration), lambda: self.calibration(rows))

    def expected_correct(self, rows: Predictions) -> Floats:
        """Return the probability that the model is correct on each row, for variances."""
        if self.row_accuracy is not None:
            try:
                return self.row_accuracy(rows.confidence)
            except NotApplicable:  # the target has classes only
                pass
        return np.full(rows.n, self.smoothed_accuracy)


@dataclass(frozen=True, eq=False)
class EstimatorRun:
    """Estimator with a source; it can be run on any number of targets.

    The random stream of an estimate depends only on the seed and the method. Therefore results do
    not depend on the order in which targets are estimated.
    """

    estimator: Estimator
    learned_source: LearnedSource
    seed: int
    replicates: int

    @property
    def reads_probabilities(self) -> bool:
        """Return whether the estimator receives calibrated probabilities."""
        return bool(getattr(self.estimator, "reads_probabilities", False))

    @cached_property
    def source(self) -> Predictions:
        """Return the source predictions that the estimator learns from."""
        learned = self.learned_source
        if not self.reads_probabilities:
            return learned.predictions
        if getattr(self.estimator, "compares_scores", False):
            return learned.calibrated(learned.predictions)
        return learned.calibration.source

    @cached_property
    def learned_state(self) -> Any:
        """Return the state that a streaming estimator learns from the source; it is cached."""
        self.check_decisions()
        assert isinstance(self.estimator, StreamingEstimator)
        return self.estimator.learn(self.source)

    def check_decisions(self) -> None:
        """Raise NotApplicable if there are decisions and the estimator does not support them."""
        if self.source.has_decisions and not getattr(self.estimator, "supports_decisions", False):
            raise NotApplicable(
                "it estimates the accuracy of the most probable class, not of given decisions"
            )

    def rows(self, target: Predictions) -> Predictions:
        """Return the target rows as the estimator reads them."""
        return self.learned_source.calibrated(target) if self.reads_probabilities else target

    def run(self, target: Predictions) -> Estimate:
        """Return the estimate for target rows that are in memory."""
        if not self.replicates:
            return self._run_without_interval(target)
        if isinstance(self.estimator, StreamingEstimator):
            total = self.estimator.summarize(self.learned_state, self.rows(target))
            return self.from_total(total, target, target.n)
        self.check_decisions()
        source, rows = self.source, self.rows(target)
        estimate = self.estimator.estimate(source, rows)
        rng = rng_for(self.seed, "bootstrap", self.estimator.name)
        replicates = [
            self.estimator.estimate(_resample_rows(source, rng), _resample_rows(rows, rng)).value
            for _ in range(min(self.replicates, MAX_ROW_BOOTSTRAP_REPLICATES))
        ]
        return self._with_interval(estimate, float(np.var(replicates)), 0.0, None, target, target.n)

    def _run_without_interval(self, target: Predictions) -> Estimate:
        if isinstance(self.estimator, StreamingEstimator):
            state = self.learned_state
            total = self.estimator.summarize(state, self.rows(target))
            return self._with_settings(self.estimator.finish(state, total))
        self.check_decisions()
        return self._with_settings(self.estimator.estimate(self.source, self.rows(target)))

    def from_total(self, total: Any, target: Predictions, n_target: int) -> Estimate:
        """Return the estimate of a streaming estimator from its sums over `n_target` rows.

        `target` has all these rows or a sample of them.
        """
        assert isinstance(self.estimator, StreamingEstimator)
        estimate = self.estimator.finish(self.learned_state, total)
        replicates = self.resample(total)
        rows = target.rows(slice(None, None, -(-target.n // MAX_VARIANCE_ROWS)))
        values = self.estimator.row_values(self.learned_state, total, self.rows(rows))
        bias = self.estimator.bias(self.learned_state, total, replicates)
        variance = float(np.var(replicates))
        return self._with_interval(estimate, variance, bias, values, rows, n_target)

    def resample(self, total: Any) -> Floats:
        """Return bootstrap replicates of a streaming estimator."""
        assert isinstance(self.estimator, StreamingEstimator)
        rng = rng_for(self.seed, "bootstrap", self.estimator.name)
        return self.estimator.resample(self.learned_state, total, rng, self.replicates)

    def _calibration_variance(self, rows: Predictions) -> float:
        """Return the variance of the difference of accuracy and mean confidence of target rows.

        A bootstrap of the scores alone does not include this error, because labels are needed to
        know whether the scores are calibrated. If only a temperature was fitted, it is the error of
        the temperature, plus the square of the gap between confidence and accuracy on the source
        as far as it exceeds the sampling error. Otherwise it is the sampling error of this gap.
        """
        learned = self.learned_source
        difference = self.source.correct - self.source.confidence
        sampling = float(difference.var()) / self.source.n
        if learned.temperature is None or not learned.calibration.is_identity:
            return sampling
        excess = max(float(difference.mean()) ** 2 - sampling, 0.0)
        return min(_temperature_variance(self.source, rows), sampling) + excess

    def _reason_for_no_interval(self, bias: float, center: float, n_target: int) -> str | None:
        """Return why there are too few rows for an interval; None if there are enough.

        The estimator's `min_rows_per_class` and `max_bias_ratio` define what is enough.
        """
        source = self.learned_source.predictions
        n = min(source.n, n_target)
        n_needed = source.k * getattr(self.estimator, "min_rows_per_class", 0)
        if n < n_needed:
            return f"{n_needed:,} rows of source and target are needed for {source.k} classes"
        ratio = abs(bias) / math.sqrt(center * (1 - center) * (1 / source.n + 1 / n_target))
        max_ratio = getattr(self.estimator, "max_bias_ratio", math.inf)
        return _describe_bias(bias, n, n * (ratio / max_ratio) ** 2) if ratio > max_ratio else None

    def _with_interval(
        self,
        estimate: Estimate,
        bootstrap_variance: float,
        bias: float,
        row_values: Floats | None,
        rows: Predictions,
        n_target: int,
    ) -> Estimate:
        """Return the estimate with the interval of the accuracy on the target rows.

        The bootstrap variance is that of the estimate when source and target rows are resampled.
        The accuracy on the target rows varies too, and the estimate follows it as far as the
        contributions of the rows, `row_values`, predict where the model is correct. `bias` is the
        expected error of the estimate without shift.
        """
        learned = self.learned_source
        source = learned.predictions
        calibration_variance = 0.0
        if getattr(self.estimator, "assumes_calibrated", False):
            calibration_variance = self._calibration_variance(rows)
        moments = RowMoments.of(learned.expected_correct(rows), row_values)
        center = interval_center(estimate.value, moments, source.n)
        low: float | None
        high: float | None
        low, high = estimate_interval(
            estimate.value,
            moments,
            variance=bootstrap_variance,
            calibration_variance=calibration_variance,
            bias=bias,
            n_source=source.n,
            n_rarer=count_rarer(source),
            n_target=n_target,
        )
        notes = estimate.notes
        if headline.has_constant_correctness(source):
            missing = "errors" if source.correct[0] else "correct rows"
            notes += (f"the source has no {missing}; the interval allows for some",)
        reason = self._reason_for_no_interval(bias, center, n_target)
        if reason is not None:
            low = high = None
            notes = (*notes, f"no interval: {reason}")
        return replace(self._with_settings(estimate), notes=notes, low=low, high=high)

    def _with_settings(self, estimate: Estimate) -> Estimate:
        """Return the estimate with the method's name and assumption, and how scores were scaled."""
        learned = self.learned_source
        return replace(
            estimate,
            method=self.estimator.name,
            assumes=self.estimator.assumes,
            temperature=learned.temperature,
            calibration=learned.calibration.method if self.reads_probabilities else "temperature",
        )


@dataclass(frozen=True)
class RowMoments:
    """Means over target rows on which the width of an interval depends.

    `expected` is the mean of g, the probability that the model is correct on a row, `noise` the mean
    of g (1 − g), and `covariance` the covariance of g and the contributions to the estimate.
    """

    expected: float
    noise: float
    covariance: float

    @classmethod
    def of(cls, expected: Floats, row_values: Floats | None) -> RowMoments:
        """Return the means over rows; without contributions, the covariance is 0."""
        covariance = 0.0
        if row_values is not None:
            covariance = float(np.mean((row_values - row_values.mean()) * expected))
        return cls(float(expected.mean()), float((expected * (1 - expected)).mean()), covariance)


def interval_center(value: float, moments: RowMoments, n_source: int) -> float:
    """Return the accuracy at which variances are computed; it is neither 0 nor 1."""
    center = (moments.expected + value) / 2
    return min(max(center, 0.5 / (n_source + 1)), 1 - 0.5 / (n_source + 1))


def estimate_interval(
    value: float,
    moments: RowMoments,
    *,
    variance: float,
    bias: float,
    n_source: int,
    n_rarer: int,
    n_target: int,
    calibration_variance: float = 0.0,
) -> tuple[float, float]:
    """Return the 95 % confidence interval of the accuracy on the target rows.

    `variance` is that of the estimate if source and target rows are resampled, and `n_rarer` the
    number of errors of the source, or of correct rows if these are fewer.
    """
    center = interval_center(value, moments, n_source)
    variance += (center * (1 - center) - 2 * moments.covariance) / n_target
    variance = max(variance + calibration_variance, moments.noise / n_target)
    variance = stabilize_variance(variance, center, n_source, n_rarer, n_target)
    low, high = accuracy_interval(
        min(max(value - bias, 0.0), 1.0),
        variance,
        center=center,
        n_source=n_source,
        n_target=n_target,
    )
    return min(low, value), max(high, value)


def count_rarer(source: Predictions) -> int:
    """Return the number of errors, or of correct rows if these are fewer."""
    n_correct = int(np.count_nonzero(source.correct))
    return min(n_correct, source.n - n_correct)


def stabilize_variance(
    variance: float, center: float, n_source: int, n_rarer: int, n_target: int
) -> float:
    """Return the variance of an estimate minus the accuracy, given the number of source errors.

    With few source errors, the variance is hardly known. It is averaged with the largest one, that
    of an estimate that does not predict which rows are correct.
    """
    largest = center * (1 - center) * (1 / n_source + 1 / n_target)
    return (n_rarer * variance + PRIOR_ERRORS * largest) / (n_rarer + PRIOR_ERRORS)


def _describe_bias(bias: float, n: int, n_needed: float) -> str:
    """Return how large the bias is, and about how many rows are needed for an interval.

    The bias is about proportional to 1 / n, and the standard error to 1 / sqrt(n).
    """
    digits = 10 ** max(math.floor(math.log10(n_needed)) - 1, 0)
    return (
        f"without shift and with {n:,} rows, the estimate is too {'low' if bias < 0 else 'high'} by "
        f"about {100 * abs(bias):.1f} points; about {math.ceil(n_needed / digits) * digits:,} rows "
        "of source and target are needed"
    )


def _temperature_variance(source: Predictions, rows: Predictions) -> float:
    """Return the variance of the mean confidence of `rows` due to the temperature's error.

    The temperature maximizes the likelihood of the source rows. The variance is that of the delta
    method, with the Fisher information of 1 / temperature.
    """
    sample = source.rows(slice(None, None, -(-source.n // MAX_VARIANCE_ROWS)))
    _, squares = _logit_moments(sample)
    slope, _ = _logit_moments(rows)
    information = source.n * float(squares.mean())
    return float(slope.mean()) ** 2 / information if information > 0 else 0.0


def _logit_moments(rows: Predictions) -> tuple[Floats, Floats]:
    """Return the derivative of each confidence by 1 / temperature, and the variance of the logits.

    The variance of the logits of a row is that over classes, weighted by their probabilities.
    """
    logs = rows.log_probs.astype(np.float64)
    probs = np.exp(logs)
    logs = np.maximum(logs, MIN_LOG_PROBABILITY)
    mean = (probs * logs).sum(axis=1)
    variance = (probs * (logs - mean[:, None]) ** 2).sum(axis=1)
    index = np.arange(rows.n), rows.classes
    return probs[index] * (logs[index] - mean), variance


def _resample_rows(rows: Predictions, rng: np.random.Generator) -> Predictions:
    return rows.rows(rng.integers(rows.n, size=rows.n))


def make_runs(
    estimators: Sequence[Estimator], source: LearnedSource, *, seed: int, replicates: int
) -> dict[str, EstimatorRun]:
    """Return one run per estimator by name."""
    return {
        estimator.name: EstimatorRun(estimator, source, seed, replicates)
        for estimator in estimators
    }


def run_all(
    runs: Mapping[str, EstimatorRun],
    target: Predictions,
    *,
    totals: Mapping[str, Any] | None = None,
    n_target: int | None = None,
    skipped: Mapping[str, str] | None = None,
    progress: ProgressCallback | None = None,
) -> tuple[dict[str, Estimate], dict[str, str]]:
    """Return the estimates by method, and the reason for each method that is not applicable.

    If `totals` has the sums of a method over `n_target` rows, the estimate is computed from these
    sums, otherwise from the target rows. Methods in `skipped` are not run.
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
            if name in totals:
                estimates[name] = run.from_total(totals[name], target, n_target or target.n)
            else:
                estimates[name] = run.run(target)
        except NotApplicable as reason:
            reasons[name] = str(reason)
    return estimates, reasons
