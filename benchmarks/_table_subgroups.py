"""Subgroups of a table as domains: one domain per value of a column."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from oodometer.core import frames
from oodometer.core.errors import InputError
from oodometer.studies.domains.group import DomainGroup, open_group
from oodometer.studies.domains.table_files import read_table_file

# A column with more values is taken for a continuous one.
MAX_SUBGROUPS = 200


def group_by_column(
    path: str | Path,
    column: str,
    *,
    label: str = "label",
    inputs: Sequence[str] | None = None,
    min_rows: int = 1,
) -> DomainGroup:
    """Return a group with one domain per value of a column that has at least `min_rows` rows.

    The classes are the sorted values of `label`; the inputs are all other columns, or `inputs`.
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


def _frequent_values(values: Any, column: str, min_rows: int) -> list[str]:
    distinct, counts = np.unique(values.astype(np.str_), return_counts=True)
    names = [str(name) for name in distinct[counts >= min_rows]]
    if not 1 <= len(names) <= MAX_SUBGROUPS:
        raise InputError(
            f"The column {column!r} has {len(names)} values with at least {min_rows} rows; expected "
            f"1 to {MAX_SUBGROUPS}. Choose a categorical column, or change min_rows."
        )
    return names
