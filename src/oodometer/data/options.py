"""What the user asks of a dataset, and how bad rows and labels are dealt with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from oodometer.core.array_types import Array, Bools
from oodometer.core.errors import InputError
from oodometer.core.inputs import Inputs
from oodometer.data.dataset import InMemoryDataset

ColumnNames = str | Sequence[str]


@dataclass(frozen=True)
class DatasetOptions:
    """The arguments of `as_dataset`; None for what was not said."""

    name: str | None = None
    labels: Any = None
    text: ColumnNames | None = None
    inputs: ColumnNames | None = None
    size: int | tuple[int, int] | None = None
    skip_bad: bool = False

    def reject_options(self, data_description: str, *options: str) -> None:
        """Say so when an option was given that means nothing for what is opened."""
        for option in options:
            given = getattr(self, option)
            if given is not None:
                raise InputError(
                    f"{option}={given!r} means nothing for {data_description}. Leave it out: text and inputs "
                    "name columns or arrays of a file, size is for a folder of images."
                )


@dataclass(frozen=True)
class RawRows:
    """Rows as they were read, the bad ones among them, and what to say of those.

    `problem` has the place of the first bad row and what is wrong with it.
    """

    inputs: Inputs
    labels: Array | None
    bad: Bools
    problem: str = ""

    def to_dataset(self, name: str, skip_bad: bool) -> InMemoryDataset:
        """The dataset of the good rows; an error if there are others and they may not be skipped."""
        n = len(self.bad)
        if n == 0:
            raise InputError(
                f"{name} has no rows; at least one was expected. Is it the right data?"
            )
        check_bad_rows(f"{name}: {self.problem}", "rows", self.bad, skip_bad)
        whole = InMemoryDataset(name, self.inputs, self.labels)
        if not self.bad.any():
            return whole
        skipped = tuple(f"row {row}" for row in np.flatnonzero(self.bad))
        kept = whole.rows(~self.bad)
        return InMemoryDataset(name, kept.inputs, kept.labels, skipped)


def check_bad_rows(problem: str, noun: str, bad: Bools, skip_bad: bool) -> None:
    """Refuse bad rows, or that all rows are bad; `problem` says what the first of them has."""
    count, n = int(bad.sum()), len(bad)
    if count and (not skip_bad or count == n):
        advice = (
            "Give other data"
            if count == n
            else "Mend them, or leave them out: skip_bad=True (--skip-bad)"
        )
        raise InputError(f"{problem} ({count} of {n} {noun} are bad). {advice}.")


def validate_labels(values: Any, n: int) -> Array | None:
    """Labels that were given as such, one a row."""
    if values is None:
        return None
    if isinstance(values, str):
        raise InputError(
            f"labels={values!r} names a column, and there are none here. Give a label a row."
        )
    labels = np.asarray(values)
    if labels.shape != (n,):
        raise InputError(
            f"labels must be one a row; got {labels.shape} for {n} rows. Give {n} of them."
        )
    return normalize_labels(labels)


def normalize_labels(labels: Array) -> Array:
    """Labels as numbers or as text; one that is missing is an error that names the row."""
    missing = np.asarray([label is None or label != label for label in labels.tolist()])
    if missing.any():
        row = int(np.argmax(missing))
        raise InputError(
            f"labels has nothing in row {row}. Every row needs one; leave labels out if some are "
            "not known."
        )
    if labels.dtype == object and all(isinstance(label, str) for label in labels):
        return labels.astype(np.str_)
    return labels
