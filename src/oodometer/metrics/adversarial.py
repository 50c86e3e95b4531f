"""Adversarial error: how often a model errs once its inputs are changed a little, for the worst.

The attack is APGD in the ℓ₂ ball (Croce & Hein, ICML 2020), as Wenzel et al., NeurIPS 2022, use it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from oodometer.core.array_types import Bools, Ints
from oodometer.core.errors import InputError
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
    """The share of rows that are wrong or can be made so by a change of a size, the mean over sizes.

    sizes   how large a change is: the root mean square over the d values of a row (`rms`, a ball of
            radius size · √d, so that a size means the same for small and for large images), or its
            length (`l2`, a ball of radius size)
    steps   of the attack
    rows    that are attacked, at most; drawn at random from more

    Images are attacked as pixels from 0 to 1 and stay there; anything else in its own unit and
    without bounds. A row that is wrong at a size is wrong at every larger one. The interval is
    Wilson's, as if sizes agreed on every row: it is wide enough.
    """

    sizes: tuple[float, ...] = (0.001, 0.02)
    steps: int = 20
    unit: Literal["rms", "l2"] = "rms"
    rows: int = 1000

    name: ClassVar[str] = "adversarial_error"
    label: ClassVar[str] = "Adversarial error"
    needs: ClassVar[tuple[Need, ...]] = ("outputs", "labels", "gradients")
    assumes: ClassVar[str] = "how often a small change can make a decision wrong, as far as found"
    paper: ClassVar[str] = "Croce & Hein, ICML 2020; Wenzel et al., NeurIPS 2022"

    def __post_init__(self) -> None:
        if not self.sizes or not all(0 < size < math.inf for size in self.sizes):
            raise InputError(
                f"sizes must be numbers above 0, one or more; got {self.sizes}. "
                "0.001 and 0.02 are usual."
            )
        for name, usual in (("steps", 20), ("rows", 1000)):
            given = getattr(self, name)
            if given < 1:
                raise InputError(f"{name} must be 1 or more; got {given}. {usual} is usual.")
        if self.unit not in ("rms", "l2"):
            raise InputError(f"unit must be 'rms' or 'l2'; got {self.unit!r}. 'rms' is usual.")

    def evaluate(self, view: ModelView) -> Score:
        """The mean over sizes; the error without an attack and at each size are facts."""
        some = view.subsample(self.rows, self.name)
        with enable_gradients("gradients by its inputs"):
            parts = [self._attack_batch(batch) for batch in _iter_attack_batches(some)]
        wrong = np.concatenate([part.wrong for part in parts], axis=1)
        names = "error", *(f"error_at_{size:g}" for size in self._sorted_sizes)
        after = wrong[1:].mean(axis=0)
        return Score(
            float(after.mean()),
            *wilson_interval(float(after.sum()), some.n),
            notes=_notes(parts, some.n, view.n),
            facts={"rows": some.n, **dict(zip(names, wrong.mean(axis=1).tolist(), strict=True))},
        )

    @property
    def _sorted_sizes(self) -> list[float]:
        return sorted(self.sizes)

    def _attack_batch(self, batch: _AttackBatch) -> _AttackOutcome:
        """What comes of a batch; only rows still right are attacked at the next size."""
        wrong, stuck = [batch.wrong], 0
        for size in self._sorted_sizes:
            left, stuck = np.flatnonzero(~wrong[-1]), 0
            wrong.append(wrong[-1].copy())
            if len(left):
                wrong[-1][left], stuck = self._attack_rows(batch, left, size)
        return _AttackOutcome(np.stack(wrong), stuck, batch.box)

    def _attack_rows(self, batch: _AttackBatch, left: Ints, size: float) -> tuple[Bools, int]:
        inputs, labels = batch.inputs[left], batch.labels[left]
        radius = size * math.sqrt(inputs[0].numel()) if self.unit == "rms" else size
        points = apgd(
            batch.logits_of, inputs, labels, radius=radius, steps=self.steps, box=batch.box
        )
        with torch_package().no_grad():
            fooled = batch.logits_of(points).argmax(dim=1) != labels
            stuck = ~fooled & (points == inputs).flatten(1).all(dim=1)
        return fooled.cpu().numpy(), int(stuck.sum())


class _AttackOutcome(NamedTuple):
    """Which rows are wrong before and at each size; how many the largest size could not move."""

    wrong: Bools
    stuck: int
    box: Box | None


class _AttackBatch(NamedTuple):
    """Some rows as they are attacked, and which of them are wrong already."""

    logits_of: Callable[[Any], Any]
    inputs: Any
    labels: Any
    wrong: Bools
    box: Box | None


def _iter_attack_batches(view: ModelView) -> Iterator[_AttackBatch]:
    """As many rows at once as the network is shown."""
    network, n, start = view.network, view.n, 0
    wrong = view.labels != view.outputs.classes
    labels = network.class_columns(view.outputs.k)[view.labels]
    for first in range(0, n, DEFAULT_BATCH_ROWS):
        for inputs in network.batches(view.inputs(slice(first, first + DEFAULT_BATCH_ROWS))):
            rows = slice(start, start + len(inputs))
            yield _make_attack_batch(
                network, network.to_arguments(inputs), labels[rows], wrong[rows]
            )
            start = rows.stop
            if view.view_source.progress:
                view.view_source.progress(start, n, f"attacking {view.name}")


def _make_attack_batch(
    network: Network, arguments: ForwardArguments, labels: Ints, wrong: Bools
) -> _AttackBatch:
    inputs = arguments.single_tensor

    def logits_of(points: Any) -> Any:
        return network.logits(arguments._replace(args=(points,)))

    known = torch_package().as_tensor(labels, device=inputs.device)
    return _AttackBatch(
        logits_of, inputs, known, wrong, (0.0, 1.0) if arguments.is_pixels else None
    )


def _notes(parts: list[_AttackOutcome], attacked: int, n: int) -> tuple[str, ...]:
    """What must be known of an attack to believe it."""
    stuck = sum(part.stuck for part in parts)
    told = {
        f"only {attacked:,} of {n:,} rows were attacked, drawn at random": attacked < n,
        "inputs are not pixels from 0 to 1, so sizes are in their own unit": parts[0].box is None,
        f"{stuck:,} rows could not be moved, for their slope is 0 or misleads": stuck > 0,
    }
    return tuple(note for note, holds in told.items() if holds)
