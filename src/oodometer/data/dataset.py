"""Base class of datasets, and datasets in memory, concatenated datasets, transformed datasets."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol, Self

import numpy as np

from oodometer.core.array_types import Array, Bools, Ints
from oodometer.core.errors import InputError, format_error, out_of_range, wrong_shape
from oodometer.core.inputs import (
    InputKind,
    Inputs,
    RowHashes,
    concat_batches,
    hash_rows,
    infer_kind,
    take,
)
from oodometer.core.keys import settings_key
from oodometer.core.protocols import Dataset
from oodometer.core.random_streams import RowStreams
from oodometer.parallel.pickling import ReopenOnUnpickle

RowSelection = Ints | Bools | slice


class BaseDataset(ReopenOnUnpickle, ABC):
    """Base class of datasets.

    A dataset that was opened from a path is sent to workers as this path, and they open it again.
    """

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def take(self, index: RowSelection) -> Inputs:
        """Return the selected rows as a batch, in the order of the index."""

    @abstractmethod
    def rows(self, index: RowSelection) -> Self:
        """Return a dataset of the selected rows, with their keys and labels."""

    def batches(self, size: int) -> Iterator[Inputs]:
        """Yield all rows in order, `size` at a time."""
        if size < 1:
            raise out_of_range("size", size, low=1)
        for start in range(0, len(self), size):
            yield self.take(slice(start, start + size))


def to_row_numbers(index: RowSelection, n: int) -> Ints | slice:
    """Convert a boolean mask to row numbers; return row numbers and slices unchanged.

    >>> to_row_numbers(np.array([True, False, True]), 3)
    array([0, 2])
    """
    if isinstance(index, slice):
        return index
    array = np.asarray(index)
    if array.dtype != np.bool_:
        return array.astype(np.int64)
    if array.shape != (n,):
        raise wrong_shape("A mask of rows", f"({n},)", array.shape)
    return np.flatnonzero(array)


def fingerprint_rows(header: str, keys: RowHashes) -> str:
    """Return a hash of the header, which describes the type of the rows, and of the row keys."""
    digest = hashlib.blake2b(header.encode("utf-8", "surrogatepass"), digest_size=16)
    digest.update(b"\0" + keys.tobytes())
    return digest.hexdigest()


@dataclass(frozen=True, eq=False, repr=False)
class InMemoryDataset(BaseDataset):
    """Dataset whose rows are in memory or mapped from an `.npy` file.

    Parameters
    ----------
    name : str
        Name that tables and reports show.
    inputs : array, list or pyarrow.Table
        Batch of all rows (see `oodometer.core.inputs` for the kinds).
    labels : array of shape (n,), optional
        True class of each row, as a number or a name.
    skipped : tuple of str
        Invalid rows that were left out.

    Examples
    --------
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
        return infer_kind(self.inputs)

    @cached_property
    def keys(self) -> RowHashes:
        return hash_rows(self.inputs)

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the content of all rows, in order, without the name and the labels."""
        # The keys do not depend on the type, the shape or the columns, so the header contains them.
        header: str = self.kind
        if isinstance(self.inputs, np.ndarray):
            header = f"{self.kind} {self.inputs.dtype.str} {self.inputs.shape[1:]}"
        elif self.kind == "table":
            header = f"table {[(column.name, str(column.type)) for column in self.inputs.schema]}"
        return fingerprint_rows(header, self.keys)

    def take(self, index: RowSelection) -> Inputs:
        return take(self.inputs, to_row_numbers(index, len(self)))

    def rows(self, index: RowSelection) -> InMemoryDataset:
        numbers = to_row_numbers(index, len(self))
        labels = None if self.labels is None else self.labels[numbers]
        return replace(self, inputs=take(self.inputs, numbers), labels=labels)


@dataclass(frozen=True, eq=False, repr=False)
class ConcatDataset(BaseDataset):
    """Concatenation of several datasets with the same kind of inputs.

    Parameters
    ----------
    name : str
        Name that tables and reports show.
    parts : tuple of Dataset
        Datasets to concatenate, in order.

    Examples
    --------
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
                f"{self.name} must have inputs of one kind; got {' and '.join(kinds) or 'none'}. "
                "Pass datasets of one kind."
            )

    def __len__(self) -> int:
        return sum(len(part) for part in self.parts)

    def __repr__(self) -> str:
        labelled = "unlabelled" if self.labels is None else "labelled"
        return f"ConcatDataset({self.name!r}, {len(self)} rows of {self.kind}, {labelled})"

    @property
    def kind(self) -> InputKind:
        return self.parts[0].kind

    @cached_property
    def labels(self) -> Array | None:
        """Labels of all parts; None if a part has no labels."""
        known = [part.labels for part in self.parts if part.labels is not None]
        if len(known) < len(self.parts):
            return None
        if len({labels.dtype.kind in "US" for labels in known}) > 1:
            raise InputError(
                f"{self.name}: some labels are names and some are numbers. Use one or the other."
            )
        return np.concatenate(known)

    @cached_property
    def keys(self) -> RowHashes:
        return np.concatenate([part.keys for part in self.parts])

    @cached_property
    def fingerprint(self) -> str:
        fingerprints = " ".join(part.fingerprint for part in self.parts)
        return fingerprint_rows(f"joined {fingerprints}", self.keys)

    @cached_property
    def skipped(self) -> tuple[str, ...]:
        """Invalid rows that were left out of the parts."""
        return tuple(row for part in self.parts for row in getattr(part, "skipped", ()))

    def take(self, index: RowSelection) -> Inputs:
        part_numbers, rows = self._locate_rows(index)
        batches = [
            self.parts[number].take(rows[part_numbers == number])
            for number in np.unique(part_numbers)
        ]
        if not batches:
            return self.parts[0].take(slice(0, 0))
        order = np.argsort(part_numbers, kind="stable")
        try:
            return take(concat_batches(batches), np.argsort(order, kind="stable"))
        except ValueError as error:
            raise InputError(
                f"Rows of {self.name} cannot be combined: {format_error(error, first_line=True)}. "
                "Pass images of one size (size=…), vectors of one width, tables of one schema."
            ) from error

    def rows(self, index: RowSelection) -> Self:
        """Return a dataset of the selected rows, which must be in the order of the parts."""
        part_numbers, rows = self._locate_rows(index)
        if (np.diff(part_numbers) < 0).any():
            raise InputError(
                f"{self.name}: rows of a concatenated dataset must be in the order of its parts."
            )
        parts = tuple(
            self.parts[number].rows(rows[part_numbers == number])
            for number in np.unique(part_numbers)
        )
        return type(self)(self.name, parts)

    def _locate_rows(self, index: RowSelection) -> tuple[Ints, Ints]:
        """Return, for each selected row, the number of its part and its row number in the part."""
        rows = np.arange(len(self))[to_row_numbers(index, len(self))]
        starts = np.cumsum([0, *(len(part) for part in self.parts)])
        part_numbers = np.searchsorted(starts, rows, side="right") - 1
        return part_numbers, rows - starts[part_numbers]


class DatasetTransform(Protocol):
    """Transform or corruption."""

    @property
    def name(self) -> str:
        """Public name, which is part of the key under which results are stored."""

    def apply(self, inputs: Inputs, draws: RowStreams) -> Inputs:
        """Return a changed copy of each row, drawn from the random stream of this row."""


@dataclass(frozen=True, eq=False, repr=False)
class TransformedDataset(BaseDataset):
    """Dataset in which a transform has changed every row.

    The random change of a row depends on the seed and on the content of the row.

    Parameters
    ----------
    dataset : Dataset
        The original rows.
    transform : object with `name` and `apply`
        Transform or corruption.
    seed : int
        Random seed.

    Examples
    --------
    >>> class Repeat:
    ...     name = "repeat"
    ...     def apply(self, inputs, draws):
    ...         return [text + text for text in inputs]
    >>> TransformedDataset(InMemoryDataset("letters", ["a", "b"]), Repeat()).take(slice(0, 1))
    ['aa']
    """

    dataset: Dataset
    transform: DatasetTransform
    seed: int = 0

    def __len__(self) -> int:
        return len(self.dataset)

    def __repr__(self) -> str:
        return f"TransformedDataset({self.dataset!r}, {self.transform!r})"

    @property
    def name(self) -> str:
        return self.dataset.name

    @property
    def kind(self) -> InputKind:
        return self.dataset.kind

    @property
    def labels(self) -> Array | None:
        return self.dataset.labels

    @property
    def keys(self) -> RowHashes:
        """Keys of the original rows."""
        return self.dataset.keys

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the content of all rows, the transform and the seed."""
        header = f"{self.dataset.fingerprint} {settings_key(self.transform)} {self.seed}"
        return fingerprint_rows(header, self.keys)

    def take(self, index: RowSelection) -> Inputs:
        rows = np.arange(len(self))[to_row_numbers(index, len(self))]
        draws = RowStreams(self.seed, self.keys[rows], np.ones(len(rows), dtype=np.int64))
        return self.transform.apply(self.dataset.take(rows), draws)

    def rows(self, index: RowSelection) -> Self:
        return replace(self, dataset=self.dataset.rows(to_row_numbers(index, len(self))))
