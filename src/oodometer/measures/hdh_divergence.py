"""HΔH-divergence: two heads that fit random source labels and agree on the target.

Vedantam et al., NeurIPS 2021, §7.2, Algorithms 2 and 4.

A head is a classifier on features. Each of the two heads has its own random source labels, which
are drawn once. The heads are trained in alternating gradient steps. On source rows, a head learns
its random labels; on target rows, it learns the current predictions of the other head.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from oodometer.core.array_types import Floats, Ints
from oodometer.core.errors import out_of_range
from oodometer.core.stats import rng_for
from oodometer.measures._domain_classifiers import STEP_ROWS, HeadName, SoftmaxHead
from oodometer.measures.h_divergence import Divergence, DivergenceByHalf, SplitFeatures
from oodometer.measures.subject import Subject
from oodometer.models.model_view import ModelView

# Training has converged if, for both heads, the mean losses over two consecutive windows of steps
# differ by less than this value, in nats.
LOSS_TOLERANCE = 0.005
# Minimum number of steps in a window. A window is rounded up to whole passes over the rows.
WINDOW_STEPS = 100
# Default maximum number of steps of each head.
MAX_STEPS = 3000

HeadPair = tuple[SoftmaxHead, SoftmaxHead]


@dataclass(frozen=True)
class HDeltaHDivergence(Divergence):
    """Accuracy of two heads on random source labels, plus their agreement on the target.

    The accuracy is the mean over both heads. On the test half, random labels cannot be predicted,
    so with k classes the expected value is 1/k plus the share of target rows on which the heads
    agree.

    Parameters
    ----------
    head : {"linear", "larger"}
        Softmax regression, or a multilayer perceptron with three hidden layers.
    half : {"test", "train"}
        Half of the rows on which the accuracies are computed.
    rows : int
        Maximum number of rows of the source and of the target; a random subsample is used if there
        are more.
    steps : int
        Maximum number of gradient steps of each head.

    Examples
    --------
    >>> HDeltaHDivergence("larger", half="train").label
    'H⁺ΔH⁺-divergence (train)'
    """

    steps: int = MAX_STEPS

    symbols: ClassVar[dict[HeadName, tuple[str, str]]] = {
        "linear": ("hdh", "HΔH"),
        "larger": ("hplusdhplus", "H⁺ΔH⁺"),
    }
    assumes: ClassVar[str] = (
        "the better two heads can disagree on the source and agree on the target, the higher the "
        "error there"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.steps < 1:
            raise out_of_range("steps", self.steps, low=1)

    def compute(self, subject: Subject, split: SplitFeatures) -> DivergenceByHalf:
        k = subject.k
        train = split.train.astype(np.float32)
        test = split.test.astype(np.float32)
        labels = random_labels(split.source, k)
        train_labels, test_labels = np.split(labels, [train.shape[1]], axis=1)
        heads = (
            SoftmaxHead(self.head, train.shape[2], k, rng_for(subject.seed, "head", 1)),
            SoftmaxHead(self.head, train.shape[2], k, rng_for(subject.seed, "head", 2)),
        )
        steps, converged = train_heads(heads, train, train_labels, max_steps=self.steps)
        notes = list(split.notes)
        if subject.target.missing("outputs"):
            notes.append("the number of classes is not known: the random labels have 2 classes")
        if not converged:
            notes.append(f"the losses had not converged after {steps:,} steps")
        return DivergenceByHalf(
            train=summed_accuracy(heads, train, train_labels),
            test=summed_accuracy(heads, test, test_labels),
            notes=tuple(notes),
            facts={**split.facts, "classes": k, "steps": steps, "settled": float(converged)},
        )


def random_labels(source: ModelView, k: int) -> Ints:
    """Return one random class per head and row, shape (2, n); it depends on the row content."""
    return np.asarray((source.row_streams("random labels").uniforms(2).T * k).astype(np.int64))


def train_heads(
    heads: HeadPair, sides: Floats, labels: Ints, *, max_steps: int
) -> tuple[int, bool]:
    """Train both heads in alternating steps; return the steps per head and the convergence."""
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
    """Return the mean accuracy of the heads on the source plus their agreement on the target."""
    source, target = sides
    source_accuracies = [
        float((head.classes(source) == own_labels).mean())
        for head, own_labels in zip(heads, labels, strict=True)
    ]
    agreement = float((heads[0].classes(target) == heads[1].classes(target)).mean())
    return sum(source_accuracies) / 2 + agreement
