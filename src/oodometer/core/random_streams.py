"""One random stream per row, derived from the seed, the row's content and the number of the draw.

A random number is the hash of a counter (SplitMix64; Steele et al., 2014) instead of the state of a
generator. Therefore, the numbers of a row do not depend on the order of rows, the batch size or the
number of workers, and the numbers of a whole batch are computed at once.
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
    """Random streams of the rows of a batch.

    Parameters
    ----------
    seed : int
        Random seed.
    row_keys : array of uint64 of shape (n,)
        Hash of each row's content (see `inputs.hash_rows`).
    draw_index : array of int of shape (n,)
        Number of the draw of each row, from 1.
    namespace : str
        Name that distinguishes several streams of one row, for example one for each text of a pair.

    Examples
    --------
    >>> keys = np.array([7, 7, 8], dtype=np.uint64)
    >>> streams = RowStreams(seed=0, row_keys=keys, draw_index=np.array([1, 2, 1]))
    >>> streams.uniforms(2).shape
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
        """Initial state of each row's stream."""
        seed = np.array([self.seed % 2**64, zlib.crc32(self.namespace.encode())], dtype=np.uint64)
        start = splitmix64(splitmix64(seed[:1]) ^ seed[1:])
        return splitmix64(splitmix64(self.row_keys ^ start) ^ self.draw_index.astype(np.uint64))

    def uniforms(self, count: int) -> Floats:
        """Return `count` independent uniform numbers in [0, 1) per row."""
        with np.errstate(over="ignore"):
            steps = np.arange(1, count + 1, dtype=np.uint64) * SPLITMIX_INCREMENT
            bits = splitmix64(self.initial_states[:, None] + steps)
        uniforms: Floats = (bits >> np.uint64(11)) * 2.0**-53
        return uniforms

    def generators(self) -> Iterator[np.random.Generator]:
        """Yield one generator per row, for rows that need an unknown amount of random numbers."""
        for state in self.initial_states:
            yield np.random.Generator(np.random.Philox(key=int(state)))

    def rows(self, index: Ints | slice) -> RowStreams:

        return replace(self, row_keys=self.row_keys[index], draw_index=self.draw_index[index])

    def substream(self, name: str) -> RowStreams:
        """Return independent streams for one part of each input, such as one text of a pair."""
        return replace(self, namespace=f"{self.namespace}/{name}")


# Uniform numbers are multiples of 2⁻⁵³. The normal quantile of 0 is infinite, so 2⁻⁵⁴ replaces 0.
MIN_UNIFORM = 2.0**-54


def standard_normals(draws: RowStreams, count: int) -> Floats:
    """Return `count` independent standard normal numbers per row, Φ⁻¹(U).

    >>> standard_normals(RowStreams(0, np.array([7], dtype=np.uint64), np.array([1])), 3).shape
    (1, 3)
    """
    from scipy.special import ndtri

    return np.asarray(ndtri(np.maximum(draws.uniforms(count), MIN_UNIFORM)))
