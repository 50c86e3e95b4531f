"""Protocol of the readers of domain files, and functions to find files and select rows."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np

from oodometer.core.array_types import Array, Bools
from oodometer.core.errors import InputError
from oodometer.core.inputs import InputKind
from oodometer.core.protocols import Dataset

ImageSize = tuple[int, int] | None


@runtime_checkable
class DomainReader(Protocol):
    """Interface of a reader of domain files; a reader is a frozen dataclass of its settings."""

    @property
    def kind(self) -> InputKind:
        """Kind of inputs in the files; it is used if the group does not declare a kind."""

    @property
    def files(self) -> tuple[str, ...]:
        """Paths of the files, relative to the folder `root` of the group."""

    def __hash__(self) -> int: ...

    def read(self, root: Path, size: ImageSize) -> Dataset:
        """Return rows and labels; readers of image files resize images to `size`."""


def find_file(root: Path, name: str) -> Path | None:
    """Return the path of a file or folder, or of its .gz version; None if neither exists."""
    plain = root / name
    compressed = plain.with_name(plain.name + ".gz")
    return next((path for path in (plain, compressed) if path.exists()), None)


def require_file(root: Path, name: str) -> Path:
    """Return the path of a file or folder, or of its .gz version; raise if neither exists."""
    path = find_file(root, name)
    if path is None:
        raise InputError(f"There is no file or folder {name!r} in {root}. Copy it there.")
    return path


def check_row_counts(inputs: Array, labels: Array, where: str) -> None:
    """Raise if the numbers of inputs and labels differ."""
    if len(inputs) != len(labels):
        raise InputError(
            f"{where}: there are {len(inputs)} inputs and {len(labels)} labels; expected equal "
            "numbers. Do the files belong together?"
        )


def matching_rows(values: Array, accepted: Any, column: str) -> Bools:
    """Return a mask of the rows whose value is accepted; raise if there is no such row.

    `accepted` is one value or a list of values.

    >>> matching_rows(np.array(["art", "photo"]), "photo", "domain")
    array([False,  True])
    """
    accepted_values = accepted if isinstance(accepted, tuple | list) else [accepted]
    names = [str(value) for value in accepted_values]
    texts = values.astype(np.str_)
    rows = np.isin(texts, names)
    if not rows.any():
        raise InputError(
            f"No row has {column} = {' or '.join(map(repr, names))}. Values: "
            f"{_format_names(np.unique(texts))}."
        )
    return np.asarray(rows)


def _format_names(values: Iterable[Any], max_names: int = 12) -> str:
    names = [str(value) for value in values]
    return ", ".join(names[:max_names]) + (", …" if len(names) > max_names else "")
