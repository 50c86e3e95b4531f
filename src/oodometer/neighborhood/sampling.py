"""In what order neighborhoods are looked at, so that any beginning of it is an answer.

Examples come first, a few draws each: differences between examples are what makes the mean unsure.
Only when every example was looked at come further draws, one more for all at a time. Where to
check whether it is enough hangs on the counts alone, never on the batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeVar

import numpy as np

from oodometer.core import inputs as batches
from oodometer.core.array_types import Ints
from oodometer.core.errors import InputError
from oodometer.core.inputs import Inputs, RowHashes, splitmix64
from oodometer.core.protocols import Dataset, Transform
from oodometer.core.random_streams import RowStreams

# Two draws tell both shares that pairwise agreement is made of.
FIRST_DRAWS = 2
# Fewer examples than this are no ground for an interval, let alone for stopping.
FIRST_EXAMPLES = 200
ROUND_GROWTH = 1.25


@dataclass(frozen=True, eq=False)
class SamplingRound:
    """Members of the neighborhoods of some examples; member 0 is the example itself."""

    examples: Ints
    members: range

    @property
    def size(self) -> int:
        """How many inputs that is."""
        return len(self.examples) * len(self.members)

    def limit_to(self, max_inputs: int) -> SamplingRound:
        """As many of its examples as can be paid for."""
        return replace(self, examples=self.examples[: max_inputs // len(self.members)])

    def skip_seen(self, seen: Ints) -> Iterator[SamplingRound]:
        """What of it is new, where the first `seen` members of every example are known."""
        counts = seen[self.examples]
        for count in np.unique(counts):
            rest = range(max(self.members.start, int(count)), self.members.stop)
            if rest:
                yield SamplingRound(self.examples[counts == count], rest)

    def batches(self, batch_size: int) -> Iterator[SamplingRound]:
        """Cut into batches of at most so many inputs, the members of an example side by side."""
        step = max(batch_size // len(self.members), 1)
        for start in range(0, len(self.examples), step):
            some = self.examples[start : start + step]
            for first in range(0, len(self.members), batch_size):
                yield SamplingRound(some, self.members[first : first + batch_size])


class SamplingStep(NamedTuple):
    """What of a round was not seen yet, in batches; and whether the budget ends with it."""

    batches: list[SamplingRound]
    is_last: bool


def plan_steps(
    rounds: Iterable[SamplingRound], max_inputs: int, seen: Ints, batch_size: int
) -> Iterator[SamplingStep]:
    """What there is to do, as far as it can be paid for.

    `seen` is how many members of every example are known beforehand.

    >>> plan = plan_steps([SamplingRound(np.arange(4), range(3))], max_inputs=9, seen=np.array([3, 0, 0, 0]), batch_size=6)
    >>> [([len(part.examples) for part in step.batches], step.is_last) for step in plan]
    [([2], True)]
    """
    known = seen.copy()
    for planned in rounds:
        part = planned.limit_to(max_inputs)
        max_inputs -= part.size
        new = [one for some in part.skip_seen(known) for one in some.batches(batch_size)]
        known[part.examples] = np.maximum(known[part.examples], part.members.stop)
        last = part.size < planned.size
        yield SamplingStep(new, last)
        if last:
            return


def full_pass(n: int, draws: int) -> Iterator[SamplingRound]:
    """All members of all neighborhoods, in the order of the data."""
    yield SamplingRound(np.arange(n), range(draws + 1))


def progressive_rounds(keys: RowHashes, draws: int, seed: int) -> Iterator[SamplingRound]:
    """All members of all neighborhoods, in the order in which they tell most.

    >>> [r.size for r in progressive_rounds(np.arange(220, dtype=np.uint64), draws=3, seed=0)]
    [600, 60, 200, 20]
    """
    first = min(FIRST_DRAWS, draws)
    order = shuffled_order(keys, seed)
    done = 0
    while done < len(order):
        until = max(int(done * ROUND_GROWTH), FIRST_EXAMPLES)
        yield SamplingRound(order[done:until], range(first + 1))
        done = until
    step = max(-(-len(order) // 8), FIRST_EXAMPLES)
    for number in range(first + 1, draws + 1):
        for start in range(0, len(order), step):
            yield SamplingRound(order[start : start + step], range(number, number + 1))


def shuffled_order(keys: RowHashes, seed: int) -> Ints:
    """A random order that hangs on the seed and the examples' content, not on where they stand."""
    start = splitmix64(np.array([seed % 2**64], dtype=np.uint64))
    return np.asarray(np.argsort(splitmix64(keys ^ start), kind="stable"))


def validate_sampling_options(
    draws: int,
    precision: float | None,
    max_inputs: int | None,
    *,
    identity: bool,
    batch_size: int | None = None,
) -> None:
    """Refuse what can't be met."""
    least = 1 if identity else 2
    if batch_size is not None and batch_size < 1:
        raise InputError(f"batch_size must be 1 or more; got {batch_size}. It counts inputs.")
    if not isinstance(draws, int) or draws < least:
        raise InputError(f"draws must be a whole number of at least {least}; got {draws}.")
    if precision is not None and not 0.0 < precision < 0.5:
        raise InputError(
            f"precision is the half-width wanted, between 0 and 0.5 (0.005, say); got {precision}."
        )
    smallest = 2 * (min(FIRST_DRAWS, draws) + 1)
    if max_inputs is not None and max_inputs < smallest:
        raise InputError(
            f"max_inputs must pay for two examples with their first draws, {smallest} inputs at least; "
            f"got {max_inputs}."
        )


# A batch of inputs is at most so many rows, and at most so many bytes.
MAX_BATCH_ROWS, MAX_BATCH_BYTES = 512, 2**25

Task = TypeVar("Task")
Made = TypeVar("Made")


@dataclass(frozen=True, eq=False)
class SampledBatch:
    """Distinct inputs, and where among them each member of each example is: (members, examples)."""

    round: SamplingRound
    inputs: Inputs
    input_index: Ints


@dataclass(frozen=True)
class NeighborhoodSampler:
    """Draws members of neighborhoods: a dataset, a transform, a seed."""

    dataset: Dataset
    transform: Transform
    seed: int

    def sample(self, batch: SamplingRound) -> SampledBatch:
        """Take examples, transform them, and keep one of what came out the same."""
        examples, members = batch.examples, batch.members
        given = self.dataset.take(examples)
        numbers = np.array([number for number in members if number > 0], dtype=np.int64)
        parts = [given] if 0 in members else []
        if len(numbers):
            tiled = np.tile(np.arange(len(examples)), len(numbers))
            keys = self.dataset.keys[examples][tiled]
            draws = RowStreams(self.seed, keys, numbers.repeat(len(examples)))
            parts.append(self._transform_inputs(batches.take(given, tiled), draws))
        first, places = deduplicate(batches.concat_batches(parts))
        return SampledBatch(batch, first, places.reshape(len(members), len(examples)))

    def _transform_inputs(self, inputs: Inputs, draws: RowStreams) -> Inputs:
        made = self.transform.apply(inputs, draws)
        if len(made) != len(inputs):
            raise InputError(
                f"The transform {self.transform.name!r} made {len(made)} rows of {len(inputs)}. "
                "It must make one of each: see oodometer.testing.check_transform."
            )
        if isinstance(inputs, np.ndarray) and made.shape != inputs.shape:
            raise InputError(
                f"The transform {self.transform.name!r} made inputs of shape {made.shape[1:]} of "
                f"those of {inputs.shape[1:]}. It must keep it."
            )
        return made

    def default_batch_size(self) -> int:
        """How many inputs make a batch."""
        first = next(batches.iter_row_bytes(self.dataset.take(np.array([0]))))
        return int(np.clip(MAX_BATCH_BYTES // max(len(first), 1), 1, MAX_BATCH_ROWS))


def deduplicate(inputs: Inputs) -> tuple[Inputs, Ints]:
    """The different rows of a batch, in the order they first come, and each row's place there.

    >>> deduplicate(["a", "b", "a"])
    (['a', 'b'], array([0, 1, 0]))
    """
    seen: dict[bytes, int] = {}
    places = np.array([seen.setdefault(row, len(seen)) for row in batches.iter_row_bytes(inputs)])
    if len(seen) == len(places):
        return inputs, places
    return batches.take(inputs, np.unique(places, return_index=True)[1]), places
