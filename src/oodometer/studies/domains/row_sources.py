"""Where a domain's rows come from: files that are read, or another domain that is changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Literal

import numpy as np

from oodometer.core.errors import InputError
from oodometer.core.inputs import Inputs, Keys, Kind, mixed
from oodometer.core.protocols import Dataset
from oodometer.core.softmax_kernels import Array, Bools, Ints
from oodometer.data.dataset import Index, Rows, hashed, numbered
from oodometer.studies.domains._reader import Reader, Size, existing, located
from oodometer.studies.domains.synthetic import Maker

Split = Literal["train", "test"]
# The share of the rows that are held out for testing where no file is named for it.
SHARE = 0.2
# So that which rows are held out and which part they are of don't hang together.
_HELD, _PART = np.uint64(0x7E57), np.uint64(0x9A27)
# So many domains are kept open in a process.
KEPT = 32


@dataclass(frozen=True)
class Source:
    """Files, and how they are split: `test` reads what is held out, or else a share by content.

    `rename` says which class a label of the files stands for, where it is not the class's name.
    """

    train: Reader
    test: Reader | None = None
    share: float = SHARE
    rename: tuple[tuple[str, str], ...] = ()

    @property
    def files(self) -> tuple[str, ...]:
        """All that is read, for both splits."""
        both = self.train.files + (() if self.test is None else self.test.files)
        return tuple(dict.fromkeys(both))

    def absent(self, root: Path | None) -> tuple[str, ...]:
        """The files that are not there."""
        return tuple(name for name in self.files if root is None or not located(root, name))

    def read(self, root: Path, split: Split, size: Size) -> tuple[Dataset, Ints]:
        """The dataset that holds the split, and the rows of it that are the split's."""
        reader = self.train if split == "train" or self.test is None else self.test
        stamps = tuple(_stamp(existing(root, name)) for name in reader.files)
        dataset = _read(reader, root, size, stamps)
        if self.test is not None:
            return dataset, np.arange(len(dataset))
        held = held_out(dataset.keys, self.share)
        return dataset, np.flatnonzero(held if split == "test" else ~held)


@dataclass(frozen=True)
class Made:
    """A domain that is made of another: `of` names it, or a group and it: numbers/mnist.

    `part` (i, m) keeps the i-th of m parts, from 0, so that no image is in two domains.
    """

    of: str
    maker: Maker
    part: tuple[int, int] | None = None


def _stamp(path: Path) -> tuple[int, int]:
    """Changes when the file does."""
    found = path.stat()
    return found.st_mtime_ns, found.st_size


@lru_cache(maxsize=KEPT)
def _read(
    reader: Reader, root: Path, size: Size, stamps: tuple[tuple[int, int], ...]
) -> Dataset:  # fmt: skip
    return reader.read(root, size)


def held_out(keys: Keys, share: float) -> Bools:
    """Which rows are for testing: by content alone, so that equal rows are never on both sides.

    >>> keys = np.arange(10_000, dtype=np.uint64)
    >>> 0.19 < held_out(keys, 0.2).mean() < 0.21
    np.True_
    """
    return np.asarray(_places(keys, _HELD) < share)


def in_part(keys: Keys, part: tuple[int, int]) -> Bools:
    """Which rows are in the i-th of m parts; by content alone."""
    return np.asarray((_places(keys, _PART) * part[1]).astype(np.int64) == part[0])


def _places(keys: Keys, salt: np.uint64) -> Array:
    """A number in [0, 1) a row."""
    return (mixed(keys ^ salt) >> np.uint64(11)) * 2.0**-53


@dataclass(frozen=True, eq=False, repr=False)
class Chosen(Rows):
    """Some rows of a dataset under a name and with labels of their own; nothing is copied."""

    name: str
    dataset: Dataset
    index: Ints
    labels: Ints

    def __len__(self) -> int:
        return len(self.index)

    def __repr__(self) -> str:
        return f"Chosen({self.name!r}, {len(self)} rows of {self.kind}, labelled)"

    @property
    def kind(self) -> Kind:
        """The dataset's."""
        return self.dataset.kind

    @cached_property
    def keys(self) -> Keys:
        """A number a row, made of the row's content."""
        return self.dataset.keys[self.index]

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the content of all rows, in order."""
        return hashed(f"rows of {self.dataset.fingerprint}", self.keys)

    def take(self, index: Index) -> Inputs:
        """Some rows, in that order."""
        return self.dataset.take(self.index[numbered(index, len(self))])

    def rows(self, index: Index) -> Chosen:
        """The dataset of some rows, which keep their keys and labels."""
        some = numbered(index, len(self))
        return replace(self, index=self.index[some], labels=self.labels[some])


def class_numbers(
    labels: Array | None, classes: Sequence[str], rename: tuple[tuple[str, str], ...] = ()
) -> Ints:
    """The number of every row's class. A label is a class's name, or its number from 0.

    >>> class_numbers(np.array(["dog", "cat"]), ["cat", "dog"])
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
    if labels.dtype.kind in "US":
        return _by_name(labels, classes)
    return _by_number(labels, classes)


def _by_name(labels: Array, classes: Sequence[str]) -> Ints:
    values, inverse = np.unique(labels, return_inverse=True)
    places = {name: place for place, name in enumerate(classes)}
    if not any(str(value) in places for value in values) and all(map(str.isdecimal, values)):
        return _by_number(labels.astype(np.int64), classes)
    numbers = np.array([places.get(str(value), -1) for value in values], dtype=np.int64)[inverse]
    _refuse(numbers < 0, labels, classes)
    return np.asarray(numbers)


def _by_number(labels: Array, classes: Sequence[str]) -> Ints:
    _refuse(~((labels >= 0) & (labels < len(classes)) & (labels % 1 == 0)), labels, classes)
    return labels.astype(np.int64)


def _refuse(wrong: Bools, labels: Array, classes: Sequence[str]) -> None:
    if wrong.any():
        row = int(np.argmax(wrong))
        names = ", ".join(classes[:12]) + (", …" if len(classes) > 12 else "")
        raise InputError(
            f"Row {row} has the label {labels[row].item()!r}, which is none of the {len(classes)} "
            f"classes ({int(wrong.sum())} of {len(labels)} rows have such). There are: {names}, or "
            f"their numbers 0…{len(classes) - 1}. Correct it, name the class, or say rename."
        )
