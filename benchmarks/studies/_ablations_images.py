"""Ablations of neighborhood invariance on heads of the PACS study (Ng et al., TMLR 2023, §5.4).

Number of images, number of draws, magnitude, and the entropy rule (NI Fig. 4 and 5), with one seed of
each head on EfficientNet-Lite0 of the pool pacs_heads. The levels of an ablation, such as 50 and 500
images, are compared as measures: Micro τ with intervals by a bootstrap over models.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.studies._ablation_runs import Judged as Decisions
from benchmarks.studies._ablation_runs import block_values
from benchmarks.studies._pages import Table
from oodometer import transforms as registry
from oodometer.core.array_types import Bools, Floats
from oodometer.core.protocols import Dataset, Model, Transform
from oodometer.core.stats import rng_for
from oodometer.data.dataset import ConcatDataset
from oodometer.models.inference import predict_dataset
from oodometer.neighborhood import invariance
from oodometer.neighborhood.results import ENTROPY_LIMIT
from oodometer.studies.analysis.evaluation_table import EvaluationTable
from oodometer.studies.analysis.model_bootstrap import (
    MeasureDifference,
    bootstrap_statistics,
    compare_two_measures,
)
from oodometer.studies.splits import sample_rows
from oodometer.studies.training import checkpoint
from oodometer.studies.training.config import TrainingConfig
from oodometer.studies.training.spec import PoolSpec
from oodometer.transforms import RandAugment, Translate

POOL = Path(__file__).parent.parent / "pools" / "pacs_heads.toml"
BODY, SEED = "efficientnet-lite0@96", 0
# Images per domain and draws of the study, whose features are cached.
IMAGES, DRAWS = 500, 5
# Images per domain where other transforms than those of the study are applied.
FEWER_IMAGES = 200
SIZES, SAMPLES = (500, 200, 100, 50, 20, 10), 10
COUNTS = (1, 2, 3, 5)
STRENGTHS: tuple[Transform, ...] = (
    *(RandAugment(magnitude=m) for m in (1, 5, 10, 15, 20, 25, 30)),
    *(Translate(magnitude=m) for m in (0.02, 0.05, 0.10, 0.20, 0.30, 0.40)),
)
Models = dict[str, tuple[TrainingConfig, Model]]


@dataclass(frozen=True, eq=False)
class ImageAblation:
    """One ablation: its levels as measures of a table of evaluations, and facts about each level.

    first, last   levels that are compared with each other
    facts         further cells of each level, by heading
    """

    title: str
    text: str
    evaluations: EvaluationTable
    first: str
    last: str
    facts: Mapping[str, Mapping[str, str]]

    def table(self) -> Table:
        """Return the table of levels: Micro τ with its interval, and the facts."""
        taus = bootstrap_statistics(self.evaluations, ["micro_tau"])["micro_tau"]
        rows = []
        for level in self.evaluations.measures:
            low, high = taus.interval(level)
            own = f"{taus.value(level):.3f} ({low:.3f} to {high:.3f})"
            rows.append((level, own, *(cells[level] for cells in self.facts.values())))
        return ("level", "Micro τ, 95 % interval", *self.facts), rows

    def difference(self) -> MeasureDifference:
        """Return Micro τ of the last level minus that of the first, with its interval."""
        return compare_two_measures(self.evaluations, self.last, self.first, statistic="micro_tau")


def image_ablations(data: Path) -> list[ImageAblation]:
    """Run all ablations on PACS; the pool must be trained (make study-pacs)."""
    return [by_size(data), by_draws(data), by_magnitude(data), by_transform(data)]


# Models, images and decisions ---------------------------------------------------------------------


@cache
def heads(data: Path) -> Models:
    """Return the heads on one body, of one seed, without augmentation."""
    spec = PoolSpec.open(POOL, data=data)
    folder = Path("pools") / spec.name
    return {
        config.id: (config, checkpoint.load_model(folder / config.id))
        for config in spec.recipes()
        if config.settings["body"] == BODY and config.seed == SEED and config.augment == "none"
    }


@cache
def test_domains(data: Path) -> dict[str, Dataset]:
    """Return all rows of each domain."""
    group = PoolSpec.open(POOL, data=data).group
    return {
        name: ConcatDataset(name, (group.domain(name, "train"), group.domain(name, "test")))
        for name in group.domains
    }


def others(data: Path, domain: str) -> Models:
    """Return the heads that were not trained on a domain."""
    return {name: one for name, one in heads(data).items() if domain not in one[0].domains}


@cache
def true_accuracies(data: Path, domain: str) -> Floats:
    """Return the accuracy on all rows of a domain of each head that was not trained on it."""
    rows = test_domains(data)[domain]
    labels = np.asarray(rows.labels)
    return np.array(
        [
            (predict_dataset(model, rows, labelled=False).classes == labels).mean()
            for _, model in others(data, domain).values()
        ]
    )


def decide(
    data: Path, domain: str, transform: str | Transform, images: int, draws: int
) -> Decisions:
    """Return the decisions of all other heads on images of a domain and their transformed copies."""
    whole = test_domains(data)[domain]
    rows = whole.rows(sample_rows(whole.keys, images, SEED))
    models = {name: model for name, (_, model) in others(data, domain).items()}
    found = invariance(models, rows, transform=transform, draws=draws, seed=SEED)
    labels = np.asarray(rows.labels)
    right: Bools = np.stack([one.counts.classes[:, 0] == labels for one in found])
    return Decisions(found, right)


def to_table(data: Path, levels: Mapping[str, Mapping[str, Floats]]) -> EvaluationTable:
    """Return a table of evaluations from values by level and test domain."""
    columns: dict[str, list[Any]] = {
        name: [] for name in ("model", "trained_on", "tested_on", "accuracy", *levels)
    }
    for domain in test_domains(data):
        models = others(data, domain)
        columns["model"] += list(models)
        columns["trained_on"] += [config.domains[0] for config, _ in models.values()]
        columns["tested_on"] += [domain] * len(models)
        columns["accuracy"] += true_accuracies(data, domain).tolist()
        for level, values in levels.items():
            columns[level] += values[domain].tolist()
    return EvaluationTable.read(columns, measures=list(levels))


# Ablations ----------------------------------------------------------------------------------------


def by_size(data: Path) -> ImageAblation:
    """Vary the number of images; the first samples of each size are the measures' values."""
    rng = rng_for(0, "sizes")
    orders = [rng.permutation(IMAGES) for _ in range(SAMPLES)]
    values: dict[str, dict[str, Floats]] = {f"{size} images": {} for size in SIZES}
    spread: dict[str, list[float]] = {level: [] for level in values}
    for domain in test_domains(data):
        one = decide(data, domain, "randaugment", IMAGES, DRAWS)
        by_image = np.stack([model.by_example("ni") for model in one.found])
        for size, level in zip(SIZES, values, strict=True):
            samples = np.stack([by_image[:, order[:size]].mean(axis=1) for order in orders])
            values[level][domain] = samples[0]
            spread[level].append(float(samples.std(axis=0, ddof=1).mean()))
    return ImageAblation(
        title="PACS: number of images",
        text=(
            f"NI-RandAug on random samples of {IMAGES} images per domain; accuracy on all rows. The "
            f"last column is the standard deviation of NI over {SAMPLES} samples."
        ),
        evaluations=to_table(data, values),
        first=f"{SIZES[-1]} images",
        last=f"{SIZES[0]} images",
        facts={"sd of NI": {level: f"{np.mean(sds):.3f}" for level, sds in spread.items()}},
    )


def by_draws(data: Path) -> ImageAblation:
    """Vary the number of draws."""
    values: dict[str, dict[str, Floats]] = {_draws_level(count): {} for count in COUNTS}
    for domain in test_domains(data):
        one = decide(data, domain, "randaugment", IMAGES, DRAWS)
        for count in COUNTS:
            members = block_values(one, [0, *range(1, count + 1)])
            values[_draws_level(count)][domain] = members["ni"]
    means = {level: np.concatenate(list(each.values())).mean() for level, each in values.items()}
    return ImageAblation(
        title="PACS: number of draws",
        text=f"NI-RandAug on {IMAGES} images per domain, with the first draws of each image.",
        evaluations=to_table(data, values),
        first=_draws_level(COUNTS[0]),
        last=_draws_level(COUNTS[-1]),
        facts={"mean NI": {level: f"{mean:.3f}" for level, mean in means.items()}},
    )


def _draws_level(count: int) -> str:
    return f"{count} draw{'s' if count > 1 else ''}"


def by_magnitude(data: Path) -> ImageAblation:
    """Vary the magnitude of RandAugment and of translations."""
    return _compare_transforms(
        data,
        STRENGTHS,
        names=[f"{one.label} {one.magnitude:g}" for one in STRENGTHS],
        title="PACS: magnitude of the transform",
        ends=(f"{STRENGTHS[0].label} 1", f"{STRENGTHS[0].label} 15"),
    )


def by_transform(data: Path) -> ImageAblation:
    """Compare all transforms of images; the entropy rule flags some of them."""
    members = registry.available_for_kind("images")
    return _compare_transforms(
        data,
        members,
        names=[one.label for one in members],
        title="PACS: choice of the transform, and the entropy rise",
        ends=("Erase", "RandAug"),
    )


def _compare_transforms(
    data: Path,
    members: Iterable[Transform],
    *,
    names: Sequence[str],
    title: str,
    ends: tuple[str, str],
) -> ImageAblation:
    values: dict[str, dict[str, Floats]] = {name: {} for name in names}
    rises: dict[str, list[float]] = {name: [] for name in names}
    for name, transform in zip(names, members, strict=True):
        for domain in test_domains(data):
            one = decide(data, domain, transform, FEWER_IMAGES, DRAWS)
            values[name][domain] = one.values("ni")
            rises[name].append(float(one.rises.mean()))
    levels = {name: np.concatenate(list(each.values())).mean() for name, each in values.items()}
    return ImageAblation(
        title=title,
        text=(
            f"NI on {FEWER_IMAGES} images per domain with {DRAWS} draws; mean NI and mean entropy "
            f"rise over models and domains. The rule of the paper accepts a rise of at most "
            f"{ENTROPY_LIMIT}."
        ),
        evaluations=to_table(data, values),
        first=ends[0],
        last=ends[1],
        facts={
            "mean NI": {name: f"{level:.3f}" for name, level in levels.items()},
            "entropy rise": {name: f"{np.mean(each):+.3f}" for name, each in rises.items()},
        },
    )
