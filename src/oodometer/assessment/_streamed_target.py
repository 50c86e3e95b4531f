"""The target of many files: what is known of it before all of it is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from oodometer.core import validation
from oodometer.core.errors import InputError
from oodometer.core.predictions import Predictions
from oodometer.core.softmax_kernels import Array
from oodometer.data._partitions import Part, located, parted
from oodometer.data._score_schema import Taken, batch_rows, said_of, tables, take_from
from oodometer.data.bottom_k import Bottom
from oodometer.data.prediction_files import Columns

# Rows that are looked at before all are.
FIRST = 1024


@dataclass(frozen=True, eq=False)
class Target:
    """Files, what is taken of them, their parts, and how many rows they have if that is known."""

    files: tuple[Path, ...]
    taken: Taken
    parts: tuple[Part, ...]
    total: int | None
    first: Predictions

    @classmethod
    def open(cls, where: str | Path, columns: Columns, by: str | None) -> Target:
        """Find the files, and look at the first rows."""
        files = located(where)
        taken = take_from(files, columns, labelled=False, by=by)
        parts, total = parted(files)
        return cls(files, taken, parts, total, _first(taken, parts, where))

    @property
    def k(self) -> int:
        """How many classes there are."""
        return self.first.k

    @property
    def batch(self) -> int:
        """How many rows are read at a time."""
        return batch_rows(self.k)

    def in_order(self, names: tuple[str, ...] | None) -> Target:
        """The same with the classes in the order of these names."""
        return replace(
            self, taken=self.taken.in_order(names), first=self.first.in_class_order(names)
        )

    def predictions(self, sample: Bottom | None) -> Predictions:
        """The sampled rows, in the order of their places."""
        if sample is None:
            raise InputError("The target has no rows; at least one was expected.")
        return self.taken.predictions(sample.rows["scores"])

    def labels(self, sample: Bottom) -> Array:
        """The classes of rows with labels, by number."""
        given = sample.rows["labels"]
        if all(isinstance(value, str) and value.strip().isdecimal() for value in given):
            given = given.astype(int)  # a column of text that began with blanks
        names, what = self.taken.class_names, "labels of the target"
        found = validation.labels(given, len(sample), self.k, names, what)
        assert found is not None
        return found


def _first(taken: Taken, parts: Sequence[Part], where: str | Path) -> Predictions:
    """The first rows, by the usual door: it warns of logits that look like probabilities."""
    scored = replace(taken, label=None, by=None)
    for part in parts:
        for _, table in tables(scored, part, FIRST):
            with said_of(part.path):
                return taken.predictions(taken.scores(table))
    raise InputError(f"{str(where)!r} has no rows; at least one was expected.")
