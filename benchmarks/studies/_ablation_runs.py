"""Computations for the ablations of neighborhood invariance; ablations.py writes the page.

Ng, Hulkund, Cho & Ghassemi, TMLR 2023, §5.4. Small networks trained on MNIST are tested on USPS, and
classifiers of reviews on reviews of other product categories.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import quality_invariance_sentiment as sentiment
from benchmarks._digit_classifiers import Recipe, handwritten, noisy, trained, training_digits
from benchmarks._pool_ranking import Pool
from benchmarks.quality_invariance_digits import RECIPES, taus
from oodometer.core.array_types import Array, Bools, Floats, Ints
from oodometer.core.protocols import Dataset, Model, Transform
from oodometer.core.random_streams import RowStreams
from oodometer.core.stats import rng_for
from oodometer.neighborhood import results
from oodometer.neighborhood._invariance import invariance
from oodometer.neighborhood.results import InvarianceResult
from oodometer.transforms import SSMBA, RandAugment, RandomReplacement
from oodometer.transforms.color_ops import Image

IMAGES, DRAWS, MARGIN = 2000, 10, 4
SHARES = (0.05, 0.15, 0.25, 0.45, 0.65, 0.85)
WORD_CHANGES: tuple[Transform, ...] = (
    *(RandomReplacement(magnitude=share) for share in SHARES),
    *(SSMBA(magnitude=share) for share in SHARES),
)
TARGETS, TEXTS = ("toys_games", "apparel", "dvd", "kitchen_housewares"), 120
# τ by measure: one value per sample, or per block of draws.
Taus = dict[str, Floats]


@dataclass(frozen=True, eq=False)
class Judged:
    """Invariance of several models on labelled data; `right` has shape (models, n)."""

    found: InvarianceResult
    right: Bools

    @property
    def truth(self) -> Floats:
        """Return the accuracy of every model."""
        return np.asarray(self.right.mean(axis=1))

    @property
    def rises(self) -> Floats:
        """Return how much the transform raises the entropy of every model's predictions."""
        return np.array([one.entropy_difference for one in self.found])

    def values(self, measure: str) -> Floats:
        """Return the value of every model."""
        return np.array([one.mean_with_interval(measure).value for one in self.found])

    def tau(self, measure: str, rows: slice = slice(None)) -> float:
        """Return Kendall's τ between a measure and accuracy over the selected models."""
        return taus({measure: self.values(measure)[rows]}, self.truth[rows])[measure]

    def tau_error(self, measure: str, rows: slice = slice(None)) -> float:
        """Return the jackknife standard error of that τ over models."""
        scores, truth = self.values(measure)[rows], self.truth[rows]
        m = len(truth)
        left = [np.delete(np.arange(m), out) for out in range(m)]
        found = np.array([taus({"": scores[rest]}, truth[rest])[""] for rest in left])
        return float(np.sqrt((m - 1) * found.var()))

    def excess(self, measure: str, known: slice, asked: slice) -> float:
        """Return the mean overestimate of other models' accuracy by a line through known models."""
        scores, truth = self.values(measure), self.truth
        slope, start = np.polyfit(scores[known], truth[known], 1)
        return float((start + slope * scores[asked] - truth[asked]).mean())


def judged(
    models: Any,
    data: Dataset,
    transform: str | Transform,
    *,
    draws: int = DRAWS,
    reference: Dataset | None = None,
) -> Judged:
    """Compute the invariance of all models on the same transformed inputs."""
    found = invariance(models, data, transform=transform, draws=draws, transform_data=reference)
    labels = np.asarray(data.labels)
    return Judged(found, np.stack([one.counts.classes[:, 0] == labels for one in found]))


@cache
def usps(digits: Path) -> Dataset:
    return handwritten(digits / "usps.npz", n=IMAGES)


@cache
def pool(digits: Path) -> tuple[Model, ...]:
    """Train the networks of the digits benchmark on unmodified images."""
    images, labels = training_digits(digits / "mnist.npz", margin=MARGIN)
    return tuple(trained(recipe, images, labels) for recipe in RECIPES)


@cache
def augmented_pool(digits: Path) -> tuple[Model, ...]:
    """Train the same networks, with the same wrong labels, on images under RandAugment."""
    images, labels = training_digits(digits / "mnist.npz", margin=MARGIN)
    copies = changed_copies(images, max(recipe.epochs for recipe in RECIPES))
    return tuple(trained_on_copies(recipe, copies, labels) for recipe in RECIPES)


def changed_copies(images: Image, count: int) -> list[Image]:
    """Return copies of all images, each under its own RandAugment draw."""
    keys = np.arange(len(images), dtype=np.uint64)
    return [
        np.asarray(RandAugment().apply(images, RowStreams(0, keys, np.full(len(images), number))))
        for number in range(1, count + 1)
    ]


def trained_on_copies(recipe: Recipe, copies: Sequence[Image], labels: Ints) -> Model:
    """Train with as many steps as on plain images: one epoch per augmented copy."""
    rng = np.random.default_rng([recipe.seed, recipe.width, recipe.epochs])
    # Label noise is drawn here, as in `trained`, so that all copies have the same wrong labels.
    wanted = np.tile(noisy(labels, recipe.noise, rng), recipe.epochs)
    images = np.concatenate(copies[: recipe.epochs])
    return trained(replace(recipe, noise=0.0, epochs=1), images, wanted)


def _columns(rows: Sequence[Mapping[str, float]]) -> Taus:
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


def by_size(one: Judged, sizes: Sequence[int], samples: int) -> dict[int, Taus]:
    """Return τ of measures, and of accuracy, on random subsets of the data, by size.

    The reference is always the accuracy on all of the data.
    """
    every: dict[str, Array] = {
        name: np.stack([model.by_example(name) for model in one.found]) for name in ("ni", "pa")
    }
    every["labels"] = one.right
    rng, n = rng_for(0, "sizes"), one.right.shape[1]

    def told(rows: Ints) -> dict[str, float]:
        means = {name: values[:, rows].mean(axis=1) for name, values in every.items()}
        return taus(means, one.truth)

    return {
        size: _columns([told(rng.permutation(n)[:size]) for _ in range(samples if size < n else 1)])
        for size in sizes
    }


def block_values(one: Judged, columns: Sequence[int]) -> dict[str, Floats]:
    """Return every model's measures for neighborhoods of the given members; 0 is the identity."""
    tables = [model.counts.classes[:, list(columns)] for model in one.found]
    return {
        "ni": np.array([results.neighborhood_invariance(table).mean() for table in tables]),
        "pa": np.array(
            [results.pairwise_agreement(table, identity=True).mean() for table in tables]
        ),
        "pa, draws alone": np.array(
            [results.pairwise_agreement(table, identity=False).mean() for table in tables]
        ),
    }


def by_draws(
    one: Judged, counts: Sequence[int], model: int
) -> tuple[dict[int, Taus], dict[int, Taus]]:
    """Return τ of every block of draws, and the values of one model, by number of draws."""
    found, values = {}, {}
    for count in counts:
        starts = range(1, one.found.draws - count + 2, count)
        blocks = [block_values(one, [0, *range(start, start + count)]) for start in starts]
        found[count] = _columns([taus(block, one.truth) for block in blocks])
        own = [{name: float(each[model]) for name, each in block.items()} for block in blocks]
        values[count] = _columns(own)
    return found, values


def texts_by_share(folder: Path) -> list[tuple[Transform, Floats, str, str]]:
    """Return, for each text transform, τ of all pairs, mean NI and mean entropy rise."""
    domains = sentiment.read(folder / sentiment.FILE, (*sentiment.SOURCES, *TARGETS))
    pools = [sentiment.trained(domains[name]) for name in sentiment.SOURCES]
    models = {name: model for one in pools for name, model in one.named().items()}
    rows = []
    for change in WORD_CHANGES:
        found = [
            judged(models, sample(domains[name].test), change, reference=domains[name].train)
            for name in TARGETS
        ]
        told = np.concatenate([by_pool(one, pools) for one in found])
        rows.append((change, told, *levels(found)))
    return rows


def sample(data: Dataset) -> Dataset:
    order = rng_for(0, "texts", data.name).permutation(len(data))
    return data.rows(order[:TEXTS])


def levels(found: Sequence[Judged]) -> tuple[str, str]:
    """Return the mean NI and the mean entropy rise over models and data."""
    level = np.mean([one.values("ni").mean() for one in found])
    return f"{level:.3f}", f"{np.mean([one.rises.mean() for one in found]):+.3f}"


def by_pool(one: Judged, pools: Sequence[Pool]) -> Floats:
    """Return τ of NI over the models of each pool, in order."""
    ends = np.cumsum([len(each.models) for each in pools])
    parts = (slice(end - len(each.models), end) for each, end in zip(pools, ends, strict=True))
    return np.array([one.tau("ni", part) for part in parts])
