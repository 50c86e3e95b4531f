"""An example and its neighborhood, as they were judged: inputs drawn again, classes as counted."""

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
    """The class a model put an input in, and whether it is another than the original's."""

    class_index: int
    name: str
    is_changed: bool

    @property
    def ascii_text(self) -> str:
        """The class as a font of ASCII can write it, a sign before it where it is another."""
        writable = self.name.isascii() and self.name.isprintable() and self.name.strip()
        return ("!= " if self.is_changed else "") + (
            self.name if writable else str(self.class_index)
        )


@dataclass(frozen=True)
class NeighborhoodMember:
    """One of the different inputs of a neighborhood, and how many of its members it is."""

    name: str
    n_copies: int
    decisions: tuple[MemberDecision, ...]


@dataclass(frozen=True, eq=False)
class NeighborhoodExample:
    """An example, the measure of it by each model, its different members and their inputs."""

    position: int
    values: tuple[float, ...]
    members: tuple[NeighborhoodMember, ...]
    inputs: Inputs
    file_name: str = ""
    true_label: str = ""

    @property
    def value(self) -> float:
        """The mean over models."""
        return float(np.mean(self.values))

    @property
    def size(self) -> int:
        """How many members the neighborhood has, those alike counted too."""
        return sum(member.n_copies for member in self.members)

    @property
    def votes(self) -> list[tuple[str, int]]:
        """How many members the first model puts in each class, most first."""
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
    """The example in that row of the results with as many draws as were judged, and the same ones."""
    position = int(results[0].positions[row])
    drawn = int(results[0].counts.n_draws[row])
    inputs, index = sampler.sample(SamplingRound(np.array([position]), range(drawn + 1)))
    _, first, times = np.unique(index[:, 0], return_index=True, return_counts=True)
    members = tuple(
        NeighborhoodMember(
            f"draw {number}" if number else "original",
            int(count),
            tuple(_decision(one, row, int(number)) for one in results),
        )
        for number, count in zip(first, times, strict=True)
    )
    # A folder of images knows its files by name.
    files: Sequence[str] = getattr(sampler.dataset, "files", ())
    source = files[position] if files else ""
    truth = _true_label(results[0], sampler, position)
    return NeighborhoodExample(position, tuple(map(float, values)), members, inputs, source, truth)


def lowest_indices(values: Floats, count: int) -> Ints:
    """Where the lowest values are, lowest first; of equal ones the first, NaN last.

    >>> lowest_indices(np.array([1.0, 0.5, 0.2, 0.5]), 3)
    array([2, 1, 3])
    """
    return np.asarray(np.argsort(values, kind="stable")[:count])


def class_name(names: Sequence[str] | None, class_index: int) -> str:
    """How a class is called: by its name, or else by its number.

    >>> class_name(("cat", "dog"), 1), class_name(None, 1)
    ('dog', '1')
    """
    return (
        names[class_index] if names is not None and class_index < len(names) else str(class_index)
    )


def check_same_run(neighborhoods: InvarianceResult, sampler: NeighborhoodSampler) -> None:
    """Refuse to show what was not judged."""
    now = {
        "fingerprint": sampler.dataset.fingerprint,
        "transform": sampler.transform.name,
        "magnitude": sampler.transform.magnitude,
        "seed": sampler.seed,
    }
    name = neighborhoods.first_difference(now)
    if name is not None:
        raise InputError(
            f"The result has {name} {getattr(neighborhoods, name)!r}, what is to be shown {now[name]!r}. "
            "Give the data, transform and seed that the result was made with."
        )


def _decision(result: ModelInvariance, row: int, number: int) -> MemberDecision:
    classes = result.counts.classes[row]
    said = int(classes[number])
    return MemberDecision(said, class_name(result.class_names, said), said != int(classes[0]))


def _true_label(result: ModelInvariance, sampler: NeighborhoodSampler, position: int) -> str:
    """The example's label, where it has one."""
    if sampler.dataset.labels is None:
        return ""
    label = sampler.dataset.labels[position]
    by_number = isinstance(label, int | np.integer) and not isinstance(label, bool) and label >= 0
    return class_name(result.class_names, int(label)) if by_number else str(label)
