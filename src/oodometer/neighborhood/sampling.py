"""Progressive sampling of neighborhoods: every prefix of the schedule yields a valid estimate.

A neighborhood has several members: an example (member 0) and transformed copies of it, called
draws. Each example is first sampled with a few draws, because the variance of the mean comes mostly
from differences between examples. After every example has been sampled, further rounds add draws,
one draw per example at a time. The stopping rule is checked after each round. Rounds depend only on
the number of examples and draws, so the result does not depend on the batch size.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from oodometer.core import inputs as batches
from oodometer.core.array_types import Ints
from oodometer.core.errors import InputError, out_of_range
from oodometer.core.inputs import Inputs, RowHashes, splitmix64
from oodometer.core.protocols import Dataset, Transform
from oodometer.core.random_streams import RowStreams

# Pairwise agreement has a term for pairs of example and draw and a term for pairs of draws. Two
# draws are enough to estimate both terms.
FIRST_DRAWS = 2
# Number of examples in the first round. With fewer examples, the confidence interval that decides
# when to stop would not be reliable.
FIRST_EXAMPLES = 200
# Factor by which each round increases the number of sampled examples.
ROUND_GROWTH = 1.25
# Maximum number of rows, and of bytes, in a batch of inputs by default.
MAX_BATCH_ROWS = 512
MAX_BATCH_BYTES = 2**25


def validate_sampling_options(
    draws: int,
    precision: float | None,
    max_inputs: int | None,
    *,
    identity: bool,
    batch_size: int | None = None,
) -> None:
    """Raise if an option of `invariance` is out of range."""
    min_draws = 1 if identity else 2
    if batch_size is not None and batch_size < 1:
        raise out_of_range("batch_size", batch_size, low=1)
    if not isinstance(draws, int) or draws < min_draws:
        raise InputError(f"draws must be an integer of at least {min_draws}; got {draws}.")
    if precision is not None and not 0.0 < precision < 0.5:
        raise InputError(
            "precision is the half-width of the confidence interval; it must be above 0 and below "
            f"0.5, for example 0.005; got {precision}."
        )
    min_inputs = 2 * (min(FIRST_DRAWS, draws) + 1)
    if max_inputs is not None and max_inputs < min_inputs:
        raise InputError(
            f"max_inputs must be at least {min_inputs}, enough for two examples and their first "
            f"draws; got {max_inputs}."
        )


@dataclass(frozen=True, eq=False)
class SamplingRound:
    """Examples, and the numbers of the neighborhood members to sample for each of them.

    Member 0 is the example itself.
    """

    examples: Ints
    members: range

    @property
    def size(self) -> int:
        """Return the number of inputs in the round."""
        return len(self.examples) * len(self.members)

    def limit_to(self, max_inputs: int) -> SamplingRound:
        """Return the round with only its first examples, so that it has at most `max_inputs`."""
        return replace(self, examples=self.examples[: max_inputs // len(self.members)])

    def skip_seen(self, n_seen: Ints) -> Iterator[SamplingRound]:
        """Yield the parts of the round that have not been sampled yet.

        `n_seen` is the number of members of each example that have already been sampled.
        """
        counts = n_seen[self.examples]
        for count in np.unique(counts):
            unseen = range(max(self.members.start, int(count)), self.members.stop)
            if unseen:
                yield SamplingRound(self.examples[counts == count], unseen)

    def batches(self, batch_size: int) -> Iterator[SamplingRound]:
        """Split the round into batches of at most `batch_size` inputs.

        If possible, all members of an example are in one batch.
        """
        step = max(batch_size // len(self.members), 1)
        for start in range(0, len(self.examples), step):
            examples = self.examples[start : start + step]
            for first in range(0, len(self.members), batch_size):
                yield SamplingRound(examples, self.members[first : first + batch_size])


def full_pass(n: int, draws: int) -> Iterator[SamplingRound]:
    """Yield one round with all members of all neighborhoods, in the order of the data."""
    yield SamplingRound(np.arange(n), range(draws + 1))


def progressive_rounds(keys: RowHashes, draws: int, seed: int) -> Iterator[SamplingRound]:
    """Yield rounds that cover all members of all neighborhoods.

    The first rounds take random groups of rows of growing size and draw each row itself and a few
    of its copies; the later rounds draw the remaining copies.

    >>> [r.size for r in progressive_rounds(np.arange(220, dtype=np.uint64), draws=3, seed=0)]
    [600, 60, 200, 20]
    """
    first_draws = min(FIRST_DRAWS, draws)
    order = shuffled_order(keys, seed)
    start = 0
    while start < len(order):
        stop = max(int(start * ROUND_GROWTH), FIRST_EXAMPLES)
        yield SamplingRound(order[start:stop], range(first_draws + 1))
        start = stop
    step = max(-(-len(order) // 8), FIRST_EXAMPLES)
    for member in range(first_draws + 1, draws + 1):
        for start in range(0, len(order), step):
            yield SamplingRound(order[start : start + step], range(member, member + 1))


def shuffled_order(keys: RowHashes, seed: int) -> Ints:
    """Return a random order that depends on the seed and on the content of the rows only."""
    start = splitmix64(np.array([seed % 2**64], dtype=np.uint64))
    return np.asarray(np.argsort(splitmix64(keys ^ start), kind="stable"))


def plan_steps(
    rounds: Iterable[SamplingRound], max_inputs: int, n_seen: Ints, batch_size: int
) -> Iterator[list[SamplingRound]]:
    """Yield, for each round, the batches that have not been sampled yet, up to `max_inputs`.

    `n_seen` is the number of members of each example that an earlier run has sampled. These members
    count towards `max_inputs`.

    >>> rounds = [SamplingRound(np.arange(4), range(3))]
    >>> steps = plan_steps(rounds, max_inputs=9, n_seen=np.array([3, 0, 0, 0]), batch_size=6)
    >>> [[len(batch.examples) for batch in step] for step in steps]
    [[2]]
    """
    n_seen = n_seen.copy()
    for planned in rounds:
        affordable = planned.limit_to(max_inputs)
        max_inputs -= affordable.size
        yield [batch for part in affordable.skip_seen(n_seen) for batch in part.batches(batch_size)]
        if affordable.size < planned.size:
            return
        n_seen[planned.examples] = np.maximum(n_seen[planned.examples], planned.members.stop)


@dataclass(frozen=True)
class NeighborhoodSampler:
    """Sampler that creates neighborhood members from a dataset, a transform and a seed.

    `cache_key` describes everything except seed and example that determines a draw. Features of
    draws are cached under this text; if it is empty, they are not cached.
    """

    dataset: Dataset
    transform: Transform
    seed: int
    cache_key: str = ""

    def sample(self, batch: SamplingRound) -> tuple[Inputs, Ints]:
        """Return the distinct inputs of a batch, and the index of every member among them.

        The index has shape (members, examples).
        """
        examples = self.dataset.take(batch.examples)
        n_examples = len(batch.examples)
        parts = [examples] if 0 in batch.members else []
        draw_numbers = np.array([member for member in batch.members if member > 0], dtype=np.int64)
        if len(draw_numbers):
            rows = np.tile(np.arange(n_examples), len(draw_numbers))
            keys = self.dataset.keys[batch.examples][rows]
            streams = RowStreams(self.seed, keys, draw_numbers.repeat(n_examples))
            parts.append(self._transform_inputs(batches.take(examples, rows), streams))
        distinct, index = deduplicate(batches.concat_batches(parts))
        return distinct, index.reshape(len(batch.members), n_examples)

    def _transform_inputs(self, inputs: Inputs, streams: RowStreams) -> Inputs:
        transformed = self.transform.apply(inputs, streams)
        if len(transformed) != len(inputs):
            raise InputError(
                f"The transform {self.transform.name!r} returned {len(transformed)} rows for "
                f"{len(inputs)}. It must return one row per row: see "
                "oodometer.testing.check_transform."
            )
        if isinstance(inputs, np.ndarray) and transformed.shape != inputs.shape:
            raise InputError(
                f"The transform {self.transform.name!r} returned inputs of shape "
                f"{transformed.shape[1:]} for inputs of shape {inputs.shape[1:]}. It must keep "
                "the shape."
            )
        return transformed

    def default_batch_size(self) -> int:
        """Return the number of inputs per batch, which is smaller if rows are large."""
        first_row = next(batches.iter_row_bytes(self.dataset.take(np.array([0]))))
        return int(np.clip(MAX_BATCH_BYTES // max(len(first_row), 1), 1, MAX_BATCH_ROWS))


def deduplicate(inputs: Inputs) -> tuple[Inputs, Ints]:
    """Return the distinct rows in order of first occurrence, and the index of each row in them.

    >>> deduplicate(["a", "b", "a"])
    (['a', 'b'], array([0, 1, 0]))
    """
    seen: dict[bytes, int] = {}
    index = np.array([seen.setdefault(row, len(seen)) for row in batches.iter_row_bytes(inputs)])
    if len(seen) == len(index):
        return inputs, index
    return batches.take(inputs, np.unique(index, return_index=True)[1]), index
