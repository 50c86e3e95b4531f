"""A dataset as it looks after a change: every row is changed when it is taken."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol, Self

import numpy as np

from oodometer.core.inputs import InputKind, Inputs, RowHashes
from oodometer.core.keys import settings_key
from oodometer.core.protocols import Dataset
from oodometer.core.random_streams import RowStreams
from oodometer.core.softmax_kernels import Array
from oodometer.data.dataset import BaseDataset, RowSelection, fingerprint_rows, to_row_numbers


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
