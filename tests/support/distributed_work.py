"""Models, tasks and runners that worker processes can import."""

from __future__ import annotations

import os
import pickle
import random
import signal
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from oodometer.core.predictions import Predictions
from oodometer.core.protocols import Need
from oodometer.measures.subject import Subject
from oodometer.neighborhood.results import InvarianceResult
from oodometer.parallel.runners import Runner
from oodometer.parallel.worker_pool import capture_outcome


def mailed(seed: int) -> Runner:
    """Return a runner that pickles tasks and results, as workers do, and shuffles the order."""

    def run(work: Callable[[Any], Any], tasks: Sequence[Any]) -> Generator[tuple[Any, Any]]:
        there = pickle.loads(pickle.dumps(work))
        for task in random.Random(seed).sample(tasks, len(tasks)):
            done = capture_outcome(there, pickle.loads(pickle.dumps(task)))
            yield task, pickle.loads(pickle.dumps(done))

    return run


@dataclass(frozen=True)
class Bright:
    """Classifier of images by the brightness of every second pixel; chaotic if `wild`."""

    name: str = "bright"
    wild: float = 0.0

    def classify(self, inputs: Any) -> Predictions:
        flat = inputs.reshape(len(inputs), -1).astype(np.float64)
        gap = flat[:, ::2].mean(axis=1) - flat[:, 1::2].mean(axis=1)
        waves = np.sin(self.wild * flat.sum(axis=1))
        return Predictions.from_logits(np.stack([gap / 9, waves, -gap / 9], axis=1))


@dataclass(frozen=True)
class Words:
    """Classifier of texts by the number of letters e; classes only."""

    name: str = "words"

    def classify(self, inputs: Any) -> Predictions:
        return Predictions.from_classes([text.count("e") % 3 for text in inputs], k=3)


@dataclass(frozen=True)
class Columns:
    """Classifier of table rows by the sum of their numbers."""

    name: str = "columns"

    def classify(self, inputs: Any) -> Predictions:
        numbers = [column.to_pylist() for column in inputs.columns]
        plain = [[v if isinstance(v, float) else 0.3 for v in some] for some in numbers]
        total = np.sin(7 * np.array(plain).sum(axis=0))
        return Predictions.from_logits(np.stack([total, -total], axis=1))


@dataclass(frozen=True)
class Mortal(Bright):
    """Model that kills the first other process in which it classifies."""

    trace: Path = Path()
    home: int = field(default_factory=os.getpid)

    def classify(self, inputs: Any) -> Predictions:
        if os.getpid() != self.home and not self.trace.exists():
            self.trace.mkdir()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().classify(inputs)


@dataclass(frozen=True)
class Confident:
    """Mean confidence on the target."""

    name: str = "confident"
    label: str = "Confident"
    needs: tuple[Need, ...] = ("outputs",)
    assumes: str = "nothing"
    paper: str = "none"

    def measure(self, subject: Subject) -> float:
        return float(subject.target.outputs.confidence.mean())


@dataclass(frozen=True)
class MortalMeasure(Confident):
    """Measure that kills the first worker that computes it."""

    trace: Path = Path()
    home: int = field(default_factory=os.getpid)

    def measure(self, subject: Subject) -> float:
        if os.getpid() != self.home and not self.trace.exists():
            self.trace.mkdir()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().measure(subject)


@dataclass(frozen=True)
class Adding:
    """Task that adds a number, and fails on one input."""

    more: int = 1
    fails: int | None = None

    def __call__(self, task: int) -> int:
        if task == self.fails:
            raise ValueError(f"no luck with {task}")
        return task + self.more

    def payload(self) -> Mapping[str, Any]:
        return {"The number": self.more}


def everything(found: InvarianceResult) -> tuple[Any, ...]:
    """Return all values of a result, for bitwise comparison."""
    arrays = [
        part.tobytes()
        for one in found
        for part in (one.positions, *vars(one.counts).values())
    ]  # fmt: skip
    return found.to_dict(), arrays, [one.class_names for one in found]
