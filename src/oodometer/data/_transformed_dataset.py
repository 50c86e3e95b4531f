"""A dataset as it looks after a change: every row is changed when it is taken."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol, Self

import numpy as np

from oodometer.core.inputs import Inputs, Keys, Kind
from oodometer.core.keys import settings_key
from oodometer.core.protocols import Dataset
from oodometer.core.random_streams import Draws
from oodometer.core.softmax_kernels import Array
from oodometer.data.dataset import Index, Rows, hashed, numbered


class Change(Protocol):
    """A transform or a corruption."""

    @property
    def name(self) -> str:
        """Its public name, a part of the key under which results are stored."""

    def apply(self, inputs: Inputs, draws: Draws) -> Inputs:
        """One changed copy of every row, by that row's own draw."""


@dataclass(frozen=True, eq=False, repr=False)
class Changed(Rows):
    """The rows of a dataset, each changed by a draw of its own, which hangs on its content."""

    dataset: Dataset
    change: Change
    seed: int = 0

    def __len__(self) -> int:
        return len(self.dataset)

    def __repr__(self) -> str:
        return f"Changed({self.dataset!r}, {self.change!r})"

    @property
    def name(self) -> str:
        """The dataset's."""
        return self.dataset.name

    @property
    def kind(self) -> Kind:
        """The dataset's."""
        return self.dataset.kind

    @property
    def labels(self) -> Array | None:
        """The dataset's: a change keeps the class."""
        return self.dataset.labels

    @property
    def keys(self) -> Keys:
        """Those of the rows before the change."""
        return self.dataset.keys

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the content of all rows, of the change and of the seed."""
        return hashed(
            f"{self.dataset.fingerprint} {settings_key(self.change)} {self.seed}", self.keys
        )

    def take(self, index: Index) -> Inputs:
        """Some rows, in that order, changed."""
        rows = np.arange(len(self))[numbered(index, len(self))]
        draws = Draws(self.seed, self.keys[rows], np.ones(len(rows), dtype=np.int64))
        return self.change.apply(self.dataset.take(rows), draws)

    def rows(self, index: Index) -> Self:
        """The dataset of some rows, changed alike."""
        return replace(self, dataset=self.dataset.rows(numbered(index, len(self))))
