"""What datasets have in common, and the one that is held in memory."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np

from oodometer.core import inputs as batches_of
from oodometer.core.errors import InputError
from oodometer.core.inputs import InputKind, Inputs, RowHashes
from oodometer.core.softmax_kernels import Array, Bools, Ints
from oodometer.parallel.pickling import ReopenOnUnpickle

RowSelection = Ints | Bools | slice


class BaseDataset(ReopenOnUnpickle, ABC):
    """Rows that can be taken some at a time."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def take(self, index: RowSelection) -> Inputs:
        """Some rows, in that order."""

    @abstractmethod
    def rows(self, index: RowSelection) -> Self:
        """The dataset of some rows, which keep their keys and labels."""

    def batches(self, size: int) -> Iterator[Inputs]:
        """All rows, in order, `size` at a time."""
        if size < 1:
            raise InputError(f"size must be 1 or more; got {size}. Give how many rows a batch has.")
        for start in range(0, len(self), size):
            yield self.take(slice(start, start + size))


def to_row_numbers(index: RowSelection, n: int) -> Ints | slice:
    """Row numbers of marks (True and False); row numbers and slices as they are.

    >>> to_row_numbers(np.array([True, False, True]), 3)
    array([0, 2])
    """
    if isinstance(index, slice):
        return index
    given = np.asarray(index)
    if given.dtype != np.bool_:
        return given.astype(np.int64)
    if given.shape != (n,):
        raise InputError(
            f"Marks of rows must be one a row; got {given.shape} for {n} rows. Or give row numbers."
        )
    return np.flatnonzero(given)


def fingerprint_rows(header: str, keys: RowHashes) -> str:
    """A fingerprint of rows: of what they are, and of every row's content, in order."""
    digest = hashlib.blake2b(header.encode("utf-8", "surrogatepass"), digest_size=16)
    digest.update(b"\0" + keys.tobytes())
    return digest.hexdigest()


@dataclass(frozen=True, eq=False, repr=False)
class InMemoryDataset(BaseDataset):
    """A dataset whose rows are held in memory, or mapped from one `.npy` file.

    `skipped` names the bad rows that were left out because `skip_bad` was asked for.

    >>> reviews = InMemoryDataset("reviews", ["good", "bad"], labels=np.array([1, 0]))
    >>> reviews, reviews.take(slice(1, 2))
    (InMemoryDataset('reviews', 2 rows of text, labelled), ['bad'])
    """

    name: str
    inputs: Inputs
    labels: Array | None = None
    skipped: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.inputs)

    def __repr__(self) -> str:
        labelled = "unlabelled" if self.labels is None else "labelled"
        return f"InMemoryDataset({self.name!r}, {len(self)} rows of {self.kind}, {labelled})"

    @cached_property
    def kind(self) -> InputKind:
        """Images, text, pairs, vectors or a table."""
        return batches_of.infer_kind(self.inputs)

    @cached_property
    def keys(self) -> RowHashes:
        """A number a row, made of the row's content."""
        return batches_of.hash_rows(self.inputs)

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the content of all rows, in order; neither of the name nor of the labels."""
        return fingerprint_rows(self._fingerprint_header(), self.keys)

    def _fingerprint_header(self) -> str:
        """What the bytes of a row do not say: the type and shape, or the columns."""
        if isinstance(self.inputs, np.ndarray):
            return f"{self.kind} {self.inputs.dtype.str} {self.inputs.shape[1:]}"
        if self.kind == "table":
            return f"table {[(column.name, str(column.type)) for column in self.inputs.schema]}"
        return self.kind

    def take(self, index: RowSelection) -> Inputs:
        """Some rows, in that order."""
        return batches_of.take(self.inputs, to_row_numbers(index, len(self)))

    def rows(self, index: RowSelection) -> InMemoryDataset:
        """The dataset of some rows, which keep their keys and labels."""
        chosen = to_row_numbers(index, len(self))
        labels = None if self.labels is None else self.labels[chosen]
        return replace(self, inputs=batches_of.take(self.inputs, chosen), labels=labels)
