"""Mergeable uniform sample of rows (bottom-k sketch; Cohen & Kaplan, 2007).

Each row has a pseudo-random priority that is derived from the seed and the row's position. The
sample consists of the k rows with the lowest priorities. Samples of disjoint parts of the data can
be merged, so the sample does not depend on how the rows were partitioned, on the number of workers,
or on the reading order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from oodometer.core.array_types import Array, Ints
from oodometer.core.errors import InputError
from oodometer.core.stats import rng_for

# All priorities are below this number.
PRIORITY_LIMIT = 2**32


def row_priorities(seed: int, first_row: int, n_rows: int) -> Ints:
    """Return 32-bit priorities of `n_rows` consecutive rows.

    The generator is advanced to the position of the first row, so the priority of a row does not
    depend on the partition to which the row belongs.

    Examples
    --------
    >>> whole = row_priorities(seed=0, first_row=0, n_rows=10)
    >>> bool((row_priorities(seed=0, first_row=3, n_rows=4) == whole[3:7]).all())
    True
    """
    bits: Any = rng_for(seed, "sample").bit_generator
    # One draw of 64 bits gives the priorities of two rows.
    bits.advance(first_row // 2)
    draws: Ints = bits.random_raw(n_rows // 2 + 1).astype(np.uint64, copy=False).view(np.uint32)
    return draws[first_row % 2 : first_row % 2 + n_rows]


@dataclass(frozen=True, eq=False)
class BottomKSample:
    """Sampled rows in their original order, with their priorities and columns."""

    positions: Ints
    priorities: Ints
    columns: Mapping[str, Array]

    def __len__(self) -> int:
        return len(self.positions)

    def truncate(self, size: int) -> BottomKSample:
        """Return the `size` rows with the lowest priorities; of equal ones, the earlier rows."""
        if len(self) <= size:
            return self
        return self.take(np.sort(np.lexsort((self.positions, self.priorities))[:size]))

    def take(self, index: Array) -> BottomKSample:
        columns = {name: values[index] for name, values in self.columns.items()}
        return BottomKSample(self.positions[index], self.priorities[index], columns)


def merge_samples(samples: Sequence[BottomKSample], size: int) -> BottomKSample:
    """Merge samples of disjoint partitions into one sample of at most `size` rows.

    Examples
    --------
    >>> priorities = row_priorities(0, 0, 6)
    >>> def part(rows):
    ...     return BottomKSample(np.arange(6)[rows], priorities[rows], {"x": np.arange(6)[rows]})
    >>> both = merge_samples([part(slice(4, 6)), part(slice(0, 4))], 3)
    >>> both.positions.tolist() == part(slice(0, 6)).truncate(3).positions.tolist()
    True
    """
    parts = [sample for sample in samples if len(sample)] or list(samples[:1])
    if not parts:
        raise InputError("There are no samples to merge; expected at least one.")
    positions = np.concatenate([part.positions for part in parts])
    priorities = np.concatenate([part.priorities for part in parts])
    order = np.argsort(positions, kind="stable")
    columns = {
        name: np.concatenate([part.columns[name] for part in parts])[order]
        for name in parts[0].columns
    }
    return BottomKSample(positions[order], priorities[order], columns).truncate(size)


def priority_bound(size: int, n_rows: int | None) -> int:
    """Return a priority that no row of a sample of `size` out of `n_rows` rows reaches.

    Rows with higher priorities need not be collected. The bound is eight standard deviations above
    the expected highest priority in the sample, so a sampled row practically never exceeds it. If
    `n_rows` is not known, the bound is `PRIORITY_LIMIT`.
    """
    if n_rows is None or n_rows <= size:
        return PRIORITY_LIMIT
    share = (size + 8 * np.sqrt(size) + 64) / n_rows
    return min(PRIORITY_LIMIT, int(share * PRIORITY_LIMIT) + 1)


class BottomKSampler:
    """Collector of a bottom-k sample from batches of rows, in bounded memory.

    When the collected rows exceed two times `size`, they are reduced to `size` rows.
    """

    def __init__(self, size: int, limit: int = PRIORITY_LIMIT) -> None:
        self._size = size
        self._limit = limit
        self._parts: list[BottomKSample] = []
        self._n_held = 0

    def update(self, batch_priorities: Ints, take: Callable[[Ints], BottomKSample]) -> None:
        """Add a batch; `take` returns the sample of those rows that may belong to the result."""
        candidates = np.flatnonzero(batch_priorities < self._limit)
        if not len(candidates) and self._parts:
            return
        self._parts.append(take(candidates))
        self._n_held += len(candidates)
        if self._n_held > 2 * self._size:
            merged = merge_samples(self._parts, self._size)
            self._parts = [merged]
            self._n_held = len(merged)
            # The limit includes the highest priority: an earlier row with the same priority may be
            # added later, and earlier rows are preferred.
            self._limit = min(self._limit, int(merged.priorities.max()) + 1)

    def merge(self, other: BottomKSample) -> None:
        """Add the sample of another partition."""
        self.update(other.priorities, other.take)

    def sample(self) -> BottomKSample | None:
        """Return the sample of all rows added so far; None if no batch was added."""
        return merge_samples(self._parts, self._size) if self._parts else None
