"""Signal-to-noise ratio of a measure: |mean| / standard deviation over replicates.

Vedantam, Lopez-Paz & Schwab, "An Empirical Investigation of Domain Generalization with Empirical
Risk Minimizers", NeurIPS 2021, §2. The ratio is computed for each set of replicates, and its mean
over these sets is reported.
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

# Columns that identify replicates. The first of these columns that the table has is used.
REPLICATE_ID_COLUMNS = ("replicate", "seed")


def signal_to_noise(
    table: EvaluationTable, *, measures: Sequence[str] | None = None
) -> dict[str, MeanStd]:
    """Return the signal-to-noise ratio of each measure over replicates.

    Evaluations are replicates of each other if they differ in the column `replicate`, or in `seed`
    if the table has no column `replicate`. They must agree in architecture, in training and test
    domains, and in every column `recipe.…` that is not a seed. The ratio of a set of replicates is
    ``|mean| / sd``.

    Parameters
    ----------
    table : EvaluationTable
        Evaluations of models on domains, with a column `replicate` or `seed`.
    measures : sequence of str, optional
        Measures to use. Default: all measures of the table.

    Returns
    -------
    dict of str to MeanStd
        Mean and standard deviation of the ratio over sets of replicates, per measure.

    Raises
    ------
    InputError
        If there is no column `replicate` or `seed`, or if two evaluations are the same replicate.

    Examples
    --------
    >>> table = EvaluationTable.read({"model": ["m", "n"], "trained_on": ["a", "a"],
    ...     "tested_on": ["b", "b"], "accuracy": [0.9, 0.7], "ni": [1.0, 3.0], "seed": [0, 1]})
    >>> round(signal_to_noise(table)["ni"].mean, 6)
    1.414214
    """
    groups = _replicate_groups(table)
    rows = np.concatenate(groups)
    sizes = np.array([len(group) for group in groups])
    return {
        name: MeanStd.from_values(_ratios(table.measures[name][rows], sizes))
        for name in select_measures(list(table.measures), measures)
    }


def _ratios(values: Floats, sizes: Ints) -> Iterator[float | str]:
    """Yield |mean| / sd of each group of consecutive values, or the reason why it is undefined."""
    starts = np.cumsum(sizes) - sizes
    known = np.isfinite(values)
    n = np.add.reduceat(known.astype(np.int64), starts)
    mean = np.add.reduceat(np.where(known, values, 0.0), starts) / np.maximum(n, 1)
    deviation = np.where(known, values - np.repeat(mean, sizes), 0.0)
    sd = np.sqrt(np.add.reduceat(deviation * deviation, starts) / np.maximum(n - 1, 1))
    # The standard deviation of equal values is exactly 0, but their computed mean may differ from
    # them by a rounding error.
    low = np.minimum.reduceat(np.where(known, values, np.inf), starts)
    high = np.maximum.reduceat(np.where(known, values, -np.inf), starts)
    varies = (high > low) & (sd > 0)
    for j in range(len(sizes)):
        if n[j] < 2:
            yield "fewer than two replicates have a value"
        else:
            yield float(abs(mean[j]) / sd[j]) if varies[j] else "all replicates are equal"


def _replicate_groups(table: EvaluationTable) -> list[Ints]:
    """Return the rows of each set of replicates."""
    column = _replicate_column(table)
    if column is None:
        raise InputError(
            f"The signal-to-noise ratio needs replicates, identified by a column "
            f"{' or '.join(REPLICATE_ID_COLUMNS)}; the other columns are: "
            f"{', '.join(table.columns) or 'none'}. Add such a column."
        )
    groups = group_ignoring_seed(table)
    for rows in groups:
        _check_distinct_replicates(table, column, rows)
    return groups


def _replicate_column(table: EvaluationTable) -> str | None:
    """Return the first non-empty column that identifies replicates."""
    return next((name for name in REPLICATE_ID_COLUMNS if any(table.columns.get(name, ()))), None)


def group_ignoring_seed(table: EvaluationTable) -> list[Ints]:
    """Group rows that agree in architecture, domains and recipe, ignoring seeds.

    A model with an unknown seed is a group of its own.
    """
    column = _replicate_column(table)
    seeds = table.columns[column] if column else ("",) * len(table)
    alone = [-1 if seed else code for seed, code in zip(seeds, table.model, strict=True)]
    recipe = [
        cells
        for name, cells in table.columns.items()
        if name.startswith(RECIPE_PREFIX) and not name.endswith(REPLICATE_ID_COLUMNS)
    ]
    keys = zip(alone, table.architecture, table.trained_on, table.tested_on, *recipe, strict=True)
    groups: dict[Any, list[int]] = {}
    for row, key in enumerate(keys):
        groups.setdefault(key, []).append(row)
    return [np.array(rows) for rows in groups.values()]


def _check_distinct_replicates(table: EvaluationTable, column: str, rows: Ints) -> None:
    """Raise if two evaluations are the same replicate of the same group."""
    first: dict[str, int] = {}
    for row in rows:
        earlier = first.setdefault(table.columns[column][row], row)
        if earlier != row:
            names = " and ".join(repr(table.models[table.model[at]]) for at in (earlier, row))
            raise InputError(
                f"The models {names} have the same {column} and agree in everything else. Add "
                f"columns {RECIPE_PREFIX}… that differ between models, except replicates."
            )
