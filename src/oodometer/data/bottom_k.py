"""A random sample that adds up: the rows of the lowest priorities.

Every row has a priority, drawn by the seed and the row's place among all rows, and the rows of the
lowest ones are the sample (Cohen & Kaplan, 2007). The sample of two parts is made of theirs, so it
does not hang on how rows were parted, who read them, or who was first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from oodometer.core.array_types import Array, Ints
from oodometer.core.errors import InputError
from oodometer.core.stats import rng_for


def row_priorities(seed: int, first_row: int, n_rows: int) -> Ints:
    """The priorities of n rows, the first of which has that place: 32 random bits a row.

    >>> whole = row_priorities(0, 0, 10)
    >>> bool((row_priorities(0, 3, 4) == whole[3:7]).all())
    True
    """
    bits: Any = rng_for(seed, "sample").bit_generator
    # One draw of 64 bits serves two rows; a generator can be moved to any of its draws at once.
    bits.advance(first_row // 2)
    drawn: Ints = bits.random_raw(n_rows // 2 + 1).astype(np.uint64, copy=False).view(np.uint32)
    return drawn[first_row % 2 : first_row % 2 + n_rows]


@dataclass(frozen=True, eq=False)
class BottomKSample:
    """Sampled rows in the order of their places, with their priorities and what is kept of them."""

    positions: Ints
    priorities: Ints
    columns: Mapping[str, Array]

    def __len__(self) -> int:
        return len(self.positions)

    def truncate(self, size: int) -> BottomKSample:
        """The rows of the lowest priorities, `size` of them; of like ones those that come first."""
        if len(self) <= size:
            return self
        kept = np.sort(np.lexsort((self.positions, self.priorities))[:size])
        return self.take(kept)

    def take(self, index: Array) -> BottomKSample:
        """Some of the rows."""
        some = {name: values[index] for name, values in self.columns.items()}
        return BottomKSample(self.positions[index], self.priorities[index], some)


def merge_samples(samples: Sequence[BottomKSample], size: int) -> BottomKSample:
    """The sample of all parts together.

    >>> draws = row_priorities(0, 0, 6)
    >>> def part(some):
    ...     return BottomKSample(np.arange(6)[some], draws[some], {"x": np.arange(6)[some]})
    >>> both = merge_samples([part(slice(4, 6)), part(slice(0, 4))], 3)
    >>> both.positions.tolist() == part(slice(0, 6)).truncate(3).positions.tolist()
    True
    """
    some = [part for part in samples if len(part)] or list(samples[:1])
    if not some:
        raise InputError("A sample is made of at least one part; got none.")
    places = np.concatenate([part.positions for part in some])
    order = np.argsort(places, kind="stable")
    rows = {
        name: np.concatenate([part.columns[name] for part in some])[order]
        for name in some[0].columns
    }
    draws = np.concatenate([part.priorities for part in some])
    return BottomKSample(places[order], draws[order], rows).truncate(size)


def priority_bound(size: int, n_rows: int | None) -> int:
    """A priority that no row of the sample of n rows has, but once in far more than all trials.

    Where n is not known it is above all of them. Eight deviations above what is expected.
    """
    if n_rows is None or n_rows <= size:
        return 2**32
    share = (size + 8 * np.sqrt(size) + 64) / n_rows
    return min(2**32, int(share * 2**32) + 1)


class BottomKSampler:
    """Keeps the sample of rows that are offered batch by batch."""

    def __init__(self, size: int, limit: int = 2**32) -> None:
        self._size, self._limit = size, limit
        self._parts: list[BottomKSample] = []
        self._held = 0

    def update(self, batch_priorities: Ints, take: Callable[[Ints], BottomKSample]) -> None:
        """Rows with their priorities; those that may be of the sample are taken."""
        chosen = np.flatnonzero(batch_priorities < self._limit)
        if not len(chosen) and self._parts:
            return
        self._parts.append(take(chosen))
        self._held += len(chosen)
        if self._held > 2 * self._size:
            whole = merge_samples(self._parts, self._size)
            self._parts, self._held = [whole], len(whole)
            # Of like priorities the first row is kept, and rows may come in any order.
            self._limit = min(self._limit, int(whole.priorities.max()) + 1)

    def merge(self, other: BottomKSample) -> None:
        """The sample of another part."""
        self.update(other.priorities, other.take)

    def sample(self) -> BottomKSample | None:
        """The sample of all that was offered; None if nothing was."""
        return merge_samples(self._parts, self._size) if self._parts else None
