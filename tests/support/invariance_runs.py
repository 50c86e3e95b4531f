"""Invariance results of made-up models on every kind of inputs, with their samplers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from oodometer.core import inputs as batches
from oodometer.core.inputs import INPUT_KINDS, InputKind
from oodometer.core.predictions import Predictions
from oodometer.core.protocols import Model, Transform
from oodometer.core.random_streams import RowStreams
from oodometer.data import as_dataset
from oodometer.neighborhood._invariance import invariance
from oodometer.neighborhood.ranking import Ranking, rank
from oodometer.neighborhood.results import InvarianceResult
from oodometer.neighborhood.sampling import NeighborhoodSampler


@dataclass(frozen=True)
class Nudge(Transform):
    """Transform that adds the draw index modulo 3: draws 3, 6, … change nothing."""

    name: ClassVar[str] = "nudge"
    label: ClassVar[str] = "Nudge"
    kinds: ClassVar[tuple[InputKind, ...]] = INPUT_KINDS
    assumes: ClassVar[str] = "nothing"
    magnitude: float = 2.0

    def apply(self, inputs: Any, draws: RowStreams) -> Any:
        steps = draws.draw_index % 3
        if isinstance(inputs, list):
            return [_longer(row, int(step)) for row, step in zip(inputs, steps, strict=True)]
        if isinstance(inputs, pa.Table):
            first = inputs.column(0).to_numpy() + steps
            return inputs.set_column(0, inputs.column_names[0], pa.array(first))
        return inputs + steps.reshape(-1, *[1] * (inputs.ndim - 1)).astype(inputs.dtype)


def _longer(row: Any, step: int) -> Any:
    if isinstance(row, tuple):
        return (row[0], _longer(row[1], step))
    return row + f" <b>{step}</b>" * (step > 0)


@dataclass(frozen=True)
class Hashed:
    """Classifier by a hash of the row; with `sure`, it returns probabilities."""

    name: str
    salt: int = 1
    names: tuple[str, ...] | None = ("cat", "dog & co", "größe")
    sure: float | None = None

    def classify(self, inputs: Any) -> Predictions:
        k = len(self.names or "abc")
        classes = (batches.hash_rows(inputs) // np.uint64(self.salt) % np.uint64(k)).astype(int)
        if self.sure is None:
            return Predictions.from_classes(classes, k=k, class_names=self.names)
        probs = np.full((len(classes), k), (1 - self.sure) / (k - 1))
        probs[np.arange(len(classes)), classes] = self.sure
        return Predictions.from_probs(probs, class_names=self.names)


@dataclass(frozen=True, eq=False)
class InvarianceRun:
    """Result of a run, and the sampler that draws its neighborhoods again."""

    found: InvarianceResult
    show: NeighborhoodSampler


def run_invariance(data: Any, *models: Model, draws: int = 6, **options: Any) -> InvarianceRun:
    given = {model.name: model for model in models or (Hashed("first"),)}
    dataset = as_dataset(data)
    found = invariance(given, dataset, transform=Nudge(), draws=draws, **options)
    return InvarianceRun(found, NeighborhoodSampler(dataset, Nudge(), found.seed))


def run_ranking(data: Any, *models: Model, **options: Any) -> tuple[Ranking, NeighborhoodSampler]:
    given = {model.name: model for model in models}
    dataset = as_dataset(data)
    return rank(given, dataset, transform=Nudge(), **options), NeighborhoodSampler(
        dataset, Nudge(), 0
    )


def images(n: int, *shape: int) -> Any:
    return np.random.default_rng(n).integers(0, 200, size=(n, *shape), dtype=np.uint8)


HOSTILE_TEXT = "<script>alert(1)</script>"
TEXTS = ["a good film", f"a {HOSTILE_TEXT} film", "so & so", "word"]
DATA: dict[str, Any] = {
    "grey": images(4, 8, 8),
    "color": images(4, 200, 300, 3),
    "text": TEXTS,
    "pairs": [(text, text[::-1]) for text in TEXTS],
    "vectors": np.random.default_rng(0).normal(size=(4, 40)),
    "table": pa.table({"size <b>": [1.5, 2.5, 3.5, 4.5], "color": ["red", "blue", "red", None]}),
}
