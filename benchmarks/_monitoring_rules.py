"""Alarm rules on many simulated streams of batch means at once; each returns the first alarm."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from oodometer.core.array_types import Floats, Ints
from oodometer.monitor.e_detector import DetectorSettings, DetectorState, update

# First alarm of a stream without an alarm.
NEVER = -1


@dataclass(frozen=True)
class Streams:
    """Batch means of streams (streams × batches), rows per batch, level m0 and mean of the source."""

    means: Floats
    n: int
    level: float
    source_mean: float
    alpha: float

    @property
    def deviation(self) -> float:
        return float(np.sqrt(self.source_mean * (1 - self.source_mean) / self.n))


Rule = Callable[[Streams], Ints]


def first_alarms(alarms: np.ndarray) -> Ints:
    """Return the number of the first batch with an alarm; NEVER if there is none."""
    return np.where(alarms.any(axis=1), alarms.argmax(axis=1), NEVER)


def e_detector(form: str) -> Rule:
    """Return the e-detector, computed for all streams at once."""

    def rule(streams: Streams) -> Ints:
        settings = DetectorSettings(level=streams.level, alpha=streams.alpha, form=form)  # type: ignore[arg-type]
        evidence = log_evidence(streams, settings)
        return first_alarms(evidence >= -np.log(settings.run_alpha(1)))

    return rule


def log_evidence(streams: Streams, settings: DetectorSettings) -> Floats:
    """Return log M of every stream after every batch; `check_twin` compares it with the product."""
    means, n = streams.means, streams.n
    alternatives = settings.alternatives
    wealth = np.full((len(means), len(alternatives)), -np.inf)
    result = np.zeros_like(means)
    t = 0
    for j in range(means.shape[1]):
        if settings.form == "row":
            total = np.rint(means[:, j, None] * n)
            ratios = total * np.log(alternatives / settings.level) + (n - total) * np.log(
                (1 - alternatives) / (1 - settings.level)
            )
        elif j < settings.burn_in:
            continue
        else:
            between = means[:, :j].std(axis=1, ddof=1)
            floor = np.sqrt(settings.level * (1 - settings.level) / n)
            z = (settings.level - means[:, j]) / np.maximum(between, floor)
            ratios = z[:, None] * alternatives - alternatives**2 / 2
        t += 1
        wealth = np.logaddexp(wealth, -np.log(t * (t + 1))) + ratios
        mean_wealth = np.logaddexp.reduce(wealth, axis=1) - np.log(len(alternatives))
        result[:, j] = np.logaddexp(mean_wealth, -np.log(t + 1))
    return result


def check_twin(streams: Streams, form: str, count: int = 5) -> float:
    """Return the largest difference of log M between this module and `oodometer.monitor`."""
    settings = DetectorSettings(level=streams.level, alpha=streams.alpha, form=form)  # type: ignore[arg-type]
    expected = log_evidence(streams, settings)
    largest = 0.0
    for stream in range(count):
        state = DetectorState.start(settings)
        for j, mean in enumerate(streams.means[stream]):
            state = update(settings, state, n=streams.n, total=float(np.rint(mean * streams.n)))
            largest = max(largest, abs(state.log_evidence - expected[stream, j]))
    return largest


def daily_interval(streams: Streams) -> Ints:
    """Alarm if the one-sided 95 % bound of a batch mean is below the level: a test per batch."""
    return first_alarms(streams.means + 1.645 * streams.deviation < streams.level)


def daily_bonferroni(streams: Streams) -> Ints:
    """Alarm at the level, with the rate divided by the number of batches."""
    z = NormalDist().inv_cdf(1 - streams.alpha / streams.means.shape[1])
    return first_alarms(streams.means + z * streams.deviation < streams.level)


def running_mean(streams: Streams) -> Ints:
    """Alarm if a confidence sequence of the running mean is below the level (normal mixture)."""
    t = np.arange(1, streams.means.shape[1] + 1)
    sums = np.cumsum(streams.means - streams.level, axis=1) / streams.deviation
    rho = 10.0
    bound = np.sqrt((t + rho) * np.log((t + rho) / (rho * streams.alpha**2)))
    return first_alarms(-sums >= bound)


def three_sigma(streams: Streams) -> Ints:
    """Alarm beyond three standard deviations of the batch means of the source (NannyML's rule)."""
    return first_alarms(streams.means < streams.source_mean - 3 * streams.deviation)


def cusum(threshold: float) -> Rule:
    """Return Page's CUSUM for a fall of two points, with a threshold in standard deviations."""

    def rule(streams: Streams) -> Ints:
        steps = (streams.source_mean - 0.01 - streams.means) / streams.deviation
        return first_alarms(_cusum(steps) >= threshold)

    return rule


def _cusum(steps: Floats) -> Floats:
    result = np.zeros_like(steps)
    current = np.zeros(len(steps))
    for j in range(steps.shape[1]):
        current = np.maximum(current + steps[:, j], 0.0)
        result[:, j] = current
    return result


def tuned_cusum(quiet: Streams) -> Rule:
    """Return CUSUM whose threshold 1 % of other streams without change exceed."""
    steps = (quiet.source_mean - 0.01 - quiet.means) / quiet.deviation
    return cusum(float(np.quantile(_cusum(steps).max(axis=1), 0.99)))


def page_hinkley(streams: Streams) -> Ints:
    """Page–Hinkley on the error of batches, with the default δ = 0.005 of river and λ = 0.05."""
    errors = 1 - streams.means
    t = np.arange(1, errors.shape[1] + 1)
    sums = np.cumsum(errors - np.cumsum(errors, axis=1) / t - 0.005, axis=1)
    return first_alarms(sums - np.minimum.accumulate(sums, axis=1) > 0.05)


def always(streams: Streams) -> Ints:
    """Alarm at the first batch."""
    return np.zeros(len(streams.means), dtype=np.int64)
