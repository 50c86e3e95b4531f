"""Model that accepts any inputs, and a naive implementation of the neighborhood measures."""

from __future__ import annotations

import math
import sys
from collections import Counter
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from oodometer.core import inputs as batches
from oodometer.core.predictions import Predictions
from oodometer.core.protocols import Dataset, Model, Transform
from oodometer.core.random_streams import RowStreams


@dataclass
class ByContent:
    """Model whose logits are a hash of the row; records the number of rows of each call."""

    name: str = "by content"
    k: int = 3
    salt: int = 0
    sharpness: float = 3.0
    hard: bool = False
    shown: list[int] = field(default_factory=list)

    def classify(self, inputs: Any) -> Predictions:
        keys = batches.hash_rows(inputs)
        self.shown.append(len(keys))
        seeds = [int(key) ^ self.salt for key in keys]
        logits = np.stack([np.random.default_rng(seed).normal(size=self.k) for seed in seeds])
        logits[:, 0] += 0.7
        made = Predictions.from_logits(self.sharpness * logits)
        return Predictions.from_classes(made.classes, k=self.k) if self.hard else made


@dataclass(frozen=True)
class NaiveMeasures:
    """Measures of one example, computed from their definitions."""

    ni: float
    ne: float
    ei: float
    pa: float
    rise: float


def naive_measures(
    model: Model, dataset: Dataset, transform: Transform, i: int, draws: int, seed: int,
    identity: bool = True,
) -> NaiveMeasures:  # fmt: skip
    """Transform, classify and count one input at a time."""
    example = dataset.take(np.array([i]))
    first = model.classify(example)
    votes = [int(first.classes[0])] if identity else []
    even, rise = [], []
    for number in range(1, draws + 1):
        drawn = transform.apply(example, RowStreams(seed, dataset.keys[[i]], np.array([number])))
        output = model.classify(drawn)
        votes.append(int(output.classes[0]))
        same = output.classes[0] == first.classes[0]
        even.append(math.sqrt(first.confidence[0] * output.confidence[0]) if same else 0.0)
        rise.append(float(first.negative_entropy[0] - output.negative_entropy[0]))
    shares = [count / len(votes) for count in Counter(votes).values()]
    pairs = [a == b for a, b in combinations(votes, 2)]
    return NaiveMeasures(
        ni=max(shares),
        ne=sum(p * math.log(p) for p in shares),
        ei=sum(even) / draws,
        pa=sum(pairs) / len(pairs),
        rise=sum(rise) / draws,
    )


def forget_modules(folder: Path) -> None:
    """Forget the modules imported from a folder; others stay, as some cannot be imported twice."""
    for name, module in list(sys.modules.items()):
        # vars(), because some modules create attributes on access.
        attributes = vars(module)
        paths = [attributes.get("__file__") or "", *attributes.get("__path__", [])]
        if any(Path(path).is_relative_to(folder) for path in paths):
            del sys.modules[name]
