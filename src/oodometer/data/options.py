"""DatasetOptions: the arguments of `as_dataset`; RawRows: the rows that a file reader returns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from oodometer.core.array_types import Array, Bools
from oodometer.core.errors import InputError
from oodometer.core.inputs import Inputs
from oodometer.data.dataset import InMemoryDataset
from oodometer.data.float_images import Channels, PixelRange

ColumnNames = str | Sequence[str]


@dataclass(frozen=True)
class DatasetOptions:
    """Arguments of `as_dataset`; an argument that was not passed is None."""

    name: str | None = None
    labels: Any = None
    text: ColumnNames | None = None
    inputs: ColumnNames | None = None
    size: int | tuple[int, int] | None = None
    skip_bad: bool = False
    pixel_range: PixelRange | None = None
    channels: Channels | None = None

    def reject_options(self, data_description: str, *options: str) -> None:
        """Raise if an option was passed that does not apply to this kind of data."""
        for option in options:
            value = getattr(self, option)
            if value is not None:
                raise InputError(
                    f"{option}={value!r} does not apply to {data_description}. Leave it out: text "
                    "and inputs name columns or arrays of a file, size is for a folder of images, "
                    "pixel_range and channels are for arrays of images."
                )


@dataclass(frozen=True)
class RawRows:
    """Rows as they were read from a file or an object, before invalid rows are removed.

    `bad` is true for invalid rows; `problem` describes the first invalid row.
    """

    inputs: Inputs
    labels: Array | None
    bad: Bools
    problem: str = ""

    def to_dataset(self, name: str, skip_bad: bool) -> InMemoryDataset:
        """Return the dataset of the valid rows; without `skip_bad`, raise if a row is invalid."""
        if len(self.bad) == 0:
            raise InputError(
                f"{name} has no rows; expected at least one. Check that it is the right data."
            )
        check_bad_rows(f"{name}: {self.problem}", "rows", self.bad, skip_bad)
        dataset = InMemoryDataset(name, self.inputs, self.labels)
        if not self.bad.any():
            return dataset
        skipped = tuple(f"row {row}" for row in np.flatnonzero(self.bad))
        return replace(dataset.rows(~self.bad), skipped=skipped)


def check_bad_rows(problem: str, noun: str, bad: Bools, skip_bad: bool) -> None:
    """Raise if all rows are invalid or, without `skip_bad`, if any row is invalid.

    `problem` describes the first invalid row.
    """
    n_bad = int(bad.sum())
    if n_bad and (not skip_bad or n_bad == len(bad)):
        advice = "Correct or remove them, or skip them with skip_bad=True (--skip-bad)"
        if n_bad == len(bad):
            advice = "Use other data"
        raise InputError(f"{problem} ({n_bad} of {len(bad)} {noun} are invalid). {advice}.")
