"""The subgroups of a table as domains: the rows of every value of a column."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from oodometer.core import frames
from oodometer.core.errors import InputError
from oodometer.studies.domains.group import Group, opened
from oodometer.studies.domains.table_files import content

# More values than this are a measurement, not a group.
MOST = 200


def subgroups(
    path: str | Path,
    column: str,
    *,
    label: str = "label",
    inputs: Sequence[str] | None = None,
    least: int = 1,
) -> Group:
    """A group with a domain of every value of a column that at least so many rows have.

    The classes are the values of `label`, in order; the inputs are all other columns, or `inputs`.
    """
    path = Path(path).absolute()
    table = frames.as_table(content(path))
    names = _often(frames.values(table, column), column, least)
    each: dict[str, Any] = {"reader": "table", "path": str(path), "label": label, "where": {column: "{domain}"}}  # fmt: skip
    if inputs is not None:
        each["inputs"] = list(inputs)
    classes = sorted(set(frames.values(table, label).tolist()))
    words = [str(value) for value in classes]
    rename = {} if words == classes else {"rename": {word: word for word in words}}
    group = {"classes": words, "kind": "table", "domains": names, "each": each | rename}
    return opened({"groups": {f"{path.stem}-{column}": group}})


def _often(values: Any, column: str, least: int) -> list[str]:
    found, counts = np.unique(values.astype(np.str_), return_counts=True)
    names = [str(name) for name in found[counts >= least]]
    if not 1 <= len(names) <= MOST:
        raise InputError(
            f"The column {column!r} has {len(names)} values with {least} rows or more; 1 to {MOST} "
            "were expected. Name a column of categories, or ask for more or fewer rows."
        )
    return names
