"""An example and its neighborhood, as they were judged: inputs drawn again, classes as counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from oodometer.core.errors import InputError
from oodometer.core.inputs import Inputs
from oodometer.core.softmax_kernels import Floats, Ints
from oodometer.neighborhood._neighborhood_sampler import Show
from oodometer.neighborhood.results import Invariance, Neighborhoods
from oodometer.neighborhood.sampling import Round


@dataclass(frozen=True)
class Decision:
    """The class a model put an input in, and whether it is another than the original's."""

    number: int
    name: str
    moved: bool

    @property
    def plain(self) -> str:
        """The class as a font of ASCII can write it, a sign before it where it is another."""
        writable = self.name.isascii() and self.name.isprintable() and self.name.strip()
        return ("!= " if self.moved else "") + (self.name if writable else str(self.number))


@dataclass(frozen=True)
class Member:
    """One of the different inputs of a neighborhood, and how many of its members it is."""

    name: str
    times: int
    decisions: tuple[Decision, ...]


@dataclass(frozen=True, eq=False)
class Example:
    """An example, the measure of it by each model, its different members and their inputs."""

    position: int
    values: tuple[float, ...]
    members: tuple[Member, ...]
    inputs: Inputs
    source: str = ""
    truth: str = ""

    @property
    def value(self) -> float:
        """The mean over models."""
        return float(np.mean(self.values))

    @property
    def size(self) -> int:
        """How many members the neighborhood has, those alike counted too."""
        return sum(member.times for member in self.members)

    @property
    def votes(self) -> list[tuple[str, int]]:
        """How many members the first model puts in each class, most first."""
        counts: Counter[str] = Counter()
        for member in self.members:
            counts[member.decisions[0].name] += member.times
        return counts.most_common()


def example_of(
    found: Sequence[Invariance], show: Show, row: int, values: Sequence[float]
) -> Example:
    """The example in that row of the results with as many draws as were judged, and the same ones."""
    position = int(found[0].positions[row])
    drawn = int(found[0].tally.drawn[row])
    shown = show.make(Round(np.array([position]), range(drawn + 1)))
    _, first, times = np.unique(shown.places[:, 0], return_index=True, return_counts=True)
    members = tuple(
        Member(
            f"draw {number}" if number else "original",
            int(count),
            tuple(_decision(one, row, int(number)) for one in found),
        )
        for number, count in zip(first, times, strict=True)
    )
    # A folder of images knows its files by name.
    files: Sequence[str] = getattr(show.dataset, "files", ())
    source = files[position] if files else ""
    truth = _truth(found[0], show, position)
    return Example(position, tuple(map(float, values)), members, shown.inputs, source, truth)


def least(values: Floats, count: int) -> Ints:
    """Where the lowest values are, lowest first; of equal ones the first, NaN last.

    >>> least(np.array([1.0, 0.5, 0.2, 0.5]), 3)
    array([2, 1, 3])
    """
    return np.asarray(np.argsort(values, kind="stable")[:count])


def class_name(names: Sequence[str] | None, number: int) -> str:
    """How a class is called: by its name, or else by its number.

    >>> class_name(("cat", "dog"), 1), class_name(None, 1)
    ('dog', '1')
    """
    return names[number] if names is not None and number < len(names) else str(number)


def check_same(found: Neighborhoods, show: Show) -> None:
    """Refuse to show what was not judged."""
    now = {
        "fingerprint": show.dataset.fingerprint,
        "transform": show.transform.name,
        "magnitude": show.transform.magnitude,
        "seed": show.seed,
    }
    name = found.differing(now)
    if name is not None:
        raise InputError(
            f"The result has {name} {getattr(found, name)!r}, what is to be shown {now[name]!r}. "
            "Give the data, transform and seed that the result was made with."
        )


def _decision(found: Invariance, row: int, number: int) -> Decision:
    classes = found.tally.classes[row]
    said = int(classes[number])
    return Decision(said, class_name(found.class_names, said), said != int(classes[0]))


def _truth(found: Invariance, show: Show, position: int) -> str:
    """The example's label, where it has one."""
    if show.dataset.labels is None:
        return ""
    label = show.dataset.labels[position]
    by_number = isinstance(label, int | np.integer) and not isinstance(label, bool) and label >= 0
    return class_name(found.class_names, int(label)) if by_number else str(label)
