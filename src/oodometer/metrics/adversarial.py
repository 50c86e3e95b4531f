"""Adversarial error: error rate after small changes of the inputs that an attack chooses.

The attack is APGD in the ℓ₂ ball (Croce & Hein, ICML 2020), used as in Wenzel et al., NeurIPS 2022.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from oodometer.core.array_types import Bools, Ints
from oodometer.core.errors import InputError, out_of_range
from oodometer.core.optional_imports import torch_package
from oodometer.core.protocols import Need
from oodometer.core.results import Score
from oodometer.core.stats import wilson_interval
from oodometer.metrics._apgd import Box, apgd
from oodometer.models.inference import DEFAULT_BATCH_ROWS
from oodometer.models.introspection.derivatives import enable_gradients
from oodometer.models.introspection.network import ForwardArguments, Network
from oodometer.models.model_view import ModelView


@dataclass(frozen=True)
class AdversarialError:
    """Error rate under an adversarial attack, averaged over several perturbation sizes.

    For each size, a row counts as an error if the model misclassifies it without an attack, or
    after a change of at most this size. The value is a lower bound of the worst case, because a
    stronger attack may find more errors. A row that is misclassified at one size counts as
    misclassified at all larger sizes.

    Images are attacked as pixels from 0 to 1, and their values stay in this range. All other inputs
    are attacked in their own unit and without bounds. The Wilson confidence interval assumes that
    each row has the same outcome at all sizes, which makes the interval conservative. The facts of
    the score include the error rates without an attack and at each size.

    Parameters
    ----------
    sizes : tuple of float
        Perturbation sizes, in the given unit.
    steps : int
        Number of steps of the attack.
    unit : {"rms", "l2"}
        Unit of the sizes. "rms" is the root mean square change over the d values of a row. It is
        comparable between image sizes, and corresponds to an ℓ₂ ball with radius size · √d. "l2" is
        the ℓ₂ norm of the change, so the radius of the ball is the size itself.
    rows : int
        Maximum number of rows to attack. If there are more, a random subsample is attacked.

    Examples
    --------
    >>> AdversarialError(sizes=(0.02,)).needs
    ('outputs', 'labels', 'gradients')
    """

    sizes: tuple[float, ...] = (0.001, 0.02)
    steps: int = 20
    unit: Literal["rms", "l2"] = "rms"
    rows: int = 1000

    name: ClassVar[str] = "adversarial_error"
    label: ClassVar[str] = "Adversarial error"
    needs: ClassVar[tuple[Need, ...]] = ("outputs", "labels", "gradients")
    assumes: ClassVar[str] = (
        "error rate under small adversarial changes, counting only the errors that the attack finds"
    )
    paper: ClassVar[str] = "Croce & Hein, ICML 2020; Wenzel et al., NeurIPS 2022"

    def __post_init__(self) -> None:
        if not self.sizes or not all(0 < size < math.inf for size in self.sizes):
            raise InputError(f"sizes must be one or more finite numbers above 0; got {self.sizes}.")
        if self.steps < 1:
            raise out_of_range("steps", self.steps, low=1)
        if self.rows < 1:
            raise out_of_range("rows", self.rows, low=1)
        if self.unit not in ("rms", "l2"):
            raise InputError(f"unit must be rms or l2; got {self.unit!r}.")

    def evaluate(self, view: ModelView) -> Score:
        sample = view.subsample(self.rows, self.name)
        with enable_gradients("gradients with respect to its inputs"):
            outcomes = [self._attack_batch(batch) for batch in _iter_attack_batches(sample)]
        misclassified = np.concatenate([outcome.misclassified for outcome in outcomes], axis=1)
        names = "error", *(f"error_at_{size:g}" for size in sorted(self.sizes))
        row_errors = misclassified[1:].mean(axis=0)
        rates = misclassified.mean(axis=1).tolist()
        return Score(
            float(row_errors.mean()),
            *wilson_interval(float(row_errors.sum()), sample.n),
            notes=_notes(outcomes, sample.n, view.n),
            facts={"rows": sample.n, **dict(zip(names, rates, strict=True))},
        )

    def _attack_batch(self, batch: _AttackBatch) -> _AttackOutcome:
        """Attack a batch at each size, in increasing order; skip rows that are already wrong."""
        misclassified = [batch.misclassified]
        n_stuck = 0
        for size in sorted(self.sizes):
            correct = np.flatnonzero(~misclassified[-1])
            n_stuck = 0
            misclassified.append(misclassified[-1].copy())
            if len(correct):
                misclassified[-1][correct], n_stuck = self._attack_rows(batch, correct, size)
        return _AttackOutcome(np.stack(misclassified), n_stuck, batch.box)

    def _attack_rows(self, batch: _AttackBatch, rows: Ints, size: float) -> tuple[Bools, int]:
        """Return which rows become misclassified, and how many of the rest were not changed."""
        inputs = batch.inputs[rows]
        labels = batch.labels[rows]
        radius = size * math.sqrt(inputs[0].numel()) if self.unit == "rms" else size
        points = apgd(
            batch.logits_of, inputs, labels, radius=radius, steps=self.steps, box=batch.box
        )
        with torch_package().no_grad():
            misclassified = batch.logits_of(points).argmax(dim=1) != labels
            stuck = ~misclassified & (points == inputs).flatten(1).all(dim=1)
        return misclassified.cpu().numpy(), int(stuck.sum())


class _AttackOutcome(NamedTuple):
    """Result of the attack on a batch.

    `misclassified` has one row for the original inputs and one per size. `n_stuck` is the number of
    correctly classified rows that the attack did not change at the largest size.
    """

    misclassified: Bools
    n_stuck: int
    box: Box | None


class _AttackBatch(NamedTuple):
    """Batch of rows as tensors, and which of the rows are misclassified without an attack."""

    logits_of: Callable[[Any], Any]
    inputs: Any
    labels: Any
    misclassified: Bools
    box: Box | None


def _iter_attack_batches(view: ModelView) -> Iterator[_AttackBatch]:
    """Yield the rows of a view in batches of the network's batch size."""
    network = view.network
    misclassified = view.labels != view.outputs.classes
    labels = network.class_columns(view.outputs.k)[view.labels]
    start = 0
    for first in range(0, view.n, DEFAULT_BATCH_ROWS):
        for inputs in network.batches(view.inputs(slice(first, first + DEFAULT_BATCH_ROWS))):
            rows = slice(start, start + len(inputs))
            arguments = network.to_arguments(inputs)
            yield _make_attack_batch(network, arguments, labels[rows], misclassified[rows])
            start = rows.stop
            if view.view_source.progress:
                view.view_source.progress(start, view.n, f"attacking {view.name}")


def _make_attack_batch(
    network: Network, arguments: ForwardArguments, labels: Ints, misclassified: Bools
) -> _AttackBatch:
    inputs = arguments.single_tensor

    def logits_of(points: Any) -> Any:
        return network.logits(arguments._replace(args=(points,)))

    return _AttackBatch(
        logits_of=logits_of,
        inputs=inputs,
        labels=torch_package().as_tensor(labels, device=inputs.device),
        misclassified=misclassified,
        box=(0.0, 1.0) if arguments.is_pixels else None,
    )


def _notes(outcomes: list[_AttackOutcome], n_attacked: int, n: int) -> tuple[str, ...]:
    n_stuck = sum(outcome.n_stuck for outcome in outcomes)
    notes = []
    if n_attacked < n:
        notes.append(f"only {n_attacked:,} of {n:,} rows were attacked, drawn at random")
    if outcomes[0].box is None:
        notes.append("inputs are not pixels in [0, 1], so sizes are in the unit of the inputs")
    if n_stuck:
        notes.append(f"{n_stuck:,} rows were not moved: their gradient is 0 or misleading")
    return tuple(notes)
