"""In-distribution metrics as predictors of OOD error, one row per model and pair of domains.

`average_correlations` (Wenzel et al., 2022, App. A) returns averages over pairs of domains. The table
of this module has the same metrics as columns beside the OOD error of the same model and pair, so
that the statistic `pair_rho` of `model_bootstrap` gives the same averages with an interval, and two
metrics can be compared on the same models and pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from oodometer.core.array_types import Floats, Ints
from oodometer.studies.analysis.averaged_correlations import residuals
from oodometer.studies.analysis.evaluation_table import EvaluationTable
from oodometer.studies.analysis.id_ood_pairs import (
    DOMAIN_ROLES,
    IdOodPair,
    find_pairs,
    select_metrics,
)

# Role whose error is predicted. Its metrics need the labels of the target, so they are no predictors.
TARGET_ROLE = "OOD"
# Errors are stored as accuracies. A residual has mean 0, so this keeps it between 0 and 1.
RESIDUAL_OFFSET = 0.5


def predictor_table(
    table: EvaluationTable, *, metrics: Sequence[str] | None = None, adjusted: bool = False
) -> EvaluationTable:
    """Return one row per model and pair of domains, with the metrics of the other domains.

    Parameters
    ----------
    table : EvaluationTable
        Evaluations of models on domains; the optional column `task` groups the pairs.
    metrics : sequence of str, optional
        Measures of the table. Default: all. ``error`` (1 − accuracy) is always included.
    adjusted : bool
        Replace the OOD error by the residual of its regression on ID error within the pair, plus
        one half.

    Returns
    -------
    EvaluationTable
        Its accuracy is 1 − OOD error. Its measures are named by role and metric, such as
        ``"ID error"`` or ``"held-out OOD nll"``; they are NaN where a model has no value.

    Raises
    ------
    NotApplicable
        If no model is tested on a domain that it was not trained on.

    Examples
    --------
    >>> table = EvaluationTable.read({"model": [*"kkll"], "trained_on": ["a"] * 4,
    ...     "tested_on": [*"abab"], "accuracy": [0.75, 0.5, 0.5, 0.25]}, measures=())
    >>> result = predictor_table(table)
    >>> result.accuracy.tolist(), result.measures["ID error"].tolist()
    ([0.5, 0.25], [0.25, 0.5])
    """
    found = find_pairs(table, select_metrics(table, metrics))
    targets = {name: code for code, name in enumerate(table.domains)}
    parts = [_pair_rows(table, pair, targets[pair.target]) for pair in found.pairs]
    errors = [_predicted_error(pair, adjusted=adjusted) for pair in found.pairs]
    known = [~np.isnan(error) for error in errors]
    rows = np.concatenate([part[kept] for part, kept in zip(parts, known, strict=True)])
    error = np.concatenate([part[kept] for part, kept in zip(errors, known, strict=True)])
    measures = {
        f"{role} {metric}": np.concatenate(
            [pair.values[role][kept, j] for pair, kept in zip(found.pairs, known, strict=True)]
        )
        for j, metric in enumerate(found.quantities)
        for role in DOMAIN_ROLES
        if role != TARGET_ROLE
    }
    known_measures = {name: column for name, column in measures.items() if not np.isnan(column).all()}
    return replace(table.select_rows(rows), accuracy=1.0 - error, measures=known_measures)


def _pair_rows(table: EvaluationTable, pair: IdOodPair, target: int) -> Ints:
    """Return the row of the table with each model of the pair on the target; −1 if there is none."""
    row_of = np.full(len(table.models), -1, dtype=np.int64)
    tested = np.flatnonzero(table.tested_on == target)
    row_of[table.model[tested]] = tested
    return row_of[pair.models]


def _predicted_error(pair: IdOodPair, *, adjusted: bool) -> Floats:
    error = pair.values[TARGET_ROLE][:, 0]
    if not adjusted:
        return error
    return residuals(pair.values["ID"][:, 0], error) + RESIDUAL_OFFSET
