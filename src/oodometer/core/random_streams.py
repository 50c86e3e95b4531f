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

from oodometer.core.inputs import STEP, Keys, mixed
from oodometer.core.softmax_kernels import Floats, Ints


@dataclass(frozen=True, eq=False)
class Draws:
    """Which member of whose neighborhood each row of a batch is to become.

    `examples` has a key a row (see `inputs.keys`), `numbers` the draw's number, from 1.

    >>> draws = Draws(seed=0, examples=np.array([7, 7, 8], dtype=np.uint64), numbers=np.array([1, 2, 1]))
    >>> draws.uniforms(2).shape
    (3, 2)
    """

    seed: int
    examples: Keys
    numbers: Ints
    part: str = ""

    def __len__(self) -> int:
        return len(self.examples)

    @property
    def states(self) -> Keys:
        """The start of every row's stream."""
        seed = np.array([self.seed % 2**64, zlib.crc32(self.part.encode())], dtype=np.uint64)
        start = mixed(mixed(seed[:1]) ^ seed[1:])
        return mixed(mixed(self.examples ^ start) ^ self.numbers.astype(np.uint64))

    def uniforms(self, count: int) -> Floats:
        """`count` independent numbers in [0, 1) a row."""
        with np.errstate(over="ignore"):
            steps = np.arange(1, count + 1, dtype=np.uint64) * STEP
            bits = mixed(self.states[:, None] + steps)
        result: Floats = (bits >> np.uint64(11)) * 2.0**-53
        return result

    def generators(self) -> Iterator[np.random.Generator]:
        """A generator a row, where how many numbers are needed is not known beforehand."""
        for state in self.states:
            yield np.random.Generator(np.random.Philox(key=int(state)))

    def rows(self, index: Ints | slice) -> Draws:
        """The draws of some rows."""
        return replace(self, examples=self.examples[index], numbers=self.numbers[index])

    def of(self, part: str) -> Draws:
        """Streams of their own for a part of each input, such as one side of a pair."""
        return replace(self, part=f"{self.part}/{part}")
