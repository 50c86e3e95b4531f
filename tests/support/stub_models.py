"""Stand-ins that tests share: a model of anything, and a slow literal twin of the measures."""

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
    """Logits that hang on a row's content as a hash does; remembers how many rows it was shown."""

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
class Literal:
    """The measures of one example, straight from their definitions."""

    ni: float
    ne: float
    ei: float
    pa: float
    rise: float


def literal(
    model: Model, dataset: Dataset, transform: Transform, i: int, draws: int, seed: int,
    identity: bool = True,
) -> Literal:  # fmt: skip
    """One input at a time: transform, classify, count."""
    example = dataset.take(np.array([i]))
    first = model.classify(example)
    votes = [int(first.classes[0])] if identity else []
    even, rise = [], []
    for number in range(1, draws + 1):
        drawn = transform.apply(example, RowStreams(seed, dataset.keys[[i]], np.array([number])))
        said = model.classify(drawn)
        votes.append(int(said.classes[0]))
        same = said.classes[0] == first.classes[0]
        even.append(math.sqrt(first.confidence[0] * said.confidence[0]) if same else 0.0)
        rise.append(float(first.negative_entropy[0] - said.negative_entropy[0]))
    shares = [count / len(votes) for count in Counter(votes).values()]
    pairs = [a == b for a, b in combinations(votes, 2)]
    return Literal(
        ni=max(shares),
        ne=sum(p * math.log(p) for p in shares),
        ei=sum(even) / draws,
        pa=sum(pairs) / len(pairs),
        rise=sum(rise) / draws,
    )


def forget_modules(folder: Path) -> None:
    """Forget the modules imported from a folder, and no others: some can't be imported twice."""
    for name, module in list(sys.modules.items()):
        # What is written down of it only: some modules make up whatever they are asked for.
        known = vars(module)
        places = [known.get("__file__") or "", *known.get("__path__", [])]
        if any(Path(place).is_relative_to(folder) for place in places):
            del sys.modules[name]
