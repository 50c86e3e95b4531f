"""The subgroups of a table as domains: the rows of every value of a column."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from oodometer.core import frames
from oodometer.core.errors import InputError
from oodometer.studies.domains.group import DomainGroup, open_group
from oodometer.studies.domains.table_files import read_table_file

# More values than this are a measurement, not a group.
MAX_SUBGROUPS = 200


def group_by_column(
    path: str | Path,
    column: str,
    *,
    label: str = "label",
    inputs: Sequence[str] | None = None,
    min_rows: int = 1,
) -> DomainGroup:
    """A group with a domain of every value of a column that at least so many rows have.

    The classes are the values of `label`, in order; the inputs are all other columns, or `inputs`.
    """
    path = Path(path).absolute()
    table = frames.as_table(read_table_file(path))
    names = _frequent_values(frames.read_column(table, column), column, min_rows)
    each: dict[str, Any] = {"reader": "table", "path": str(path), "label": label, "where": {column: "{domain}"}}  # fmt: skip
    if inputs is not None:
        each["inputs"] = list(inputs)
    classes = sorted(set(frames.read_column(table, label).tolist()))
    words = [str(value) for value in classes]
    rename = {} if words == classes else {"rename": {word: word for word in words}}
    group = {"classes": words, "kind": "table", "domains": names, "each": each | rename}
    return open_group({"groups": {f"{path.stem}-{column}": group}})


def _frequent_values(values: Any, column: str, least: int) -> list[str]:
    found, counts = np.unique(values.astype(np.str_), return_counts=True)
    names = [str(name) for name in found[counts >= least]]
    if not 1 <= len(names) <= MAX_SUBGROUPS:
        raise InputError(
            f"The column {column!r} has {len(names)} values with {least} rows or more; 1 to {MAX_SUBGROUPS} "
            "were expected. Name a column of categories, or ask for more or fewer rows."
        )
    return names
