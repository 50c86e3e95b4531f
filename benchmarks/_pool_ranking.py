"""Ranking of pools of classifiers on other domains: measures compared with ATC."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from oodometer import estimators
from oodometer.core.array_types import Floats
from oodometer.core.predictions import Predictions
from oodometer.core.protocols import Dataset, Model
from oodometer.models.inference import predict_dataset
from oodometer.neighborhood._invariance import invariance
from oodometer.neighborhood.results import InvarianceResult

ATC, DRAWS = "ATC-MC", 10


@dataclass(frozen=True)
class Pool:
    """Classifiers trained on one source, with their predictions on held-out labelled rows."""

    source: str
    models: tuple[Model, ...]
    held_out: tuple[Predictions, ...]

    def named(self) -> dict[str, Model]:
        return {f"{self.source} {number}": model for number, model in enumerate(self.models)}


@dataclass(frozen=True)
class Pair:
    """Results of one source's pool on one target: one value per model.

    `rises` are entropy differences; `degenerate` is the number of nearly constant models.
    """

    source: str
    target: str
    accuracy: Floats
    scores: dict[str, Floats]
    rises: dict[str, Floats]
    degenerate: int

    def tau(self, measure: str) -> float:
        """Return Kendall's τ between a measure and accuracy over the pool."""
        from scipy.stats import kendalltau

        return float(kendalltau(self.scores[measure], self.accuracy).statistic)


def compared(
    pools: Sequence[Pool], sample: Dataset, names: Sequence[str], reference: Dataset
) -> list[Pair]:
    """Evaluate every pool on a target; all models share the transformed rows.

    Transforms are fitted on `reference`.
    """
    models = {name: model for pool in pools for name, model in pool.named().items()}
    results = [
        invariance(models, sample, transform=name, draws=DRAWS, transform_data=reference, threads=0)
        for name in names
    ]
    return [_pair(pool, sample, results) for pool in pools]


def _pair(pool: Pool, sample: Dataset, results: Sequence[InvarianceResult]) -> Pair:
    predictions = [predict_dataset(model, sample) for model in pool.models]
    by_measure = {
        result.measure_label("ni"): [result[name] for name in pool.named()] for result in results
    }
    scores = {
        measure: np.array([model.mean_with_interval("ni").value for model in models])
        for measure, models in by_measure.items()
    }
    atc = estimators.get(ATC.lower())
    scores[ATC] = np.array(
        [
            atc.estimate(source, target).value
            for source, target in zip(pool.held_out, predictions, strict=True)
        ]
    )
    return Pair(
        source=pool.source,
        target=sample.name,
        accuracy=np.array([target.correct.mean() for target in predictions]),
        scores=scores,
        rises={
            measure: np.array([model.entropy_difference for model in models])
            for measure, models in by_measure.items()
        },
        degenerate=max(sum(model.degenerate for model in models) for models in by_measure.values()),
    )


def taus(pairs: Sequence[Pair], measure: str) -> Floats:
    """Return τ of every pair that has the measure."""
    return np.array([pair.tau(measure) for pair in pairs if measure in pair.scores])


def rises(pairs: Sequence[Pair], measure: str) -> Floats:
    """Return the entropy differences of all pairs and models; empty for ATC."""
    parts = [pair.rises[measure] for pair in pairs if measure in pair.rises]
    return np.concatenate(parts) if parts else np.array([])


def standard_error(values: Floats) -> float:
    return float(values.std(ddof=1) / np.sqrt(len(values)))


HEAD = ("measure", "pairs", "mean τ ± s.e.", "s.d.", "minimum", "τ > 0", "entropy difference")


def row(pairs: Sequence[Pair], measure: str) -> tuple[str, ...]:
    """Return the table row of one measure."""
    tau = taus(pairs, measure)
    entropy_rises = rises(pairs, measure)
    return (
        measure,
        str(len(tau)),
        f"{tau.mean():.2f} ± {standard_error(tau):.2f}",
        f"{tau.std(ddof=1):.2f}",
        f"{tau.min():.2f}",
        f"{(tau > 0).mean():.0%}",
        f"{entropy_rises.mean():+.3f}" if len(entropy_rises) else "",
    )


def beside_atc(pairs: Sequence[Pair], measures: Sequence[str]) -> str:
    """Describe the difference between each measure's τ and that of ATC."""
    gaps = {measure: taus(pairs, measure) - taus(pairs, ATC) for measure in measures}
    listed = ", ".join(
        f"{measure} {gap.mean():+.2f} ± {standard_error(gap):.2f} ({_verdict(gap)})"
        for measure, gap in gaps.items()
    )
    return f"τ minus that of ATC-MC on the same pairs: {listed}."


def _verdict(gap: Floats) -> str:
    if abs(gap.mean()) <= 2 * standard_error(gap):
        return "no clear difference"
    return "ranks better" if gap.mean() > 0 else "ranks worse"
