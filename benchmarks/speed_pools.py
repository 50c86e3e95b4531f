"""Training of pools: stacked compared with one by one, and the time spent waiting for batches.

Ratios of CPU time, and shares of the time of a step, in one run on one thread; the script exits with
1 if a bound is missed. Run: make bench
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from benchmarks._results import machine_facts, markdown_table, write_results
from oodometer.core.protocols import Dataset
from oodometer.core.stats import rng_for
from oodometer.data import as_dataset
from oodometer.studies.domains.group import DomainGroup
from oodometer.studies.domains.row_sources import Split
from oodometer.studies.toys import HypersphereToy
from oodometer.studies.toys.hypersphere import is_inside
from oodometer.studies.training._train import train
from oodometer.studies.training.config import Augment, TrainingConfig
from oodometer.studies.training.stacked import train_stacked
from oodometer.testing import toy_inputs

MODELS, LOOPED, FASTER = 200, 20, 2.5
WAIT, ROWS = 0.1, 640
AUGMENTS: tuple[Augment, ...] = ("none", "randaugment", "augmix")


@dataclass(frozen=True)
class OneDomain(DomainGroup):
    """Domain group with a single domain in memory."""

    held: Dataset | None = field(default=None, compare=False)

    def domain(self, name: str, split: Split) -> Dataset:
        assert self.held is not None
        return self.held


def group(held: Dataset) -> DomainGroup:
    return OneDomain("toy", held.kind, ("no", "yes"), (("one", ()),), held=held)


def sphere() -> DomainGroup:
    """Return points around the north pole, labelled as inside or outside the unit hypersphere."""
    toy = HypersphereToy()
    points = toy.sample_domain(toy.sample_centre(0.0, rng_for(0, "pole")), rng_for(0, "train"))
    return group(as_dataset(points, labels=is_inside(points).astype(np.int64)))


def patches() -> DomainGroup:
    """Return images of 32 × 32 pixels."""
    images = np.pad(toy_inputs("images", n=ROWS), ((0, 0), (4, 4), (4, 4), (0, 0)), mode="wrap")
    red = images[..., 0].mean(axis=(1, 2))
    return group(as_dataset(images, labels=(red > np.median(red)).astype(np.int64)))


def perceptrons(count: int) -> list[TrainingConfig]:
    """Return configurations with one hidden layer of 16 units and up to 30 % label noise."""
    noise = rng_for(0, "noise").uniform(0, 0.3, MODELS)
    return [
        TrainingConfig("toy", ("one",), "mlp", seed=seed, lr=0.01, epochs=5, stop_at=None,
               label_noise=float(noise[seed]))
        for seed in range(count)
    ]  # fmt: skip


def cost(recipes: Sequence[TrainingConfig], where: DomainGroup, *, loop: bool) -> float:
    """Return the CPU seconds per model."""
    began = time.process_time()
    if loop:
        for recipe in recipes:
            train(recipe, where)
    else:
        train_stacked(recipes, where)
    return (time.process_time() - began) / len(recipes)


def waits(where: DomainGroup) -> dict[str, float]:
    """Return the share of training time spent waiting for images, by augmentation."""
    found: dict[str, float] = {}
    for augment in AUGMENTS:
        recipe = TrainingConfig(
            "toy", ("one",), "small-cnn", settings={"width": 32}, epochs=3, stop_at=None,
            augment=augment,
        )  # fmt: skip
        train(replace(recipe, epochs=1), where)  # warm-up: late imports are not timed
        found[augment] = float(train(recipe, where).facts["data_wait"])
    return found


def main() -> int:
    where = sphere()
    cost(perceptrons(2), where, loop=True)  # warm-up: late imports are not timed
    cost(perceptrons(2), where, loop=False)
    looped = cost(perceptrons(LOOPED), where, loop=True)
    stacked = cost(perceptrons(MODELS), where, loop=False)
    rows = [(f"{MODELS} toy perceptrons: one by one / stacked", looped / stacked, FASTER, True)]
    rows += [
        (f"share of time waiting for batches, small CNN, augmentation {name}", wait, WAIT, False)
        for name, wait in waits(patches()).items()
    ]
    good = [value >= bound if more else value < bound for _, value, bound, more in rows]
    table = markdown_table(
        ("CPU time on one thread; waiting in wall time", "ratio", "bound", "kept"),
        [
            (name, f"{value:.3g}", f"{'≥' if more else '<'} {bound:g}", "yes" if kept else "NO")
            for (name, value, bound, more), kept in zip(rows, good, strict=True)
        ],
    )
    note = (
        f"A perceptron (1,000 points in 16 dimensions, 5 epochs of 16 steps) took {looped * 1e3:.0f} ms "
        f"of CPU time alone (mean of {LOOPED}) and {stacked * 1e3:.1f} ms stacked. There are {ROWS} "
        "images of 32 × 32 in batches of 64, augmented in a separate thread during the previous step."
    )
    write_results("speed_pools", f"{table}\n\n{note}\n\n{machine_facts()}")
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
