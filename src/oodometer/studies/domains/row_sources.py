"""Data locations of a domain: its files, or another domain that it is derived from."""

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
# Default fraction of rows that form the test split if there are no separate test files.
TEST_SHARE = 0.2
# Different salts of the hash, so that the test split and the parts are independent.
_TEST_SALT, _PART_SALT = np.uint64(0x7E57), np.uint64(0x9A27)
# Salt of the hash that divides a test split, so that the halves are independent of other splits.
_HALF_SALT = np.uint64(0x4A1F)
# Maximum number of datasets read from files that a process keeps in its cache.
MAX_CACHED_FILES = 32


@dataclass(frozen=True)
class DomainFiles:
    """Domain that is read from files.

    train    reader of the training split
    test     reader of the test split; None uses a part of the training files as test split
    share    fraction of the rows that form the test split if `test` is None; a hash of the content
             of each row selects them
    rename   pairs of a label in the files and the class name that replaces it
    """

    train: DomainReader
    test: DomainReader | None = None
    share: float = TEST_SHARE
    rename: tuple[tuple[str, str], ...] = ()

    @property
    def files(self) -> tuple[str, ...]:
        """Paths of all files of the training split and the test split, without duplicates."""
        both = self.train.files + (() if self.test is None else self.test.files)
        return tuple(dict.fromkeys(both))

    def missing_files(self, root: Path | None) -> tuple[str, ...]:
        """Return the paths of the files that do not exist in `root`."""
        return tuple(name for name in self.files if root is None or not find_file(root, name))

    def read(self, root: Path, split: Split, size: ImageSize) -> tuple[Dataset, Ints]:
        """Return a dataset that contains the split, and the row numbers of the split."""
        reader = self.train if split == "train" or self.test is None else self.test
        stamps = tuple(_file_stamp(require_file(root, name)) for name in reader.files)
        dataset = _read_cached(reader, root, size, stamps)
        all_rows = np.arange(len(dataset))
        if self.test is not None:
            return dataset, all_rows
        if self.share >= 1.0:  # the rows need not be hashed
            return dataset, all_rows if split == "test" else all_rows[:0]
        held_out = held_out_mask(dataset.keys, self.share)
        return dataset, np.flatnonzero(held_out if split == "test" else ~held_out)


@dataclass(frozen=True)
class DerivedDomain:
    """Domain that is derived from another domain.

    of           original domain; a domain of another group is written as group/domain
    derivation   change that is applied to the rows
    part         (i, m) divides the original rows into m disjoint parts and uses only part i, where
                 parts are counted from 0; None uses all rows
    """

    of: str
    derivation: DomainDerivation
    part: tuple[int, int] | None = None


def _file_stamp(path: Path) -> tuple[int, int]:
    """Return the modification time and the size of a file, to detect that it has changed."""
    stat = path.stat()
    return stat.st_mtime_ns, stat.st_size


@lru_cache(maxsize=MAX_CACHED_FILES)
def _read_cached(
    reader: DomainReader, root: Path, size: ImageSize, stamps: tuple[tuple[int, int], ...]
) -> Dataset:  # fmt: skip
    return reader.read(root, size)


def held_out_mask(keys: RowHashes, share: float) -> Bools:
    """Return a mask of the rows in the test split, given the hashes of all rows.

    Rows with the same content have the same hash and are therefore in the same split.

    >>> keys = np.arange(10_000, dtype=np.uint64)
    >>> 0.19 < held_out_mask(keys, 0.2).mean() < 0.21
    np.True_
    """
    return np.asarray(_hash_fractions(keys, _TEST_SALT) < share)


def part_mask(keys: RowHashes, part: tuple[int, int]) -> Bools:
    """Return a mask of the rows in part `part` = (i, m), given the hashes of all rows."""
    return np.asarray((_hash_fractions(keys, _PART_SALT) * part[1]).astype(np.int64) == part[0])


def first_half(keys: RowHashes) -> Ints:
    """Return the row numbers of the rows that belong to the first half.

    The first half of a domain's test split is held out for models that are trained on the domain:
    it is their labelled source, and they are tested on other rows only.

    >>> keys = np.arange(10_000, dtype=np.uint64)
    >>> 4800 < len(first_half(keys)) < 5200
    True
    """
    return np.flatnonzero(splitmix64(keys ^ _HALF_SALT) & np.uint64(1))


def _hash_fractions(keys: RowHashes, salt: np.uint64) -> Array:
    """Map the hash of each row and a salt to a number in [0, 1)."""
    return (splitmix64(keys ^ salt) >> np.uint64(11)) * 2.0**-53


@dataclass(frozen=True, eq=False, repr=False)
class SubsetDataset(BaseDataset):
    """Subset of the rows of a dataset, with its own name and labels; inputs are not copied.

    `accepted` is a mask of shape (rows, classes) if any of several labels counts as correct.
    """

    name: str
    dataset: Dataset
    index: Ints
    labels: Ints
    accepted: Bools | None = None

    def __len__(self) -> int:
        return len(self.index)

    def __repr__(self) -> str:
        return f"SubsetDataset({self.name!r}, {len(self)} rows of {self.kind}, labelled)"

    @property
    def kind(self) -> InputKind:
        return self.dataset.kind

    @cached_property
    def keys(self) -> RowHashes:
        """Hash of the content of each row."""
        return self.dataset.keys[self.index]

    @cached_property
    def fingerprint(self) -> str:
        """Hash of all rows in their order."""
        return fingerprint_rows(f"rows of {self.dataset.fingerprint}", self.keys)

    def take(self, index: RowSelection) -> Inputs:
        """Return the inputs of the selected rows."""
        return self.dataset.take(self.index[to_row_numbers(index, len(self))])

    def rows(self, index: RowSelection) -> SubsetDataset:
        """Return the dataset of the selected rows; each row keeps its key and label."""
        rows = to_row_numbers(index, len(self))
        accepted = None if self.accepted is None else self.accepted[rows]
        return replace(self, index=self.index[rows], labels=self.labels[rows], accepted=accepted)


def encode_class_labels(
    labels: Array | None, classes: Sequence[str], rename: tuple[tuple[str, str], ...] = ()
) -> Ints:
    """Return the class number of each row; labels are class names or class numbers from 0.

    >>> encode_class_labels(np.array(["dog", "cat"]), ["cat", "dog"])
    array([1, 0])
    """
    if labels is None:
        raise InputError(
            "There are no labels; expected one class per row. Set the column or the file of "
            "labels, or sort images into one folder per class."
        )
    if rename:
        new_names = dict(rename)
        labels = np.array([new_names.get(str(label), str(label)) for label in labels.tolist()])
    # Numeric labels are always class numbers, even if the names of the classes are "1", "2", …
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
