"""Adversarial error: error rate after small changes of the inputs that an attack chooses.

The attack is APGD in the ℓ₂ ball (Croce & Hein, ICML 2020), used as in Wenzel et al., NeurIPS 2022.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from oodometer.core.array_types import Bools, Floats, Ints
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

# Outcome of the attack on a row. An unchanged row is one at which the attack found no better point.
CORRECT, MISCLASSIFIED, UNCHANGED = 0.0, 1.0, 2.0
_NAME = "adversarial_error"


@dataclass(frozen=True)
class AdversarialError:
    """Error rate under an adversarial attack of one size, or averaged over several sizes.

    For each size, a row counts as an error if the model misclassifies it without an attack, or
    after a change of at most this size. The value is a lower bound of the worst case, because a
    stronger attack may find more errors. A row that is misclassified at one size counts as
    misclassified at all larger sizes.

    The sizes are the radii that Wenzel et al. print. The paper states neither the number of steps
    nor the scale of the inputs, so both are choices of this implementation: twenty steps, and
    images as pixels from 0 to 1, before the model normalizes them. Pixels stay in this range. All
    other inputs are attacked in their own unit and without bounds.

    The Wilson confidence interval assumes that each row has the same outcome at all sizes, which
    makes the interval conservative. The facts of the score include the error rates without an
    attack and at each size.

    Parameters
    ----------
    sizes : tuple of float
        Perturbation sizes, in the given unit. With one size, the size is part of the metric's name,
        as in `adversarial_error_0.02`, so a study can compute several sizes separately.
    steps : int
        Number of steps of the attack.
    unit : {"l2", "rms"}
        Unit of the sizes. "l2" is the ℓ₂ norm of the change, so the size is the radius of the ball.
        "rms" is the root mean square change over the d values of a row. It is comparable between
        image sizes, and corresponds to an ℓ₂ ball with radius size · √d.
    rows : int
        Maximum number of rows to attack. If there are more, a random subsample is attacked, which
        is the same for all sizes.

    Examples
    --------
    >>> AdversarialError().name, AdversarialError(sizes=(0.02,)).name
    ('adversarial_error', 'adversarial_error_0.02')
    """

    sizes: tuple[float, ...] = (0.001, 0.02)
    steps: int = 20
    unit: Literal["l2", "rms"] = "l2"
    rows: int = 1000

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
        if self.unit not in ("l2", "rms"):
            raise InputError(f"unit must be l2 or rms; got {self.unit!r}.")

    @property
    def name(self) -> str:
        return _NAME if len(self.sizes) > 1 else f"{_NAME}_{self.sizes[0]:g}"

    @property
    def label(self) -> str:
        # The label of one size is short, so that tables of 80 characters have room for it.
        return f"Adversarial {self.sizes[0]:g}" if len(self.sizes) == 1 else "Adversarial error"

    def evaluate(self, view: ModelView) -> Score:
        sample = view.subsample(self.rows, _NAME)
        misclassified, n_unchanged = self._attack_sizes(sample)
        names = "error", *(f"error_at_{size:g}" for size in sorted(self.sizes))
        row_errors = misclassified[1:].mean(axis=0)
        rates = misclassified.mean(axis=1).tolist()
        return Score(
            float(row_errors.mean()),
            *wilson_interval(float(row_errors.sum()), sample.n),
            notes=_notes(sample, view.n, n_unchanged),
            facts={"rows": sample.n, **dict(zip(names, rates, strict=True))},
        )

    def _attack_sizes(self, view: ModelView) -> tuple[Bools, int]:
        """Return which rows are misclassified, and how many of the rest the attack did not change.

        The first row of the array is for the original inputs, and the others are for the sizes in
        increasing order.
        """
        misclassified = [view.labels != view.outputs.classes]
        outcomes: Floats = np.zeros(view.n)
        for size in sorted(self.sizes):
            outcomes = self._attack_size(view, size)
            misclassified.append(misclassified[-1] | (outcomes == MISCLASSIFIED))
        unchanged = ~misclassified[-1] & (outcomes == UNCHANGED)
        return np.stack(misclassified), int(unchanged.sum())

    def _attack_size(self, view: ModelView, size: float) -> Floats:
        """Return the outcome per row; metrics with other sizes of the same view share it."""

        def attack(rows: ModelView) -> Floats:
            with enable_gradients("gradients with respect to its inputs"):
                batches = [self._attack_batch(batch, size) for batch in _iter_attack_batches(rows)]
            return np.concatenate(batches)

        return view.per_row_cached(("apgd", size, self.unit, self.steps), attack)

    def _attack_batch(self, batch: _AttackBatch, size: float) -> Floats:
        """Attack a batch at one size; skip rows that are misclassified without an attack."""
        outcomes = np.where(batch.misclassified, MISCLASSIFIED, CORRECT)
        correct = np.flatnonzero(~batch.misclassified)
        if len(correct):
            outcomes[correct] = self._attack_rows(batch, correct, size)
        return outcomes

    def _attack_rows(self, batch: _AttackBatch, rows: Ints, size: float) -> Floats:
        inputs = batch.inputs[rows]
        labels = batch.labels[rows]
        radius = size * math.sqrt(inputs[0].numel()) if self.unit == "rms" else size
        points = apgd(
            batch.logits_of, inputs, labels, radius=radius, steps=self.steps, box=batch.box
        )
        with torch_package().no_grad():
            misclassified = batch.logits_of(points).argmax(dim=1) != labels
            unchanged = (points == inputs).flatten(1).all(dim=1)
        return np.where(
            misclassified.cpu().numpy(),
            MISCLASSIFIED,
            np.where(unchanged.cpu().numpy(), UNCHANGED, CORRECT),
        )


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


def _notes(sample: ModelView, n: int, n_unchanged: int) -> tuple[str, ...]:
    notes = []
    if sample.n < n:
        notes.append(f"only {sample.n:,} of {n:,} rows were attacked, drawn at random")
    if not _is_pixels(sample):
        notes.append("inputs are not pixels in [0, 1], so sizes are in the unit of the inputs")
    if n_unchanged:
        notes.append(f"{n_unchanged:,} rows were not moved: their gradient is 0 or misleading")
    return tuple(notes)


def _is_pixels(view: ModelView) -> bool:
    first = next(iter(view.network.batches(view.inputs(slice(0, 1)))))
    return view.network.to_arguments(first).is_pixels
