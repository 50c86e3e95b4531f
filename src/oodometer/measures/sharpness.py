"""Sharpness: the smallest perturbation of the weights that lowers the training accuracy.

Vedantam et al., NeurIPS 2021, §7.3.

The measure is the magnitude-aware bound of Jiang et al., "Fantastic Generalization Measures", ICLR
2020, Algorithm 3, where α is called σ. Every weight w is changed by a perturbation u with
|u| ≤ α(|w| + 1). The measure is 1/α² for the largest α at which even the worst perturbation keeps
the training accuracy, up to a tolerated loss. The worst perturbation is searched for by gradient
ascent, which may miss it, so the true α may be smaller than the α that is found.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from math import floor, sqrt
from typing import Any, ClassVar, NamedTuple

import numpy as np

from oodometer.core.array_types import Ints
from oodometer.core.errors import NotApplicable, out_of_range
from oodometer.core.inputs import Inputs, take
from oodometer.core.optional_imports import torch_package
from oodometer.core.protocols import Need
from oodometer.core.results import Score
from oodometer.core.stats import rng_for
from oodometer.measures.subject import VEDANTAM_2021, Subject
from oodometer.models.introspection.derivatives import enable_gradients
from oodometer.models.introspection.network import Network
from oodometer.models.model_view import ModelView

# The first α tried is the cap halved FIRST_HALVINGS times. If it costs too much accuracy, α is
# halved further, up to MAX_HALVINGS times in total.
FIRST_HALVINGS = 10
MAX_HALVINGS = 40
# Typical number of values of α that are tried, for the progress display.
EXPECTED_TRIES = 18
GradientFunction = Callable[[Any, int], Any]


class AlphaBracket(NamedTuple):
    """Bounds of the largest α that keeps the accuracy, low ≤ α < high.

    If even the cap keeps the accuracy, `low` and `high` are both equal to the cap.
    """

    low: float
    high: float


@dataclass(frozen=True)
class Sharpness:
    """1/α² for the largest α at which no perturbation |u| ≤ α(|w| + 1) costs too much accuracy.

    The search ends with a lower and an upper bound of α, which are facts of the score. The value is
    1/α² for the geometric mean of the two bounds.

    Parameters
    ----------
    deviation : float
        Loss of training accuracy that is tolerated, as a fraction.
    rows : int
        Maximum number of training rows; a random subsample is used if there are more.
    starts : int
        Number of random starts of the gradient ascent.
    steps : int
        Number of gradient steps per start.
    batch : int
        Number of rows per gradient step.
    cap : float
        Largest α that is tried.
    tolerance : float
        The search stops when the bounds of α differ by at most this fraction of the lower bound.

    Examples
    --------
    >>> Sharpness(rows=500).name
    'sharpness'
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
    assumes: ClassVar[str] = "the sharper the minimum of the training loss, the higher the error"
    paper: ClassVar[str] = VEDANTAM_2021
    shared_work_group: ClassVar[str] = "sharpness"

    def __post_init__(self) -> None:
        for setting in ("rows", "starts", "steps", "batch"):
            if getattr(self, setting) < 1:
                raise out_of_range(setting, getattr(self, setting), low=1)
        for setting in ("deviation", "cap", "tolerance"):
            if not 0 < getattr(self, setting) < np.inf:
                raise out_of_range(setting, getattr(self, setting), above=0)

    def measure(self, subject: Subject) -> Score:
        perturbation = self._perturbation(subject)
        starts = [
            self._random_start(subject.seed, number, perturbation) for number in range(self.starts)
        ]
        progress = subject.target.view_source.progress
        tries = count()

        def keeps(alpha: float) -> bool:
            if progress:
                done = min(next(tries), EXPECTED_TRIES)
                progress(done, EXPECTED_TRIES, f"perturbing weights by {alpha:.2g}")
            return all(
                perturbation.keeps_accuracy(self._worst_change(perturbation, alpha, start), alpha)
                for start in starts
            )

        with enable_gradients("loss under changed weights"):
            low, high = bracket_largest(keeps, cap=self.cap, tolerance=self.tolerance)
        facts = {"alpha_low": low, "alpha_high": high, "rows": len(perturbation.labels)}
        return Score(1 / (low * high), notes=self._notes(subject, low), facts=facts)

    def _perturbation(self, subject: Subject) -> WeightPerturbation:
        training = subject.training
        if training is None or training.missing("labels"):
            raise NotApplicable("it needs labels of the training data, and there are none")
        sample = training.subsample(self.rows, "sharpness")
        # The random order depends on the row content only, so that the batches do not depend on the
        # order of the rows in the data.
        return WeightPerturbation.from_view(
            sample.rows(sample.random_order("sharpness")), self.deviation
        )

    def _random_start(self, seed: int, number: int, perturbation: WeightPerturbation) -> Any:
        """Return a random change in [−½, ½], so that the ascent can increase or decrease it."""
        torch = torch_package()
        state = int(rng_for(seed, self.name, number).integers(2**63))
        drawn = torch.rand(len(perturbation.center), generator=torch.Generator().manual_seed(state))
        return (drawn - 0.5).to(perturbation.center)

    def _worst_change(self, perturbation: WeightPerturbation, alpha: float, start: Any) -> Any:
        def gradient(change: Any, step: int) -> Any:
            first = step * self.batch
            return perturbation.loss_gradient(change, alpha, np.arange(first, first + self.batch))

        return ascend(gradient, start, steps=self.steps)

    def _notes(self, subject: Subject, low: float) -> tuple[str, ...]:
        n = subject.reference.n
        notes = []
        if n > self.rows:
            notes.append(f"only {self.rows:,} of {n:,} training rows were used, drawn at random")
        if low == self.cap:
            notes.append(
                f"no perturbation up to the cap, α = {self.cap:g}, costs that much accuracy: the "
                "value is an upper bound"
            )
        return tuple(notes)


def bracket_largest(
    keeps: Callable[[float], bool], *, cap: float, tolerance: float
) -> AlphaBracket:
    """Return bounds of the largest number at which `keeps` is true.

    The bounds differ by at most `tolerance` times the lower bound.

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
    """Return a number at which `keeps` is true and its double, at which it is false.

    If `keeps` is true at the cap, the cap is returned twice. Small numbers are tried first. A
    harmful perturbation that is allowed at a small α is allowed at every larger α, but the ascent
    may miss it there, because a few rows then dominate the loss.
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
    raise NotApplicable(f"even perturbations of α = {low:.1g} cost too much accuracy")


def ascend(gradient: GradientFunction, start: Any, *, steps: int) -> Any:
    """Return the end point of signed gradient ascent within the box [−1, 1].

    The lengths of the steps add up to the width of the box, so the ascent can reach every corner.

    >>> import torch
    >>> ascend(lambda u, step: torch.tensor([3.0, -1.0]), torch.zeros(2), steps=4)
    tensor([ 1., -1.])
    """
    change = start
    for step in range(steps):
        change = (change + 2 / steps * gradient(change, step).sign()).clamp(-1, 1)
    return change


@dataclass(frozen=True, eq=False)
class WeightPerturbation:
    """Network with the perturbed weights center + α · scale · change, evaluated on labelled rows.

    The accuracy is kept if the network classifies at least `min_correct` rows correctly.
    """

    network: Network
    inputs: Inputs
    labels: Any
    min_correct: int
    center: Any
    scale: Any

    @classmethod
    def from_view(cls, view: ModelView, deviation: float) -> WeightPerturbation:
        """Return the perturbation of the view's network, with `deviation` as tolerated loss."""
        network = view.network
        torch = torch_package()
        if not network.weights:
            raise NotApplicable(f"{network.name!r} has no weights")
        center = torch.cat([weight.reshape(-1) for weight in network.weights.values()])
        labels = torch.from_numpy(network.class_columns(view.outputs.k)[view.labels]).to(
            center.device
        )
        n_correct = int(view.outputs.correct.sum())
        min_correct = n_correct - floor(deviation * view.n + 1e-9)
        if min_correct <= 0:
            raise NotApplicable(
                f"the training accuracy is {n_correct / view.n:.3f}, and cannot fall by "
                f"{deviation:g}"
            )
        return cls(
            network=network,
            inputs=view.inputs(),
            labels=labels,
            min_correct=min_correct,
            center=center,
            scale=center.abs() + 1,
        )

    def keeps_accuracy(self, change: Any, alpha: float) -> bool:
        """Return whether enough rows stay correct; stop as soon as there are too many errors."""
        torch = torch_package()
        errors_left = len(self.labels) - self.min_correct
        with torch.no_grad():
            weights = self.changed_weights(change, alpha)
            for rows in self.row_batches(np.arange(len(self.labels))):
                logits = self.logits(rows, weights)
                correct = (logits.argmax(dim=1) == self.labels[rows]) & logits.isfinite().all(dim=1)
                errors_left -= len(rows) - int(correct.sum())
                if errors_left < 0:
                    return False
        return True

    def loss_gradient(self, change: Any, alpha: float, rows: Ints) -> Any:
        """Return the gradient of the loss with respect to the change.

        Row numbers at or above the number of rows continue from the first row.
        """
        torch = torch_package()
        total = torch.zeros_like(change)
        for batch in self.row_batches(np.unique(rows % len(self.labels))):
            with torch.enable_grad():
                variable = change.detach().requires_grad_()
                logits = self.logits(batch, self.changed_weights(variable, alpha))
                loss = torch.nn.functional.cross_entropy(
                    logits, self.labels[batch], reduction="sum"
                )
                total += torch.autograd.grad(loss, variable)[0]
        return total.nan_to_num()

    def changed_weights(self, change: Any, alpha: float) -> dict[str, Any]:
        """Return the perturbed weights by name."""
        weights = self.network.weights
        changed = self.center + alpha * self.scale * change
        pieces = changed.split([weight.numel() for weight in weights.values()])
        return {
            name: piece.reshape(weight.shape).to(weight.dtype)
            for (name, weight), piece in zip(weights.items(), pieces, strict=True)
        }

    def logits(self, rows: Ints, weights: dict[str, Any]) -> Any:
        arguments = self.network.to_arguments(take(self.inputs, rows))
        return self.network.logits(arguments, weights)

    def row_batches(self, rows: Ints) -> list[Ints]:
        """Split rows into batches of the network's batch size."""
        step = max(self.network.rows_per_batch(self.inputs), 1)
        return [rows[start : start + step] for start in range(0, len(rows), step)]
