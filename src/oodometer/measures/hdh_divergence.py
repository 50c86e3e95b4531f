"""HΔH-divergence: how well two heads differ on the source and agree on the target.

DG §7.2, Algorithms 2 and 4. Each head learns random labels on the source, drawn once, and on the
target what the other head says at that moment, in turns of one gradient step.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from oodometer.core.array_types import Floats, Ints
from oodometer.core.errors import InputError
from oodometer.core.stats import rng_for
from oodometer.measures._domain_classifiers import STEP_ROWS, HeadName, SoftmaxHead
from oodometer.measures.h_divergence import Divergence, DivergenceByHalf, SplitFeatures
from oodometer.measures.subject import Subject
from oodometer.models.model_view import ModelView

# Losses have settled when their mean over a window differs from that over the window before by
# less than so many nats; a window is as many whole passes as make so many steps.
LOSS_TOLERANCE, WINDOW_STEPS = 0.005, 100
# Steps of each head that are taken at most.
MAX_STEPS = 3000

HeadPair = tuple[SoftmaxHead, SoftmaxHead]


@dataclass(frozen=True)
class HDeltaHDivergence(Divergence):
    """The sum of two heads' accuracies on random labels of the source and on each other's target.

    On held-out rows random labels can't be known: the value is 1/k, plus the share of the target
    on which the heads agree. `steps` is how many steps each head takes at most.
    """

    steps: int = MAX_STEPS

    symbols: ClassVar[dict[HeadName, tuple[str, str]]] = {
        "linear": ("hdh", "HΔH"),
        "larger": ("hplusdhplus", "H⁺ΔH⁺"),
    }
    assumes: ClassVar[str] = (
        "the better two heads can differ on the source and agree on the target, the more the "
        "model errs there"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.steps < 1:
            raise InputError(f"steps must be at least 1; got {self.steps}. {MAX_STEPS} is usual.")

    def compute(self, subject: Subject, split: SplitFeatures) -> DivergenceByHalf:
        """The sum of accuracies on both halves."""
        k = subject.k
        train, test = split.train.astype(np.float32), split.test.astype(np.float32)
        labels = random_labels(split.source, k)
        known, unknown = np.split(labels, [train.shape[1]], axis=1)
        first, second = (rng_for(subject.seed, "head", number) for number in (1, 2))
        heads = (
            SoftmaxHead(self.head, train.shape[2], k, first),
            SoftmaxHead(self.head, train.shape[2], k, second),
        )
        steps, settled = train_heads(heads, train, known, max_steps=self.steps)
        return DivergenceByHalf(
            summed_accuracy(heads, train, known),
            summed_accuracy(heads, test, unknown),
            notes=(*split.notes, *_notes(subject, steps, settled)),
            facts={**split.facts, "classes": k, "steps": steps, "settled": float(settled)},
        )


def _notes(subject: Subject, steps: int, settled: bool) -> list[str]:
    notes = []
    if subject.target.missing("outputs"):
        notes.append("how many classes there are is not known: the random labels are of 2")
    if not settled:
        notes.append(f"the losses had not settled after {steps:,} steps")
    return notes


def random_labels(source: ModelView, k: int) -> Ints:
    """A class a row for each head, (2, n): by the row's content."""
    return np.asarray((source.row_streams("random labels").uniforms(2).T * k).astype(np.int64))


def train_heads(
    heads: HeadPair, sides: Floats, labels: Ints, *, max_steps: int
) -> tuple[int, bool]:
    """Steps in turns until both losses settle; how many each head took, and whether they did."""
    n = sides.shape[1]
    batches = np.array_split(np.arange(n), math.ceil(2 * n / STEP_ROWS))
    window = len(batches) * math.ceil(WINDOW_STEPS / len(batches))
    losses: list[tuple[float, float]] = []
    while len(losses) < max_steps:
        losses += [
            _step_both(heads, sides[:, rows], labels[:, rows])
            for rows in batches[: max_steps - len(losses)]
        ]
        if len(losses) >= 2 * window and _losses_converged(losses, window):
            return len(losses), True
    return len(losses), False


def _step_both(heads: HeadPair, sides: Floats, labels: Ints) -> tuple[float, float]:
    both, target = np.concatenate(sides), sides[1]
    first = heads[0].step(both, np.concatenate([labels[0], heads[1].classes(target)]))
    second = heads[1].step(both, np.concatenate([labels[1], heads[0].classes(target)]))
    return first, second


def _losses_converged(losses: list[tuple[float, float]], window: int) -> bool:
    last, before = np.mean(losses[-window:], axis=0), np.mean(losses[-2 * window : -window], axis=0)
    return bool(np.all(np.abs(last - before) < LOSS_TOLERANCE))


def summed_accuracy(heads: HeadPair, sides: Floats, labels: Ints) -> float:
    """Both heads' accuracies, summed: half of either's rows are the source, half the target."""
    source, target = sides
    right = [float((h.classes(source) == own).mean()) for h, own in zip(heads, labels, strict=True)]
    agree = float((heads[0].classes(target) == heads[1].classes(target)).mean())
    return sum(right) / 2 + agree
