"""What the user asks of a dataset, and how bad rows and labels are dealt with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from oodometer.core.errors import InputError
from oodometer.core.inputs import Inputs
from oodometer.core.softmax_kernels import Array, Bools
from oodometer.data.dataset import InMemory

Names = str | Sequence[str]


@dataclass(frozen=True)
class Asked:
    """The arguments of `as_dataset`; None for what was not said."""

    name: str | None = None
    labels: Any = None
    text: Names | None = None
    inputs: Names | None = None
    size: int | tuple[int, int] | None = None
    skip_bad: bool = False

    def refuse(self, what: str, *options: str) -> None:
        """Say so when an option was given that means nothing for what is opened."""
        for option in options:
            given = getattr(self, option)
            if given is not None:
                raise InputError(
                    f"{option}={given!r} means nothing for {what}. Leave it out: text and inputs "
                    "name columns or arrays of a file, size is for a folder of images."
                )


@dataclass(frozen=True)
class Read:
    """Rows as they were read, the bad ones among them, and what to say of those.

    `why` has the place of the first bad row and what is wrong with it.
    """

    inputs: Inputs
    labels: Array | None
    bad: Bools
    why: str = ""

    def dataset(self, name: str, skip_bad: bool) -> InMemory:
        """The dataset of the good rows; an error if there are others and they may not be skipped."""
        n = len(self.bad)
        if n == 0:
            raise InputError(
                f"{name} has no rows; at least one was expected. Is it the right data?"
            )
        check_bad(f"{name}: {self.why}", "rows", self.bad, skip_bad)
        whole = InMemory(name, self.inputs, self.labels)
        if not self.bad.any():
            return whole
        skipped = tuple(f"row {row}" for row in np.flatnonzero(self.bad))
        kept = whole.rows(~self.bad)
        return InMemory(name, kept.inputs, kept.labels, skipped)


def check_bad(why: str, noun: str, bad: Bools, skip_bad: bool) -> None:
    """Refuse bad rows, or that all rows are bad; `why` says what the first of them has."""
    count, n = int(bad.sum()), len(bad)
    if count and (not skip_bad or count == n):
        advice = (
            "Give other data"
            if count == n
            else "Mend them, or leave them out: skip_bad=True (--skip-bad)"
        )
        raise InputError(f"{why} ({count} of {n} {noun} are bad). {advice}.")


def labels_of(given: Any, n: int) -> Array | None:
    """Labels that were given as such, one a row."""
    if given is None:
        return None
    if isinstance(given, str):
        raise InputError(
            f"labels={given!r} names a column, and there are none here. Give a label a row."
        )
    labels = np.asarray(given)
    if labels.shape != (n,):
        raise InputError(
            f"labels must be one a row; got {labels.shape} for {n} rows. Give {n} of them."
        )
    return plain_labels(labels)


def plain_labels(labels: Array) -> Array:
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
