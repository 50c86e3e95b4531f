"""Random draws that hang on the seed, the example and the draw's number, and on nothing else.

A batch of rows has one stream of random numbers a row. They come from a counter that is mixed,
not from a generator that is moved on, so that neither the order of examples, nor the batch, nor
the number of workers changes what is drawn; and a whole batch is drawn at once.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from oodometer.core.array_types import Floats, Ints
from oodometer.core.inputs import SPLITMIX_INCREMENT, RowHashes, splitmix64


@dataclass(frozen=True, eq=False)
class RowStreams:
    """Which member of whose neighborhood each row of a batch is to become.

    `row_keys` has a key a row (see `inputs.keys`), `draw_index` the draw's number, from 1.

    >>> draws = RowStreams(seed=0, row_keys=np.array([7, 7, 8], dtype=np.uint64), draw_index=np.array([1, 2, 1]))
    >>> draws.uniforms(2).shape
    (3, 2)
    """

    seed: int
    row_keys: RowHashes
    draw_index: Ints
    namespace: str = ""

    def __len__(self) -> int:
        return len(self.row_keys)

    @property
    def initial_states(self) -> RowHashes:
        """The start of every row's stream."""
        seed = np.array([self.seed % 2**64, zlib.crc32(self.namespace.encode())], dtype=np.uint64)
        start = splitmix64(splitmix64(seed[:1]) ^ seed[1:])
        return splitmix64(splitmix64(self.row_keys ^ start) ^ self.draw_index.astype(np.uint64))

    def uniforms(self, count: int) -> Floats:
        """`count` independent numbers in [0, 1) a row."""
        with np.errstate(over="ignore"):
            steps = np.arange(1, count + 1, dtype=np.uint64) * SPLITMIX_INCREMENT
            bits = splitmix64(self.initial_states[:, None] + steps)
        result: Floats = (bits >> np.uint64(11)) * 2.0**-53
        return result

    def generators(self) -> Iterator[np.random.Generator]:
        """A generator a row, where how many numbers are needed is not known beforehand."""
        for state in self.initial_states:
            yield np.random.Generator(np.random.Philox(key=int(state)))

    def rows(self, index: Ints | slice) -> RowStreams:
        """The draws of some rows."""
        return replace(self, row_keys=self.row_keys[index], draw_index=self.draw_index[index])

    def substream(self, name: str) -> RowStreams:
        """Streams of their own for a part of each input, such as one side of a pair."""
        return replace(self, namespace=f"{self.namespace}/{name}")


# A uniform number is a multiple of 2⁻⁵³; half of that stands for 0, which has no normal quantile.
MIN_UNIFORM = 2.0**-54


def standard_normals(draws: RowStreams, count: int) -> Floats:
    """`count` independent standard normal numbers a row, Φ⁻¹(U).

    >>> standard_normals(RowStreams(0, np.array([7], dtype=np.uint64), np.array([1])), 3).shape
    (1, 3)
    """
    from scipy.special import ndtri

    return np.asarray(ndtri(np.maximum(draws.uniforms(count), MIN_UNIFORM)))
