"""Pools of classifiers on data of other domains: how well a measure ranks them, beside ATC."""

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
    """The classifiers of one source, and what they say of labelled rows that were held out."""

    source: str
    models: tuple[Model, ...]
    held_out: tuple[Predictions, ...]

    def named(self) -> dict[str, Model]:
        return {f"{self.source} {number}": model for number, model in enumerate(self.models)}


@dataclass(frozen=True)
class Pair:
    """What was found of one source's pool on one target: a value a model.

    `rises` are entropy differences; `degenerate` counts the models that are nearly constant.
    """

    source: str
    target: str
    accuracy: Floats
    scores: dict[str, Floats]
    rises: dict[str, Floats]
    degenerate: int

    def tau(self, measure: str) -> float:
        """Kendall's τ between a measure and accuracy over the pool."""
        from scipy.stats import kendalltau

        return float(kendalltau(self.scores[measure], self.accuracy).statistic)


def compared(
    pools: Sequence[Pool], sample: Dataset, names: Sequence[str], reference: Dataset
) -> list[Pair]:
    """Every pool on a target, whose rows are changed once for all; transforms learn of `reference`."""
    models = {name: model for pool in pools for name, model in pool.named().items()}
    found = [
        invariance(models, sample, transform=name, draws=DRAWS, transform_data=reference, threads=0)
        for name in names
    ]
    return [_pair(pool, sample, found) for pool in pools]


def _pair(pool: Pool, sample: Dataset, found: Sequence[InvarianceResult]) -> Pair:
    said = [predict_dataset(model, sample) for model in pool.models]
    own = {one.measure_label("ni"): [one[name] for name in pool.named()] for one in found}
    scores = {
        name: np.array([m.mean_with_interval("ni").value for m in each])
        for name, each in own.items()
    }
    atc = estimators.get(ATC.lower())
    known = zip(pool.held_out, said, strict=True)
    scores[ATC] = np.array([atc.estimate(source, rows).value for source, rows in known])
    return Pair(
        source=pool.source,
        target=sample.name,
        accuracy=np.array([rows.correct.mean() for rows in said]),
        scores=scores,
        rises={name: np.array([m.entropy_difference for m in each]) for name, each in own.items()},
        degenerate=max(sum(m.degenerate for m in each) for each in own.values()),
    )


def taus(pairs: Sequence[Pair], measure: str) -> Floats:
    """τ of every pair that has the measure."""
    return np.array([pair.tau(measure) for pair in pairs if measure in pair.scores])


def rises(pairs: Sequence[Pair], measure: str) -> Floats:
    """Entropy differences of every pair and model that have the measure; ATC has none."""
    parts = [pair.rises[measure] for pair in pairs if measure in pair.rises]
    return np.concatenate(parts) if parts else np.array([])


def standard_error(values: Floats) -> float:
    return float(values.std(ddof=1) / np.sqrt(len(values)))


HEAD = ("measure", "pairs", "mean τ ± s.e.", "s.d.", "least", "τ > 0", "entropy difference")


def row(pairs: Sequence[Pair], measure: str) -> tuple[str, ...]:
    """One measure's line of the table."""
    found, raised = taus(pairs, measure), rises(pairs, measure)
    return (
        measure,
        str(len(found)),
        f"{found.mean():.2f} ± {standard_error(found):.2f}",
        f"{found.std(ddof=1):.2f}",
        f"{found.min():.2f}",
        f"{(found > 0).mean():.0%}",
        f"{raised.mean():+.3f}" if len(raised) else "",
    )


def beside_atc(pairs: Sequence[Pair], measures: Sequence[str]) -> str:
    """How far each measure's τ is above or below that of ATC, and what follows."""
    gaps = {measure: taus(pairs, measure) - taus(pairs, ATC) for measure in measures}
    listed = ", ".join(
        f"{measure} {gap.mean():+.2f} ± {standard_error(gap):.2f} ({_verdict(gap)})"
        for measure, gap in gaps.items()
    )
    return f"τ less that of ATC-MC on the same pairs: {listed}."


def _verdict(gap: Floats) -> str:
    if abs(gap.mean()) <= 2 * standard_error(gap):
        return "no clear difference"
    return "ranks better" if gap.mean() > 0 else "ranks worse"
