"""Sharpness: how little a change of the weights spoils the training accuracy. DG §7.3.

The magnitude-aware bound of Jiang et al., Fantastic Generalization Measures, ICLR 2020 (Algorithm 3,
whose σ is α). Weights move within |u| ≤ α(|w| + 1); the measure is 1/α² of the largest α whose worst
change keeps the training accuracy. Which change is worst is looked for by gradient ascent, so the true
α may be smaller than the one found.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from math import floor, sqrt
from typing import Any, ClassVar, NamedTuple

import numpy as np

from oodometer.core.array_types import Ints
from oodometer.core.errors import InputError, NotApplicable
from oodometer.core.inputs import Inputs, take
from oodometer.core.optional_imports import torch_package
from oodometer.core.protocols import Need
from oodometer.core.results import Score
from oodometer.core.stats import rng_for
from oodometer.measures.subject import VEDANTAM_2021, Subject
from oodometer.models.introspection.derivatives import enable_gradients
from oodometer.models.introspection.network import Network
from oodometer.models.model_view import ModelView

# α is looked for from the cap halved so many times, and no further down than so many.
FIRST_HALVINGS, MAX_HALVINGS = 10, 40
# About so many are tried.
EXPECTED_TRIES = 18
SlopeFunction = Callable[[Any, int], Any]


class AlphaBracket(NamedTuple):
    """The largest α that holds is not below `low`, and below `high` unless both are the cap."""

    low: float
    high: float


@dataclass(frozen=True)
class Sharpness:
    """1/α² of the largest α at which no change |u| ≤ α(|w| + 1) found costs more than `deviation`.

    deviation  how much of the training accuracy may be lost
    rows       at most so many training rows are looked at
    starts     how many random changes the ascent starts from
    steps      of the ascent, each on `batch` rows
    cap        the largest α tried
    tolerance  α is between two ends of which one is larger by this share; the value is that of
               their geometric mean
    """

    deviation: float = 0.1
    rows: int = 1000
    starts: int = 2
    steps: int = 20
    batch: int = 64
    cap: float = 2.0
    tolerance: float = 0.01

    name: ClassVar[str] = "sharpness"
    label: ClassVar[str] = "Sharpness"
    needs: ClassVar[tuple[Need, ...]] = ("weights", "gradients", "training data")
    assumes: ClassVar[str] = "a model that lies in a sharp minimum errs more elsewhere"
    paper: ClassVar[str] = VEDANTAM_2021
    shared_work_group: ClassVar[str] = "sharpness"

    def __post_init__(self) -> None:
        for setting in ("rows", "starts", "steps", "batch", "deviation", "cap", "tolerance"):
            given, usual = getattr(self, setting), getattr(Sharpness, setting)
            counts = isinstance(usual, int)
            if not (given >= 1 if counts else 0 < given < np.inf):
                right = "1 or more" if counts else "above 0"
                raise InputError(f"{setting} must be {right}; got {given}. {usual} is usual.")

    def measure(self, subject: Subject) -> Score:
        """1/α², with both ends of α's bracket as facts."""
        task = self._perturbation(subject)
        starts = [self._random_start(subject.seed, number, task) for number in range(self.starts)]

        progress, tried = subject.target.view_source.progress, count()

        def keeps(alpha: float) -> bool:
            if progress:
                progress(
                    min(next(tried), EXPECTED_TRIES),
                    EXPECTED_TRIES,
                    f"changing weights by {alpha:.2g}",
                )
            return all(
                task.keeps_accuracy(self._worst_change(task, alpha, start), alpha)
                for start in starts
            )

        with enable_gradients("loss under changed weights"):
            low, high = bracket_largest(keeps, cap=self.cap, tolerance=self.tolerance)
        facts = {"alpha_low": low, "alpha_high": high, "rows": len(task.labels)}
        return Score(1 / (low * high), notes=self._notes(subject, low), facts=facts)

    def _perturbation(self, subject: Subject) -> WeightPerturbation:
        training = subject.training
        if training is None or training.missing("labels"):
            raise NotApplicable("it needs labels of the training data, and there are none")
        some = training.subsample(self.rows, "sharpness")
        # In the order of their content, so that mini-batches are the same however rows lie.
        return WeightPerturbation.from_view(
            some.rows(some.random_order("sharpness")), self.deviation
        )

    def _random_start(self, seed: int, number: int, task: WeightPerturbation) -> Any:
        """A change within half of the box, which leaves the ascent room to either side."""
        torch = torch_package()
        state = int(rng_for(seed, self.name, number).integers(2**63))
        drawn = torch.rand(len(task.center), generator=torch.Generator().manual_seed(state))
        return (drawn - 0.5).to(task.center)

    def _worst_change(self, task: WeightPerturbation, alpha: float, start: Any) -> Any:
        def slope(change: Any, step: int) -> Any:
            first = step * self.batch
            return task.loss_gradient(change, alpha, np.arange(first, first + self.batch))

        return ascend(slope, start, steps=self.steps)

    def _notes(self, subject: Subject, low: float) -> tuple[str, ...]:
        n = subject.reference.n
        notes = []
        if n > self.rows:
            notes.append(f"only {self.rows:,} of {n:,} training rows were used, drawn at random")
        if low == self.cap:
            notes.append(
                f"no change up to the cap, α = {self.cap:g}, costs as much: an upper bound"
            )
        return tuple(notes)


def bracket_largest(
    keeps: Callable[[float], bool], *, cap: float, tolerance: float
) -> AlphaBracket:
    """Two ends of the largest number that something keeps at, the upper larger by `tolerance`.

    >>> low, high = bracket_largest(lambda alpha: alpha <= 0.3, cap=2.0, tolerance=0.01)
    >>> low <= 0.3 < high <= 1.01 * low
    True
    """
    low, high = _bracket_by_doubling(keeps, cap)
    while high > (1 + tolerance) * low:
        middle = sqrt(low * high)
        low, high = (middle, high) if keeps(middle) else (low, middle)
    return AlphaBracket(low, high)


def _bracket_by_doubling(keeps: Callable[[float], bool], cap: float) -> AlphaBracket:
    """A number that it keeps at, and twice that, which it does not; or the cap twice.

    The small ones come first: what breaks in a box breaks in every larger one, but there the ascent
    may miss it, for the loss then grows by a few rows alone.
    """
    low = cap * 2.0**-FIRST_HALVINGS
    if keeps(low):
        while low < cap and keeps(2 * low):
            low *= 2
        return AlphaBracket(low, low if low == cap else 2 * low)
    for _ in range(FIRST_HALVINGS, MAX_HALVINGS):
        low /= 2
        if keeps(low):
            return AlphaBracket(low, 2 * low)
    raise NotApplicable(f"changes of {low:.1g} of the weights cost too much accuracy already")


def ascend(slope: SlopeFunction, start: Any, *, steps: int) -> Any:
    """Where signed steps up a slope lead within the box [−1, 1].

    All steps together are as long as the box is wide, so that every corner can be reached.

    >>> import torch
    >>> ascend(lambda u, step: torch.tensor([3.0, -1.0]), torch.zeros(2), steps=4)
    tensor([ 1., -1.])
    """
    change = start
    for step in range(steps):
        change = (change + 2 / steps * slope(change, step).sign()).clamp(-1, 1)
    return change


@dataclass(frozen=True, eq=False)
class WeightPerturbation:
    """Labelled rows, the network, and its weights as one vector: center + α · scale · change."""

    network: Network
    inputs: Inputs
    labels: Any
    min_correct: int
    center: Any
    scale: Any

    @classmethod
    def from_view(cls, view: ModelView, deviation: float) -> WeightPerturbation:
        """That of some training rows; `spared` of them must stay right."""
        network, torch = view.network, torch_package()
        if not network.weights:
            raise NotApplicable(f"{network.name!r} has no weights")
        center = torch.cat([part.reshape(-1) for part in network.weights.values()])
        labels = torch.from_numpy(network.class_columns(view.outputs.k)[view.labels]).to(
            center.device
        )
        right = int(view.outputs.correct.sum())
        spared = right - floor(deviation * view.n + 1e-9)
        if spared <= 0:
            raise NotApplicable(
                f"the training accuracy is {right / view.n:.3f}, and can't fall by {deviation:g}"
            )
        return cls(network, view.inputs(), labels, spared, center, center.abs() + 1)

    def keeps_accuracy(self, change: Any, alpha: float) -> bool:
        """Whether enough rows stay right; it is known before all are looked at."""
        torch = torch_package()
        left = len(self.labels) - self.min_correct
        with torch.no_grad():
            weights = self.changed_weights(change, alpha)
            for rows in self.row_batches(np.arange(len(self.labels))):
                logits = self.logits(rows, weights)
                right = (logits.argmax(dim=1) == self.labels[rows]) & logits.isfinite().all(dim=1)
                left -= len(rows) - int(right.sum())
                if left < 0:
                    return False
        return True

    def loss_gradient(self, change: Any, alpha: float, rows: Ints) -> Any:
        """The gradient of the loss of some rows by the change; rows are counted round."""
        torch = torch_package()
        total = torch.zeros_like(change)
        for part in self.row_batches(np.unique(rows % len(self.labels))):
            with torch.enable_grad():
                moved = change.detach().requires_grad_()
                logits = self.logits(part, self.changed_weights(moved, alpha))
                loss = torch.nn.functional.cross_entropy(logits, self.labels[part], reduction="sum")
                total += torch.autograd.grad(loss, moved)[0]
        return total.nan_to_num()

    def changed_weights(self, change: Any, alpha: float) -> dict[str, Any]:
        """The changed weights by name."""
        own = self.network.weights
        moved = self.center + alpha * self.scale * change
        parts = moved.split([part.numel() for part in own.values()])
        named = zip(own.items(), parts, strict=True)
        return {name: part.reshape(like.shape).to(like.dtype) for (name, like), part in named}

    def logits(self, rows: Ints, weights: dict[str, Any]) -> Any:
        """Those of some rows."""
        shown = self.network.to_arguments(take(self.inputs, rows))
        return self.network.logits(shown, weights)

    def row_batches(self, rows: Ints) -> list[Ints]:
        """As many rows at once as the network is shown."""
        step = max(self.network.rows_per_batch(self.inputs), 1)
        return [rows[start : start + step] for start in range(0, len(rows), step)]
