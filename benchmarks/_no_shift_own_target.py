"""The source as its own target: every expected metric is to equal that of the source."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import oodometer
from benchmarks._no_shift_data import Outputs, adult
from oodometer.assessment.cbpe import METRIC_NAMES
from oodometer.assessment.optional_analyses import AdditionalRequests, run_additional
from oodometer.core.predictions import Predictions

POSITIVE_SHARES = (0.01, 0.03, 0.1, 0.5)
DECIMALS = (None, 1, 2, 3)
THRESHOLDS = (0.5, 0.3, 0.8)
SIMULATED_ROWS = 10_000
DATASETS = ("simulation", "simulation, not calibrated", "adult")


@dataclass(frozen=True)
class Setting:
    """Share of positives, decimals of the probabilities, and threshold of the decisions."""

    share: float
    decimals: int | None
    threshold: float


def settings() -> Iterator[Setting]:
    """Yield the rounded probabilities with the threshold ½, and the thresholds without rounding.

    Thresholds other than ½ are also combined with two decimals.
    """
    for share in POSITIVE_SHARES:
        for decimals in DECIMALS:
            yield Setting(share, decimals, 0.5)
        for threshold in THRESHOLDS[1:]:
            yield Setting(share, None, threshold)
            yield Setting(share, 2, threshold)


def simulated(share: float, seed: int, *, calibrated: bool) -> Outputs:
    """Return rows of two classes whose log-odds are those of two normal distributions."""
    rng = np.random.default_rng([seed, round(1000 * share)])
    labels = rng.random(SIMULATED_ROWS) < share
    # The log-odds of means 1 and −1 with variance 1, at equal frequencies, are twice the signal.
    signal = rng.normal(size=SIMULATED_ROWS) + np.where(labels, 1.0, -1.0)
    log_odds = 2 * signal + np.log(share / (1 - share))
    if not calibrated:
        log_odds = 0.6 * np.sign(log_odds) * np.abs(log_odds) ** 1.5 + 0.7
    second = 1 / (1 + np.exp(-log_odds))
    return Outputs(np.column_stack([1 - second, second]), labels.astype(np.int64))


def thinned(rows: Outputs, share: float, seed: int) -> Outputs:
    """Return rows without some positives, or some negatives, so that positives have a share."""
    rng = np.random.default_rng(seed)
    positives, negatives = (rng.permutation(np.flatnonzero(rows.labels == c)) for c in (1, 0))
    n_positives = min(len(positives), round(share / (1 - share) * len(negatives)))
    n_negatives = min(len(negatives), round((1 - share) / share * n_positives))
    index = np.concatenate([positives[:n_positives], negatives[:n_negatives]])
    return rows.rows(rng.permutation(index))


def outputs(dataset: str, data: Path, share: float, seed: int) -> Outputs:
    if dataset == "adult":
        return thinned(adult(data, seed), share, seed)
    return simulated(share, seed, calibrated=dataset == "simulation")


def measure_own_target(dataset: str, data: Path, seed: int) -> list[dict[str, Any]]:
    """Return value, interval and source value of every metric in every setting."""
    results = []
    cases = {share: outputs(dataset, data, share, seed) for share in POSITIVE_SHARES}
    for setting in settings():
        rows = _predictions(cases[setting.share], setting)
        reference = oodometer.Reference(rows, methods="ac")
        additional = run_additional(AdditionalRequests(metrics=METRIC_NAMES), reference, rows)
        for metric in additional.metrics:
            if metric.value is None or metric.source_value is None:
                continue
            results.append(
                {
                    "share": setting.share,
                    "decimals": setting.decimals,
                    "threshold": setting.threshold,
                    "metric": metric.metric,
                    "scope": metric.scope,
                    "value": metric.value,
                    "low": metric.low,
                    "high": metric.high,
                    "source": metric.source_value,
                }
            )
    return results


def _predictions(rows: Outputs, setting: Setting) -> Predictions:
    second = rows.probs[:, 1]
    if setting.decimals is not None:
        second = second.round(setting.decimals)
    probs = np.column_stack([1 - second, second]).round(setting.decimals or 12)
    predictions = Predictions.from_probs(probs, labels=rows.labels)
    return predictions if setting.threshold == 0.5 else predictions.decide(setting.threshold)
