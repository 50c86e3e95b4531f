"""What datasets have in common, and the one that is held in memory."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol, Self

import numpy as np

from oodometer.core import inputs as batches_of
from oodometer.core.array_types import Array, Bools, Ints
from oodometer.core.errors import InputError
from oodometer.core.inputs import InputKind, Inputs, RowHashes
from oodometer.core.keys import settings_key
from oodometer.core.protocols import Dataset
from oodometer.core.random_streams import RowStreams
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


@dataclass(frozen=True, eq=False, repr=False)
class ConcatDataset(BaseDataset):
    """The rows of several datasets of one kind, one after the other.

    >>> from oodometer.data import as_dataset
    >>> both = ConcatDataset("both", (as_dataset(["a", "b"]), as_dataset(["c"])))
    >>> both, both.take(np.array([2, 0]))
    (ConcatDataset('both', 3 rows of text, unlabelled), ['c', 'a'])
    """

    name: str
    parts: tuple[Dataset, ...]

    def __post_init__(self) -> None:
        kinds = sorted({part.kind for part in self.parts})
        if len(kinds) != 1:
            raise InputError(
                f"{self.name} can't be of several kinds; got {' and '.join(kinds) or 'nothing'}. "
                "Give datasets of one kind."
            )

    def __len__(self) -> int:
        return sum(len(part) for part in self.parts)

    def __repr__(self) -> str:
        labelled = "unlabelled" if self.labels is None else "labelled"
        return f"ConcatDataset({self.name!r}, {len(self)} rows of {self.kind}, {labelled})"

    @property
    def kind(self) -> InputKind:
        """Images, text, pairs, vectors or a table."""
        return self.parts[0].kind

    @cached_property
    def labels(self) -> Array | None:
        """Those of all parts, where all have some."""
        found = [part.labels for part in self.parts]
        known = [labels for labels in found if labels is not None]
        if len(known) < len(found):
            return None
        if len({labels.dtype.kind in "US" for labels in known}) > 1:
            raise InputError(
                f"{self.name}: some labels are names and some are numbers. Give one or the other."
            )
        return np.concatenate(known)

    @cached_property
    def keys(self) -> RowHashes:
        """A number a row, made of the row's content."""
        return np.concatenate([part.keys for part in self.parts])

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the content of all rows, in order."""
        return fingerprint_rows(
            "joined " + " ".join(part.fingerprint for part in self.parts), self.keys
        )

    @cached_property
    def skipped(self) -> tuple[str, ...]:
        """The bad rows that were left out, of all parts."""
        return tuple(row for part in self.parts for row in getattr(part, "skipped", ()))

    def take(self, index: RowSelection) -> Inputs:
        """Some rows, in that order."""
        rows = np.arange(len(self))[to_row_numbers(index, len(self))]
        which, within = self._locate_rows(rows)
        order = np.argsort(which, kind="stable")
        taken = [
            part.take(within[which == number])
            for number, part in enumerate(self.parts)
            if (which == number).any()
        ]
        if not taken:
            return self.parts[0].take(slice(0, 0))
        back = np.argsort(order, kind="stable")
        try:
            return batches_of.take(batches_of.concat_batches(taken), back)
        except ValueError as error:
            raise InputError(
                f"Rows of {self.name} can't be put side by side: {str(error).splitlines()[0]}. "
                "Give images of one size (size=…), vectors of one width, tables of one schema."
            ) from error

    def rows(self, index: RowSelection) -> Self:
        """The dataset of some rows, part by part; the order within each part is kept."""
        rows = np.arange(len(self))[to_row_numbers(index, len(self))]
        which, within = self._locate_rows(rows)
        if (np.diff(which) < 0).any():
            raise InputError(f"{self.name}: rows of a joined dataset must come part by part.")
        numbers = np.unique(which)
        some = tuple(self.parts[number].rows(within[which == number]) for number in numbers)
        return type(self)(self.name, some)

    def _locate_rows(self, rows: Ints) -> tuple[Ints, Ints]:
        """Which part each row is of, and its place there."""
        starts = np.cumsum([0, *(len(part) for part in self.parts)])
        which = np.searchsorted(starts, rows, side="right") - 1
        return which, rows - starts[which]


class DatasetTransform(Protocol):
    """A transform or a corruption."""

    @property
    def name(self) -> str:
        """Its public name, a part of the key under which results are stored."""

    def apply(self, inputs: Inputs, draws: RowStreams) -> Inputs:
        """One changed copy of every row, by that row's own draw."""


@dataclass(frozen=True, eq=False, repr=False)
class TransformedDataset(BaseDataset):
    """The rows of a dataset, each changed by a draw of its own, which hangs on its content."""

    dataset: Dataset
    transform: DatasetTransform
    seed: int = 0

    def __len__(self) -> int:
        return len(self.dataset)

    def __repr__(self) -> str:
        return f"TransformedDataset({self.dataset!r}, {self.transform!r})"

    @property
    def name(self) -> str:
        """The dataset's."""
        return self.dataset.name

    @property
    def kind(self) -> InputKind:
        """The dataset's."""
        return self.dataset.kind

    @property
    def labels(self) -> Array | None:
        """The dataset's: a change keeps the class."""
        return self.dataset.labels

    @property
    def keys(self) -> RowHashes:
        """Those of the rows before the change."""
        return self.dataset.keys

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the content of all rows, of the change and of the seed."""
        return fingerprint_rows(
            f"{self.dataset.fingerprint} {settings_key(self.transform)} {self.seed}", self.keys
        )

    def take(self, index: RowSelection) -> Inputs:
        """Some rows, in that order, changed."""
        rows = np.arange(len(self))[to_row_numbers(index, len(self))]
        draws = RowStreams(self.seed, self.keys[rows], np.ones(len(rows), dtype=np.int64))
        return self.transform.apply(self.dataset.take(rows), draws)

    def rows(self, index: RowSelection) -> Self:
        """The dataset of some rows, changed alike."""
        return replace(self, dataset=self.dataset.rows(to_row_numbers(index, len(self))))
