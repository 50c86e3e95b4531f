"""In-distribution metrics as predictors of OOD error, one row per model and pair of domains.

`average_correlations` (Wenzel et al., 2022, App. A) returns averages over pairs of domains. The table
of this module has the same metrics as columns beside the OOD error of the same model and pair, so
that the statistics `pair_rho` and `adjusted_rho` of `model_bootstrap` give the same averages with an
interval, and two metrics can be compared on the same models and pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from oodometer.core.array_types import Ints
from oodometer.studies.analysis.evaluation_table import EvaluationTable
from oodometer.studies.analysis.id_ood_pairs import (
    DOMAIN_ROLES,
    IdOodPair,
    find_pairs,
    select_metrics,
)

# Role whose error is predicted. Its metrics need the labels of the target, so they are no predictors.
TARGET_ROLE = "OOD"


def predictor_table(
    table: EvaluationTable, *, metrics: Sequence[str] | None = None
) -> EvaluationTable:
    """Return one row per model and pair of domains, with the metrics of the other domains.

    Parameters
    ----------
    table : EvaluationTable
        Evaluations of models on domains. The column `shift` of the result is the type of shift of
        each pair, and its column `task` the task, if the table names them.
    metrics : sequence of str, optional
        Measures of the table. Default: all. ``error`` (1 − accuracy) is always included.

    Returns
    -------
    EvaluationTable
        Its rows are those of the table on domains out of distribution. Its measures are named by
        role and metric, such as ``"ID error"`` or ``"held-out OOD nll"``, and NaN where a model has
        no value; measures without any value are left out.

    Raises
    ------
    NotApplicable
        If no model is tested on a domain that it was not trained on.
    UnknownName
        If a metric is unknown.

    Examples
    --------
    >>> table = EvaluationTable.read({"model": [*"kkll"], "trained_on": ["a"] * 4,
    ...     "tested_on": [*"abab"], "accuracy": [0.75, 0.5, 0.5, 0.25]}, measures=())
    >>> result = predictor_table(table)
    >>> result.accuracy.tolist(), result.measures["ID error"].tolist()
    ([0.5, 0.25], [0.25, 0.5])
    """
    found = find_pairs(table, select_metrics(table, metrics))
    rows, known = zip(*(_target_rows(table, pair) for pair in found.pairs), strict=True)
    measures = {
        f"{role} {metric}": np.concatenate(
            [pair.values[role][tested, j] for pair, tested in zip(found.pairs, known, strict=True)]
        )
        for j, metric in enumerate(found.quantities)
        for role in DOMAIN_ROLES
        if role != TARGET_ROLE
    }
    chosen = table.select_rows(np.concatenate(rows))
    labels = {
        name: tuple(
            getattr(pair, name) for pair, part in zip(found.pairs, rows, strict=True) for _ in part
        )
        for name in ("task", "shift")
    }
    return replace(
        chosen,
        measures={name: column for name, column in measures.items() if not np.isnan(column).all()},
        columns={**chosen.columns, **labels},
    )


def _target_rows(table: EvaluationTable, pair: IdOodPair) -> tuple[Ints, Ints]:
    """Return the rows of a pair's models on its target, and the positions of these models."""
    row_of = np.full(len(table.models), -1, dtype=np.int64)
    tested = np.flatnonzero(table.tested_on == table.domains.index(pair.target))
    row_of[table.model[tested]] = tested
    rows = row_of[pair.models]
    position = np.flatnonzero(rows >= 0)
    return rows[position], position
