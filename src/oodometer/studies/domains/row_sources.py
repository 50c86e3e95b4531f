"""Where a domain's rows come from: files that are read, or another domain that is changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Literal

import numpy as np

from oodometer.core.array_types import Array, Bools, Ints
from oodometer.core.errors import InputError
from oodometer.core.inputs import InputKind, Inputs, RowHashes, splitmix64
from oodometer.core.labels import encode_labels
from oodometer.core.protocols import Dataset
from oodometer.data.dataset import BaseDataset, RowSelection, fingerprint_rows, to_row_numbers
from oodometer.studies.domains._reader import DomainReader, ImageSize, find_file, require_file
from oodometer.studies.domains.synthetic import DomainDerivation

Split = Literal["train", "test"]
# The share of the rows that are held out for testing where no file is named for it.
TEST_SHARE = 0.2
# So that which rows are held out and which part they are of don't hang together.
_TEST_SALT, _PART_SALT = np.uint64(0x7E57), np.uint64(0x9A27)
# So many domains are kept open in a process.
MAX_CACHED_FILES = 32


@dataclass(frozen=True)
class DomainFiles:
    """Files, and how they are split: `test` reads what is held out, or else a share by content.

    `rename` says which class a label of the files stands for, where it is not the class's name.
    """

    train: DomainReader
    test: DomainReader | None = None
    share: float = TEST_SHARE
    rename: tuple[tuple[str, str], ...] = ()

    @property
    def files(self) -> tuple[str, ...]:
        """All that is read, for both splits."""
        both = self.train.files + (() if self.test is None else self.test.files)
        return tuple(dict.fromkeys(both))

    def missing_files(self, root: Path | None) -> tuple[str, ...]:
        """The files that are not there."""
        return tuple(name for name in self.files if root is None or not find_file(root, name))

    def read(self, root: Path, split: Split, size: ImageSize) -> tuple[Dataset, Ints]:
        """The dataset that holds the split, and the rows of it that are the split's."""
        reader = self.train if split == "train" or self.test is None else self.test
        stamps = tuple(_file_stamp(require_file(root, name)) for name in reader.files)
        dataset = _read_cached(reader, root, size, stamps)
        if self.test is not None:
            return dataset, np.arange(len(dataset))
        held = held_out_mask(dataset.keys, self.share)
        return dataset, np.flatnonzero(held if split == "test" else ~held)


@dataclass(frozen=True)
class DerivedDomain:
    """A domain that is made of another: `of` names it, or a group and it: numbers/mnist.

    `part` (i, m) keeps the i-th of m parts, from 0, so that no image is in two domains.
    """

    of: str
    derivation: DomainDerivation
    part: tuple[int, int] | None = None


def _file_stamp(path: Path) -> tuple[int, int]:
    """Changes when the file does."""
    found = path.stat()
    return found.st_mtime_ns, found.st_size


@lru_cache(maxsize=MAX_CACHED_FILES)
def _read_cached(
    reader: DomainReader, root: Path, size: ImageSize, stamps: tuple[tuple[int, int], ...]
) -> Dataset:  # fmt: skip
    return reader.read(root, size)


def held_out_mask(keys: RowHashes, share: float) -> Bools:
    """Which rows are for testing: by content alone, so that equal rows are never on both sides.

    >>> keys = np.arange(10_000, dtype=np.uint64)
    >>> 0.19 < held_out_mask(keys, 0.2).mean() < 0.21
    np.True_
    """
    return np.asarray(_hash_fractions(keys, _TEST_SALT) < share)


def part_mask(keys: RowHashes, part: tuple[int, int]) -> Bools:
    """Which rows are in the i-th of m parts; by content alone."""
    return np.asarray((_hash_fractions(keys, _PART_SALT) * part[1]).astype(np.int64) == part[0])


def _hash_fractions(keys: RowHashes, salt: np.uint64) -> Array:
    """A number in [0, 1) a row."""
    return (splitmix64(keys ^ salt) >> np.uint64(11)) * 2.0**-53


@dataclass(frozen=True, eq=False, repr=False)
class SubsetDataset(BaseDataset):
    """Some rows of a dataset under a name and with labels of their own; nothing is copied."""

    name: str
    dataset: Dataset
    index: Ints
    labels: Ints

    def __len__(self) -> int:
        return len(self.index)

    def __repr__(self) -> str:
        return f"SubsetDataset({self.name!r}, {len(self)} rows of {self.kind}, labelled)"

    @property
    def kind(self) -> InputKind:
        """The dataset's."""
        return self.dataset.kind

    @cached_property
    def keys(self) -> RowHashes:
        """A number a row, made of the row's content."""
        return self.dataset.keys[self.index]

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the content of all rows, in order."""
        return fingerprint_rows(f"rows of {self.dataset.fingerprint}", self.keys)

    def take(self, index: RowSelection) -> Inputs:
        """Some rows, in that order."""
        return self.dataset.take(self.index[to_row_numbers(index, len(self))])

    def rows(self, index: RowSelection) -> SubsetDataset:
        """The dataset of some rows, which keep their keys and labels."""
        some = to_row_numbers(index, len(self))
        return replace(self, index=self.index[some], labels=self.labels[some])


def encode_class_labels(
    labels: Array | None, classes: Sequence[str], rename: tuple[tuple[str, str], ...] = ()
) -> Ints:
    """The number of every row's class. A label is a class's name, or its number from 0.

    >>> encode_class_labels(np.array(["dog", "cat"]), ["cat", "dog"])
    array([1, 0])
    """
    if labels is None:
        raise InputError(
            "There are no labels; a class a row was expected. Name the column or the file of "
            "labels, or put images into folders, one a class."
        )
    if rename:
        known = dict(rename)
        labels = np.array([known.get(str(label), str(label)) for label in labels.tolist()])
    # Numbers are class numbers, even if the classes are called "1", "2", …
    names = classes if labels.dtype.kind in "US" else None
    try:
        numbers = encode_labels(labels, len(labels), len(classes), names, numeric_text=True)
    except InputError as error:
        raise InputError(
            f"{error} Labels are names of the classes or their numbers from 0; correct the label, "
            "add its class, or use rename."
        ) from error
    assert numbers is not None
    return numbers
