"""Ablations of neighborhood invariance on the heads of a study (Ng et al., TMLR 2023, §5.4).

The levels of an ablation, such as 50 and 500 rows, are compared as measures: Micro τ with intervals
by a bootstrap over models. The true accuracies use all rows of a test domain, and the heads that are
compared on a domain are those that were not trained on it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.studies._pages import Table
from oodometer.core.array_types import Floats
from oodometer.core.protocols import Dataset, Model, Transform
from oodometer.core.stats import rng_for
from oodometer.models.inference import predict_dataset
from oodometer.neighborhood import invariance
from oodometer.neighborhood.results import (
    ENTROPY_LIMIT,
    InvarianceResult,
    neighborhood_invariance,
)
from oodometer.studies.analysis.evaluation_table import EvaluationTable
from oodometer.studies.analysis.model_bootstrap import BootstrapReplicates, bootstrap_statistics
from oodometer.studies.splits import sample_rows
from oodometer.studies.training import checkpoint
from oodometer.studies.training.config import TrainingConfig
from oodometer.studies.training.spec import PoolSpec

STATISTIC = "micro_tau"
# Number of random samples of each number of rows, and the mark before the number of a sample.
SAMPLES, SAMPLE_MARK = 5, " #"
# Value of every model not trained on a test domain, by level and test domain.
Levels = dict[str, dict[str, Floats]]


@dataclass(frozen=True, eq=False)
class TrainedHead:
    """Head with the settings it was trained with."""

    config: TrainingConfig
    model: Model


@dataclass(frozen=True, eq=False, kw_only=True)
class AblationData:
    """Heads and the data on which they are tested.

    name       name of the data in titles
    unit       what a row is, as a plural
    heads      heads by id, of one seed
    domains    all rows of each test domain
    rows       maximum number of rows of a domain with neighborhoods
    draws      number of draws
    prepared   results by transform, test domain, number of rows and number of draws
    """

    name: str
    unit: str
    heads: Mapping[str, TrainedHead]
    domains: Mapping[str, Dataset]
    rows: int
    draws: int
    seed: int = 0
    prepared: dict[tuple[str, str, int, int], InvarianceResult] = field(default_factory=dict)

    def others(self, domain: str) -> dict[str, TrainedHead]:
        """Return the heads that were not trained on a domain."""
        heads = self.heads.items()
        return {name: head for name, head in heads if domain not in head.config.domains}

    def decide(
        self, domain: str, transform: str | Transform, rows: int | None = None
    ) -> InvarianceResult:
        """Return the decisions of all other heads on rows of a domain and on their draws."""
        rows = rows or self.rows
        place = (repr(transform), domain, rows, self.draws)
        if place not in self.prepared:
            whole = self.domains[domain]
            self.prepared[place] = invariance(
                {name: head.model for name, head in self.others(domain).items()},
                whole.rows(sample_rows(whole.keys, rows, self.seed)),
                transform=transform,
                draws=self.draws,
                transform_data=whole,
                seed=self.seed,
            )
        return self.prepared[place]

    @cached_property
    def accuracies(self) -> dict[str, Floats]:
        """Accuracy on all rows of each domain of the heads that were not trained on it."""
        return {
            domain: np.array([_accuracy(head.model, rows) for head in self.others(domain).values()])
            for domain, rows in self.domains.items()
        }

    def to_table(self, levels: Levels) -> EvaluationTable:
        """Return a table of evaluations whose measures are the levels."""
        columns: dict[str, list[Any]] = {
            name: [] for name in ("model", "trained_on", "tested_on", "accuracy", *levels)
        }
        for domain, accuracies in self.accuracies.items():
            heads = self.others(domain)
            columns["model"] += list(heads)
            columns["trained_on"] += [" + ".join(one.config.domains) for one in heads.values()]
            columns["tested_on"] += [domain] * len(heads)
            columns["accuracy"] += accuracies.tolist()
            for level, values in levels.items():
                columns[level] += values[domain].tolist()
        return EvaluationTable.read(columns, measures=list(levels))


def _accuracy(model: Any, rows: Dataset) -> float:
    features = model.feature_rows(rows) if hasattr(model, "feature_rows") else rows
    classes = predict_dataset(model, features, labelled=False).classes
    return float((classes == np.asarray(rows.labels)).mean())


def load_heads(
    spec: PoolSpec, chosen: Callable[[TrainingConfig], bool]
) -> dict[str, TrainedHead] | None:
    """Return the chosen heads of a pool by id; None if they are not trained."""
    folder = Path("pools") / spec.name
    configs = [config for config in spec.recipes() if chosen(config)]
    if not all((folder / config.id).is_dir() for config in configs):
        return None
    return {
        config.id: TrainedHead(config, checkpoint.load_model(folder / config.id))
        for config in configs
    }


# Ablations ----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, kw_only=True)
class Ablation:
    """One ablation: its levels as measures of a table of evaluations, and facts about each level.

    kind      "size", "draws", "magnitude" or "transforms"
    facts     further cells of each level, by heading
    samples   number of consecutive measures of the table that belong to a level; their τ is averaged
    scale     number of each level on the horizontal axis of the picture; empty for no picture
    rises     rise in entropy of each level
    """

    kind: str
    data: str
    title: str
    text: str
    evaluations: EvaluationTable
    facts: Mapping[str, Mapping[str, str]]
    samples: int = 1
    scale: Mapping[str, float] = field(default_factory=dict)
    rises: Mapping[str, float] = field(default_factory=dict)

    @property
    def levels(self) -> tuple[str, ...]:
        names = list(self.evaluations.measures)[:: self.samples]
        return tuple(name.partition(SAMPLE_MARK)[0] for name in names)

    @cached_property
    def taus(self) -> BootstrapReplicates:
        """Micro τ of every level with its replicates."""
        drawn = bootstrap_statistics(self.evaluations, [STATISTIC])[STATISTIC]
        shape = (len(self.levels), self.samples)
        return replace(
            drawn,
            measures=self.levels,
            values=drawn.values.reshape(shape).mean(axis=1),
            replicates=drawn.replicates.reshape(*shape, -1).mean(axis=1),
        )

    def replicates(self, level: str) -> Floats:
        """Return the replicates of Micro τ of a level."""
        return np.asarray(self.taus.replicates[self.taus.measures.index(level)])

    @property
    def best(self) -> str:
        """Level with the highest Micro τ."""
        return max(self.levels, key=self.taus.value)

    def table(self) -> Table:
        """Return the table of levels: Micro τ with its interval, and the facts."""
        rows = []
        for level in self.levels:
            low, high = self.taus.interval(level)
            own = f"{self.taus.value(level):.3f} ({low:.3f} to {high:.3f})"
            rows.append((level, own, *(cells[level] for cells in self.facts.values())))
        return ("level", "Micro τ, 95 % interval", *self.facts), rows

    def rows(self) -> list[dict[str, Any]]:
        """Return one row per level for the Parquet file."""
        return [
            {"data": self.data, "kind": self.kind, "level": level, "scale": self.scale.get(level),
             "micro_tau": self.taus.value(level), "low": self.taus.interval(level)[0],
             "high": self.taus.interval(level)[1], "entropy_rise": self.rises.get(level)}
            for level in self.levels
        ]  # fmt: skip


def by_size(data: AblationData, transform: str | Transform, sizes: Sequence[int]) -> Ablation:
    """Vary the number of rows; τ is averaged over random samples of the rows."""
    rng = rng_for(0, "sizes")
    orders = [rng.permutation(data.rows) for _ in range(SAMPLES)]
    names = [f"{size} {data.unit}" for size in sizes]
    levels: Levels = {f"{name}{SAMPLE_MARK}{i}": {} for name in names for i in range(SAMPLES)}
    spread: dict[str, list[float]] = {name: [] for name in names}
    label = ""
    for domain in data.domains:
        found = data.decide(domain, transform)
        label = found.measure_label("ni")
        by_row = np.stack([model.by_example("ni") for model in found])
        for name, size in zip(names, sizes, strict=True):
            samples = [by_row[:, order[:size]].mean(axis=1) for order in orders]
            for i, values in enumerate(samples):
                levels[f"{name}{SAMPLE_MARK}{i}"][domain] = values
            spread[name].append(float(np.std(samples, axis=0, ddof=1).mean()))
    return Ablation(
        kind="size",
        data=data.name,
        title=f"{data.name}: number of {data.unit}",
        text=(
            f"{label} on random samples of {data.rows} {data.unit} per domain; accuracy on all "
            f"{data.unit}. Mean over {SAMPLES} samples; the last column is the standard deviation "
            "of NI over the samples."
        ),
        evaluations=data.to_table(levels),
        facts={"sd of NI": {name: f"{np.mean(each):.3f}" for name, each in spread.items()}},
        samples=SAMPLES,
        scale=dict(zip(names, map(float, sizes), strict=True)),
    )


def by_draws(data: AblationData, transform: str | Transform, counts: Sequence[int]) -> Ablation:
    """Vary the number of draws; the first draws of every row are used."""
    names = [f"{count} draw{'s' if count > 1 else ''}" for count in counts]
    levels: Levels = {name: {} for name in names}
    label = ""
    for domain in data.domains:
        found = data.decide(domain, transform)
        label = found.measure_label("ni")
        for name, count in zip(names, counts, strict=True):
            tables = [model.counts.classes[:, : count + 1] for model in found]
            levels[name][domain] = np.array(
                [neighborhood_invariance(table).mean() for table in tables]
            )
    return Ablation(
        kind="draws",
        data=data.name,
        title=f"{data.name}: number of draws",
        text=f"{label} on {data.rows} {data.unit} per domain, with the first draws of each.",
        evaluations=data.to_table(levels),
        facts={"mean NI": _means(levels)},
        scale=dict(zip(names, map(float, counts), strict=True)),
    )


def compare_transforms(
    data: AblationData,
    members: Mapping[str, Transform],
    *,
    kind: str,
    title: str,
    rows: int,
    scale: Mapping[str, float] | None = None,
) -> Ablation:
    """Compare transforms, or magnitudes of a transform, by name; state the rise in entropy."""
    levels: Levels = {name: {} for name in members}
    rises: dict[str, list[float]] = {name: [] for name in members}
    for name, transform in members.items():
        for domain in data.domains:
            found = data.decide(domain, transform, rows)
            levels[name][domain] = np.array(
                [model.mean_with_interval("ni").value for model in found]
            )
            rises[name].append(float(np.mean([model.entropy_difference for model in found])))
    mean_rises = {name: float(np.mean(each)) for name, each in rises.items()}
    return Ablation(
        kind=kind,
        data=data.name,
        title=f"{data.name}: {title}",
        text=(
            f"NI on {rows} {data.unit} per domain with {data.draws} draws; mean NI and mean entropy "
            f"rise over models and domains. The paper's rule accepts a rise of at most "
            f"{ENTROPY_LIMIT}."
        ),
        evaluations=data.to_table(levels),
        facts={
            "mean NI": _means(levels),
            "entropy rise": {name: f"{rise:+.3f}" for name, rise in mean_rises.items()},
        },
        scale=scale or {},
        rises=mean_rises,
    )


def _means(levels: Levels) -> dict[str, str]:
    return {
        level: f"{np.concatenate(list(values.values())).mean():.3f}"
        for level, values in levels.items()
    }
