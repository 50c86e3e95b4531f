"""Prepare an example and its transformed copies for display: images, texts or table rows.

The inputs of the neighborhood are drawn again; the classes that models predicted for them are
taken from the result.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from oodometer.core.array_types import Floats, Ints
from oodometer.core.errors import InputError
from oodometer.core.inputs import Inputs
from oodometer.neighborhood.results import InvarianceResult, ModelInvariance
from oodometer.neighborhood.sampling import NeighborhoodSampler, SamplingRound


@dataclass(frozen=True)
class MemberDecision:
    """Class that a model predicted for an input, and whether it differs from the original's."""

    class_index: int
    name: str
    is_changed: bool

    @property
    def ascii_text(self) -> str:
        """Return the class in printable ASCII, after "!= " if it differs from the original's."""
        is_writable = self.name.isascii() and self.name.isprintable() and self.name.strip()
        text = self.name if is_writable else str(self.class_index)
        return f"!= {text}" if self.is_changed else text


@dataclass(frozen=True)
class NeighborhoodMember:
    """Distinct input of a neighborhood, its number of copies, and the class each model predicts."""

    name: str
    n_copies: int
    decisions: tuple[MemberDecision, ...]


@dataclass(frozen=True, eq=False, kw_only=True)
class NeighborhoodExample:
    """Example with the distinct members of its neighborhood, and a measure's value per model."""

    position: int
    values: tuple[float, ...]
    members: tuple[NeighborhoodMember, ...]
    inputs: Inputs
    file_name: str = ""
    true_label: str = ""

    @property
    def value(self) -> float:
        """Return the mean of the measure over models."""
        return float(np.mean(self.values))

    @property
    def size(self) -> int:
        """Return the number of members of the neighborhood, including equal ones."""
        return sum(member.n_copies for member in self.members)

    @property
    def votes(self) -> list[tuple[str, int]]:
        """Return the number of members per class predicted by the first model, largest first."""
        counts: Counter[str] = Counter()
        for member in self.members:
            counts[member.decisions[0].name] += member.n_copies
        return counts.most_common()


def build_example(
    results: Sequence[ModelInvariance],
    sampler: NeighborhoodSampler,
    row: int,
    values: Sequence[float],
) -> NeighborhoodExample:
    """Draw the neighborhood of one row again and attach the decisions from the results."""
    position = int(results[0].positions[row])
    n_draws = int(results[0].counts.n_draws[row])
    inputs, index = sampler.sample(SamplingRound(np.array([position]), range(n_draws + 1)))
    _, first_members, counts = np.unique(index[:, 0], return_index=True, return_counts=True)
    members = tuple(
        NeighborhoodMember(
            name=f"draw {member}" if member else "original",
            n_copies=int(count),
            decisions=tuple(_decision(result, row, int(member)) for result in results),
        )
        for member, count in zip(first_members, counts, strict=True)
    )
    # Only datasets that were read from image folders have the names of their files.
    files: Sequence[str] = getattr(sampler.dataset, "files", ())
    return NeighborhoodExample(
        position=position,
        values=tuple(map(float, values)),
        members=members,
        inputs=inputs,
        file_name=files[position] if files else "",
        true_label=_true_label(results[0], sampler, position),
    )


def _decision(result: ModelInvariance, row: int, member: int) -> MemberDecision:
    classes = result.counts.classes[row]
    index = int(classes[member])
    return MemberDecision(index, class_name(result.class_names, index), index != int(classes[0]))


def _true_label(result: ModelInvariance, sampler: NeighborhoodSampler, position: int) -> str:
    """Return the label of an example; empty if the data have no labels."""
    if sampler.dataset.labels is None:
        return ""
    label = sampler.dataset.labels[position]
    is_index = isinstance(label, int | np.integer) and not isinstance(label, bool) and label >= 0
    return class_name(result.class_names, int(label)) if is_index else str(label)


def class_name(names: Sequence[str] | None, class_index: int) -> str:
    """Return the name of a class, or its number if it has none.

    >>> class_name(("cat", "dog"), 1), class_name(None, 1)
    ('dog', '1')
    """
    if names is not None and class_index < len(names):
        return names[class_index]
    return str(class_index)


def lowest_indices(values: Floats, count: int) -> Ints:
    """Return the indices of the lowest values, lowest first; ties keep their order, NaN is last.

    >>> lowest_indices(np.array([1.0, 0.5, 0.2, 0.5]), 3)
    array([2, 1, 3])
    """
    return np.asarray(np.argsort(values, kind="stable")[:count])


def check_same_run(neighborhoods: InvarianceResult, sampler: NeighborhoodSampler) -> None:
    """Raise if the data, transform or seed of the sampler differ from those of the result."""
    settings = {
        "fingerprint": sampler.dataset.fingerprint,
        "transform": sampler.transform.name,
        "magnitude": sampler.transform.magnitude,
        "seed": sampler.seed,
    }
    name = neighborhoods.first_difference(settings)
    if name is not None:
        raise InputError(
            f"The result has {name} {getattr(neighborhoods, name)!r}, the sampler has "
            f"{settings[name]!r}. Give the data, transform and seed of the result."
        )
