"""Reliability of the true accuracies of a study: how much of their spread is not sampling error.

Classical test theory (Lord & Novick, 1968): reliability = 1 − mean(se²) / var, where var is the
variance of the accuracies over the models of a group, and se² = a(1 − a) / n the sampling variance
of an accuracy a that was measured on n rows. If all models of a group are tested on the same rows,
their errors are positively correlated, and the reliability of their differences is higher than
this value.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from oodometer.core.array_types import Floats
from oodometer.core.errors import InputError, NotApplicable
from oodometer.core.jsonable import fields_to_jsonable
from oodometer.studies.analysis.evaluation_table import EvaluationTable
from oodometer.studies.analysis.grouped_scores import RowGroups
from oodometer.studies.analysis.kendall_family import PAIR_COLUMNS


@dataclass(frozen=True, kw_only=True)
class TruthReliability:
    """Reliability of the true accuracies, over groups of models.

    Parameters
    ----------
    median, mean : float
        Median and mean over the groups.
    groups : dict of str to float
        Reliability per group, named by architecture, training set and test domain.
    rows : tuple of int
        Smallest and largest number of test rows.
    """

    median: float
    mean: float
    groups: dict[str, float]
    rows: tuple[int, int]

    def to_dict(self) -> dict[str, Any]:
        """Return all fields, for JSON."""
        return fields_to_jsonable(self)


def truth_reliability(table: Any, *, rows: int | None = None) -> TruthReliability:
    """Return how much of the spread of true accuracies is not sampling error.

    The groups are those of Macro τ: the models of one architecture and one training set on one
    domain outside it. Groups with fewer than three models, or with equal accuracies, are left out.

    Parameters
    ----------
    table : EvaluationTable, path, data frame or mapping of columns
        Evaluations of models on domains; see `compare_measures`.
    rows : int, optional
        Number of test rows of each evaluation. Default: the column `n` of the table.

    Returns
    -------
    TruthReliability
        Reliability per group, and its median and mean. 1 means no sampling error; at 0.5, half of
        the variance is sampling error; a value below 0 means that the accuracies vary less than
        sampling error alone would make them.

    Raises
    ------
    InputError
        If the number of rows is not known.
    NotApplicable
        If no group has three models with different accuracies.

    Examples
    --------
    >>> table = {"model": [*"klm"], "trained_on": ["a"] * 3, "tested_on": ["b"] * 3,
    ...     "accuracy": [0.4, 0.5, 0.6], "n": [100] * 3}
    >>> round(truth_reliability(EvaluationTable.read(table, measures=())).median, 4)
    0.7567
    """
    table = EvaluationTable.open(table)
    counts = _row_counts(table, rows)
    known = ~table.in_distribution & ~np.isnan(table.accuracy) & ~np.isnan(counts)
    groups = RowGroups.from_columns(table, PAIR_COLUMNS, known)
    found = {}
    for chosen in groups:
        accuracy = table.accuracy[chosen]
        if len(chosen) > 2 and np.ptp(accuracy) > 0:
            squared_errors = accuracy * (1 - accuracy) / counts[chosen]
            found[_group_name(table, int(chosen[0]))] = float(
                1 - squared_errors.mean() / accuracy.var(ddof=1)
            )
    if not found:
        raise NotApplicable("no group has three models with different accuracies")
    values = np.array(list(found.values()))
    sizes = counts[known]
    return TruthReliability(
        median=float(np.median(values)),
        mean=float(values.mean()),
        groups=found,
        rows=(int(sizes.min()), int(sizes.max())),
    )


def _group_name(table: EvaluationTable, row: int) -> str:
    architecture = table.architectures[table.architecture[row]]
    trained_on = table.training(int(table.trained_on[row]))
    return f"{architecture}: {trained_on} → {table.domains[table.tested_on[row]]}"


def _row_counts(table: EvaluationTable, rows: int | None) -> Floats:
    if rows is not None:
        return np.full(len(table), float(rows))
    if "n" not in table.columns:
        raise InputError(
            "The table has no column 'n' with the number of test rows. Add it, or pass rows=…."
        )
    cells = [float(cell) if cell else np.nan for cell in table.columns["n"]]
    return np.array(cells)
