"""Columns `recipe.…` of a table of evaluations: the configuration that each model was trained with.

The export of a study writes these columns; `recipe.few_shot`, for example, is the number of
training rows per class. A table of your own may have them, too.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from oodometer.core.array_types import Bools
from oodometer.core.errors import NotApplicable
from oodometer.studies.analysis.evaluation_table import RECIPE_PREFIX, EvaluationTable

# Label of models that are trained on all rows of their training domains.
FULL_SIZE = "full"
FEW_SHOT_KEY = "few_shot"
# `recipe.model` names the model that was measured several times; it is not a training setting.
_NON_SETTINGS = ("model",)


def recipe_cells(table: EvaluationTable, key: str) -> tuple[str, ...]:
    """Return the cell `recipe.<key>` of every model of the table; empty if it is not known.

    >>> table = EvaluationTable.read({"model": ["m", "n"], "trained_on": ["a", "a"],
    ...     "tested_on": ["b", "b"], "accuracy": [0.9, 0.8], "recipe.lr": [0.1, 0.5]}, measures=())
    >>> recipe_cells(table, "lr"), recipe_cells(table, "epochs")
    (('0.1', '0.5'), ('', ''))
    """
    cells = table.columns.get(f"{RECIPE_PREFIX}{key}", ("",) * len(table))
    by_model = dict(zip(table.model.tolist(), cells, strict=True))
    return tuple(by_model.get(model, "") for model in range(len(table.models)))


def require_recipe_values(table: EvaluationTable, key: str, examples: Sequence[str]) -> None:
    """Raise unless the column `recipe.<key>` has at least two values, such as the `examples`."""
    column = f"{RECIPE_PREFIX}{key}"
    if column not in table.columns:
        raise NotApplicable(
            f"the table has no column {column!r}, with values such as {' and '.join(examples)}"
        )
    present = sorted(set(table.columns[column]) - {""})
    if len(present) < 2:
        found = f"only {present[0]!r}" if present else "none"
        raise NotApplicable(
            f"{column} must have at least two values, such as {' and '.join(examples)}; it has "
            f"{found}"
        )


def training_sizes(table: EvaluationTable) -> tuple[str, ...]:
    """Return the training-set size of every model: `full` or the number of rows per class.

    >>> table = EvaluationTable.read({"model": ["m", "n"], "trained_on": ["a", "a"], "tested_on":
    ...     ["b", "b"], "accuracy": [0.9, 0.8], "recipe.few_shot": [None, 10.0]}, measures=())
    >>> training_sizes(table)
    ('full', '10 per class')
    """
    return tuple(map(_size_label, recipe_cells(table, FEW_SHOT_KEY)))


def sort_sizes(sizes: Sequence[str]) -> list[str]:
    """Return the distinct sizes, the largest first.

    >>> sort_sizes(["10 per class", "full", "100 per class", "full"])
    ['full', '100 per class', '10 per class']
    """
    return sorted(set(sizes), key=_size_order)


def trained_on_all_rows(table: EvaluationTable) -> Bools:
    """Return, for each model of the table, whether it is trained on all rows of its domains."""
    return np.array([size == FULL_SIZE for size in training_sizes(table)], dtype=np.bool_)


def setting_keys(table: EvaluationTable) -> list[str]:
    """Return the keys of the training settings in the table, without the prefix `recipe.`."""
    keys = (name.removeprefix(RECIPE_PREFIX) for name in table.columns if _is_recipe(name))
    return sorted(key for key in keys if key not in _NON_SETTINGS)


def varying_settings(table: EvaluationTable) -> list[str]:
    """Return the keys of the training settings that differ between models of the table."""
    return [
        key for key in setting_keys(table) if len(set(table.columns[f"{RECIPE_PREFIX}{key}"])) > 1
    ]


def _is_recipe(name: str) -> bool:
    return name.startswith(RECIPE_PREFIX)


def _size_label(cell: str) -> str:
    if cell in ("", "none", "None", "nan"):
        return FULL_SIZE
    try:
        return f"{float(cell):g} per class"
    except ValueError:
        return cell


def _size_order(size: str) -> tuple[float, str]:
    if size == FULL_SIZE:
        return -np.inf, size
    try:
        return -float(size.split(" ")[0]), size
    except ValueError:
        return np.inf, size
