"""Drawn inputs, a batch at a time, made in threads beside the work done on the batch before."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from oodometer.core import inputs as batches
from oodometer.core.errors import InputError
from oodometer.core.inputs import Inputs
from oodometer.core.protocols import Dataset, Transform
from oodometer.core.random_streams import RowStreams
from oodometer.core.softmax_kernels import Ints
from oodometer.neighborhood.sampling import SamplingRound

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


def prefetch(
    make: Callable[[Task], Made], tasks: Iterable[Task], workers: int
) -> Generator[Made, None, None]:
    """The results in order, a few made beforehand by threads; by none, each when it is asked for.

    Close it where not all are asked for: that ends the threads.

    >>> list(prefetch(abs, [-1, 2, -3], workers=2))
    [1, 2, 3]
    """
    if workers < 1:
        yield from map(make, tasks)
        return
    waiting: deque[Future[Made]] = deque()
    with ThreadPoolExecutor(workers) as pool:
        for task in tasks:
            waiting.append(pool.submit(make, task))
            if len(waiting) > workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
