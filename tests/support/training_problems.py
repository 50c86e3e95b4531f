"""Domain group in memory, and toy problems that small networks can learn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from oodometer.core.array_types import Ints
from oodometer.core.inputs import Inputs
from oodometer.core.protocols import Dataset
from oodometer.data.dataset import InMemoryDataset
from oodometer.studies.domains.group import DomainGroup
from oodometer.studies.training._train import TrainedModel
from oodometer.studies.training.architectures.base import InputShape
from oodometer.studies.training.config import TrainingConfig
from oodometer.testing import toy_inputs

TINY_TEXT = {"width": 4, "embedding": 6, "hidden": 5, "length": 24, "vocabulary": 280}


@dataclass(frozen=True)
class InMemoryGroup(DomainGroup):
    """Domain group that holds its training and test datasets in memory."""

    datasets: Mapping[str, Dataset] = field(default_factory=dict, compare=False)
    test_datasets: Mapping[str, Dataset] = field(default_factory=dict, compare=False)

    def domain(self, name: str, split: str) -> Dataset:
        return (self.datasets if split == "train" else self.test_datasets)[name]

    def missing_reason(self, *names: str) -> str | None:
        return None


def group(
    inputs: Inputs,
    labels: Ints | None,
    *,
    classes: int = 2,
    test_rows: Mapping[str, Dataset] | None = None,
    **others: Dataset,
) -> DomainGroup:
    """Return a group with the domain `one`, and others; `test_rows` are their test splits."""
    datasets = {"one": InMemoryDataset("one", inputs, labels), **others}
    names = tuple(f"class {number}" for number in range(classes))
    sources = tuple((name, ()) for name in datasets)
    return InMemoryGroup(
        "toy",
        datasets["one"].kind,
        names,
        sources,
        datasets=datasets,
        test_datasets=test_rows or {},
    )


def vectors(n: int = 90, seed: int = 0) -> tuple[Inputs, Ints]:
    """Return vectors of ten numbers; the class is whether the first is positive."""
    inputs = np.random.default_rng(seed).normal(size=(n, 10))
    return inputs, (inputs[:, 0] > 0).astype(np.int64)


def images(n: int = 40) -> tuple[Inputs, Ints]:
    """Return small images; the class is whether there is much red."""
    inputs = toy_inputs("images", n=n)
    red = inputs[..., 0].mean(axis=(1, 2))
    return inputs, (red > np.median(red)).astype(np.int64)


def texts(n: int = 30) -> tuple[Inputs, Ints]:
    """Return sentences; the class is whether one of two words occurs."""
    inputs = toy_inputs("text", n=n)
    return inputs, np.array(["good" in row or "bad" in row for row in inputs], dtype=np.int64)


def recipe(architecture: str = "mlp", **settings: object) -> TrainingConfig:
    """Return a training configuration for the domain `one`, with three epochs by default."""
    options = {"epochs": 3, "batch": 16, "lr": 1e-2, **settings}
    return TrainingConfig("toy", ("one",), architecture, **options)  # type: ignore[arg-type]


def untrained_model(one: TrainingConfig | None = None, **facts: float) -> TrainedModel:
    """Return a model with random weights."""
    rng = np.random.default_rng(0)
    sizes = {"1.weight": (16, 10), "1.bias": (16,), "4.weight": (2, 16), "4.bias": (2,)}
    weights = {name: rng.normal(size=size).astype(np.float32) for name, size in sizes.items()}
    shape = InputShape("vectors", 2, (10,))
    return TrainedModel(
        one or recipe(), shape, ("no", "yes"), weights, True, {"loss": 0.5, **facts}
    )
