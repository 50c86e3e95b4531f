"""Several datasets as one, such as the domains of a source."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np

from oodometer.core import inputs as batches_of
from oodometer.core.errors import InputError
from oodometer.core.inputs import InputKind, Inputs, RowHashes
from oodometer.core.protocols import Dataset
from oodometer.core.softmax_kernels import Array, Ints
from oodometer.data.dataset import BaseDataset, RowSelection, fingerprint_rows, to_row_numbers


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
