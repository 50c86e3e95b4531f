"""What a reader of a domain's files is, and how it finds them."""

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
    """A frozen dataclass of settings that says which files it reads, and reads them."""

    @property
    def kind(self) -> InputKind:
        """The kind of inputs that it gives where the group does not say."""

    @property
    def files(self) -> tuple[str, ...]:
        """What it reads, seen from the root."""

    def __hash__(self) -> int: ...

    def read(self, root: Path, size: ImageSize) -> Dataset:
        """The rows and their labels; `size` is what images of many sizes are brought to."""


def find_file(root: Path, name: str) -> Path | None:
    """The file or folder of that name, or the same compressed; None where neither is there."""
    plain = root / name
    packed = plain.with_name(plain.name + ".gz")
    return next((path for path in (plain, packed) if path.exists()), None)


def require_file(root: Path, name: str) -> Path:
    """The same, or an error."""
    path = find_file(root, name)
    if path is None:
        raise InputError(f"There is no file or folder {name!r} in {root}. Put it there.")
    return path


def check_row_counts(inputs: Array, labels: Array, where: str) -> None:
    """Refuse inputs and labels that differ in number."""
    if len(inputs) != len(labels):
        raise InputError(
            f"{where}: there are {len(inputs)} inputs and {len(labels)} labels; one a row was "
            "expected. Do the files belong together?"
        )


def matching_rows(values: Array, accepted: Any, column: str) -> Bools:
    """The rows that have a value, or one of several; an error that names the values if none has.

    >>> matching_rows(np.array(["art", "photo"]), "photo", "domain")
    array([False,  True])
    """
    words = [str(one) for one in (accepted if isinstance(accepted, tuple | list) else [accepted])]
    there = values.astype(np.str_)
    rows = np.isin(there, words)
    if not rows.any():
        raise InputError(
            f"No row has {column} = {' or '.join(map(repr, words))}. There are: "
            f"{_format_names(np.unique(there))}. Name one of these."
        )
    return np.asarray(rows)


def _format_names(values: Iterable[Any], max_names: int = 12) -> str:
    names = [str(value) for value in values]
    return ", ".join(names[:max_names]) + (", …" if len(names) > max_names else "")
