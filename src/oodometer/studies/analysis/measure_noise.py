"""Signal to noise of a measure: its mean over its standard deviation when taken again. DG §2.

Vedantam, Lopez-Paz & Schwab, "An Empirical Investigation of Domain Generalization with Empirical
Risk Minimizers", NeurIPS 2021. The mean over models is reported.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from oodometer.core.array_types import Floats, Ints
from oodometer.core.errors import InputError
from oodometer.studies.analysis.evaluation_table import (
    RECIPE_PREFIX,
    EvaluationTable,
    select_measures,
)
from oodometer.studies.analysis.grouped_scores import MeanStd

# Columns that tell replicates from one another, the first that is there.
REPLICATE_ID_COLUMNS = ("replicate", "seed")


def signal_to_noise(
    table: EvaluationTable, *, measures: Sequence[str] | None = None
) -> dict[str, MeanStd]:
    """Each measure's signal to noise: the mean over what was measured again, and its spread.

    Evaluations are replicates of one another where they differ in the column `replicate` (or,
    without it, `seed`) and agree in architecture, training and test domains, and in every column
    `recipe.…` but those of seeds.

    >>> table = EvaluationTable.read({"model": ["m", "n"], "trained_on": ["a", "a"], "tested_on": ["b", "b"],
    ...                     "accuracy": [0.9, 0.7], "ni": [1.0, 3.0], "seed": [0, 1]})
    >>> signal_to_noise(table)["ni"].mean
    1.414213562373095
    """
    groups = _replicate_groups(table)
    rows, sizes = np.concatenate(groups), np.array([len(group) for group in groups])
    return {
        name: MeanStd.from_values(_ratios(table.measures[name][rows], sizes))
        for name in select_measures(list(table.measures), measures)
    }


def _ratios(values: Floats, sizes: Ints) -> Iterator[float | str]:
    """|mean| / sd of every group, whose values stand together, or why there is none."""
    starts, known = np.cumsum(sizes) - sizes, np.isfinite(values)
    n = np.add.reduceat(known.astype(np.int64), starts)
    mean = np.add.reduceat(np.where(known, values, 0.0), starts) / np.maximum(n, 1)
    off = np.where(known, values - np.repeat(mean, sizes), 0.0)
    sd = np.sqrt(np.add.reduceat(off * off, starts) / np.maximum(n - 1, 1))
    # Equal values have no deviation, whatever rounding makes of their mean.
    low, high = (
        end.reduceat(np.where(known, values, never), starts)
        for end, never in ((np.minimum, np.inf), (np.maximum, -np.inf))
    )
    varies = (high > low) & (sd > 0)
    for j in range(len(sizes)):
        if n[j] < 2:
            yield "fewer than two replicates have an answer"
        else:
            yield float(abs(mean[j]) / sd[j]) if varies[j] else "no replicate differs"


def _replicate_groups(table: EvaluationTable) -> list[Ints]:
    """The rows of each set of replicates."""
    column = _replicate_column(table)
    if column is None:
        raise InputError(
            f"Signal to noise needs replicates, told apart by a column {' or '.join(REPLICATE_ID_COLUMNS)}; there "
            f"are: {', '.join(table.columns) or 'none'}. Add one."
        )
    groups = group_ignoring_seed(table)
    for rows in groups:
        _check_distinct_replicates(table, column, rows)
    return groups


def _replicate_column(table: EvaluationTable) -> str | None:
    """The column that tells replicates apart: the first that says anything."""
    return next((name for name in REPLICATE_ID_COLUMNS if any(table.columns.get(name, ()))), None)


def group_ignoring_seed(table: EvaluationTable) -> list[Ints]:
    """Rows that agree in architecture, training and test domains and recipe, but for seeds.

    A model whose seed is not known stands alone.
    """
    column = _replicate_column(table)
    told = table.columns[column] if column else ("",) * len(table)
    alone = [-1 if cell else code for cell, code in zip(told, table.model, strict=True)]
    recipe = [
        cells for name, cells in table.columns.items()
        if name.startswith(RECIPE_PREFIX) and not name.endswith(REPLICATE_ID_COLUMNS)
    ]  # fmt: skip
    keys = zip(alone, table.architecture, table.trained_on, table.tested_on, *recipe, strict=True)
    groups: dict[Any, list[int]] = {}
    for row, key in enumerate(keys):
        groups.setdefault(key, []).append(row)
    return [np.array(rows) for rows in groups.values()]


def _check_distinct_replicates(table: EvaluationTable, column: str, rows: Ints) -> None:
    """Refuse two evaluations that are the same replicate of the same thing."""
    first: dict[str, int] = {}
    for row in rows:
        before = first.setdefault(table.columns[column][row], row)
        if before != row:
            names = " and ".join(repr(table.models[table.model[at]]) for at in (before, row))
            raise InputError(
                f"The models {names} have the same {column} and nothing tells them apart. Add "
                f"columns {RECIPE_PREFIX}… in which models agree that differ in {column} alone."
            )
