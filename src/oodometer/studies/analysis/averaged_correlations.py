"""Correlations of metrics, averaged over pairs of domains (Wenzel et al., NeurIPS 2022, App. A).

A pair is a training set and a domain outside it. Values of different pairs are never pooled: the
models of an easy pair and of a hard pair together would look like a trend. Instead, a coefficient
is computed over the models of each pair, and the coefficients are averaged so that every task has
the same weight. The average is not itself a correlation coefficient; it tells how well one metric
predicts another within a pair.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from oodometer.core.array_types import Floats, Ints
from oodometer.core.errors import UnknownName
from oodometer.core.jsonable import fields_to_jsonable
from oodometer.studies.analysis.correlation_matrix import (
    MIN_CORRELATION_ROWS,
    CorrelationKind,
    PairwiseCorrelations,
    check_correlation_kind,
    number_or_none,
    pairwise_correlations,
)
from oodometer.studies.analysis.evaluation_table import EvaluationTable
from oodometer.studies.analysis.id_ood_pairs import (
    DOMAIN_ROLES,
    ERROR_METRIC,
    UNNAMED_LABEL,
    IdOodPair,
    IdOodPairs,
    find_pairs,
    select_metrics,
)
from oodometer.studies.analysis.pretrained_accuracies import pretrained_errors

# Name of the residual of OOD error after a linear fit on ID error.
RESIDUAL_LABEL = "OOD error beyond ID error"
# Residuals are rounded to this many decimals. Equal residuals then have equal ranks despite
# floating-point errors.
RESIDUAL_DECIMALS = 12
OVERALL_LABEL = "all"
# Role of the error of the pretrained network in the names of variables.
PRETRAINED_ROLE = "pretrained"


@dataclass(frozen=True, eq=False)
class AveragedCorrelationMatrix:
    """Averaged coefficients of `first` (rows) with `second` (columns); NaN where undefined.

    `sd` is the standard deviation over the pairs of domains that have a coefficient. `pairs` is the
    number of these pairs, `left_out` the number of pairs without a coefficient, and `models` the
    number of models, summed over pairs.
    """

    scope: str
    kind: CorrelationKind
    first: tuple[str, ...]
    second: tuple[str, ...]
    values: Floats
    sd: Floats
    pairs: Ints
    left_out: Ints
    models: Ints

    def score(self, first: str, second: str) -> dict[str, Any]:
        """Return the averaged coefficient of two variables, with its deviation and counts."""
        return self._cell(metric_index(self.first, first), metric_index(self.second, second))

    def rows(self) -> list[dict[str, Any]]:
        """Return all averaged coefficients, row by row."""
        return [self._cell(i, j) for i in range(len(self.first)) for j in range(len(self.second))]

    def to_dict(self) -> dict[str, Any]:
        return {"of": self.scope, "kind": self.kind, "cells": self.rows()}

    def _cell(self, i: int, j: int) -> dict[str, Any]:
        return {
            "first": self.first[i],
            "second": self.second[j],
            "value": number_or_none(self.values[i, j]),
            "sd": number_or_none(self.sd[i, j]),
            "pairs": int(self.pairs[i, j]),
            "left_out": int(self.left_out[i, j]),
            "models": int(self.models[i, j]),
        }


@dataclass(frozen=True, eq=False)
class AveragedCorrelations:
    """Matrices over all pairs, per task and per type of shift.

    `tasks` is empty if no task is known, and `shifts` is empty if no type of shift is known.
    `left_out` counts, by reason, the rows that belong to no pair.
    """

    overall: AveragedCorrelationMatrix
    tasks: dict[str, AveragedCorrelationMatrix]
    shifts: dict[str, AveragedCorrelationMatrix]
    left_out: dict[str, int]

    def to_dict(self) -> dict[str, Any]:
        return fields_to_jsonable(self)


def metric_index(names: Sequence[str], name: str) -> int:
    """Return the position of a metric; if it is unknown, raise and name the closest one."""
    if name not in names:
        raise UnknownName("metric", name, names)
    return list(names).index(name)


def average_correlations(
    table: EvaluationTable,
    *,
    metrics: Sequence[str] | None = None,
    kind: CorrelationKind = "spearman",
) -> AveragedCorrelations:
    """Correlate every two metrics, in every domain role, and average over pairs of domains.

    Domain roles are ID, ID corrupted, OOD and held-out OOD (see `id_ood_pairs`).
    ``score(A, B) = Σ_i w_i · corr(A_i, B_i)`` over the pairs i that have a coefficient, with
    ``w_i = 1 / (number of tasks · number of pairs of the same task)``. If a task has only one OOD
    domain, it has no held-out OOD domain, and these variables have no coefficient.

    Parameters
    ----------
    table : EvaluationTable
        Evaluations of models on domains; the optional columns `task` and `shift` group the pairs.
        Columns ``pretrained.<test set>`` with the accuracies of pretrained networks are further
        metrics of a model.
    metrics : sequence of str, optional
        Measures of the table. Default: all. ``error`` (1 − accuracy) is always included.
    kind : {"spearman", "pearson"}
        Correlation coefficient.

    Returns
    -------
    AveragedCorrelations
        Matrices over all pairs, per task and per shift. Variables are named by role and metric,
        such as ``"ID error"``, ``"held-out OOD error"`` or ``"pretrained imagenet error"``.

    Raises
    ------
    NotApplicable
        If no model is tested on a domain that it was not trained on.
    UnknownName
        If a metric or the kind of correlation is unknown.

    Examples
    --------
    >>> table = EvaluationTable.read({"model": [*"kkllmm"], "trained_on": ["a"] * 6,
    ...     "tested_on": [*"ababab"], "accuracy": [0.7, 0.5, 0.8, 0.6, 0.9, 0.7]}, measures=())
    >>> round(average_correlations(table).overall.score("ID error", "OOD error")["value"], 6)
    1.0
    """
    check_correlation_kind(kind)
    pairs = find_pairs(table, select_metrics(table, metrics))
    pretrained = pretrained_errors(table)
    names = variable_names(pairs.quantities, tuple(pretrained))

    def correlate_pair(pair: IdOodPair) -> PairwiseCorrelations:
        return pairwise_correlations(_pair_variables(pair, pretrained), kind=kind)

    return _average_by_group(pairs, names, names, kind, correlate_pair)


def adjusted_correlations(
    table: EvaluationTable,
    *,
    metrics: Sequence[str] | None = None,
    kind: CorrelationKind = "spearman",
) -> AveragedCorrelations:
    """Correlate every metric with the part of OOD error that ID error does not explain.

    In each pair of domains, OOD error is regressed on ID error, and the metrics are correlated with
    the residuals. The coefficients are averaged over pairs as in `average_correlations`.

    Parameters
    ----------
    table : EvaluationTable
        Evaluations of models on domains; the optional columns `task` and `shift` group the pairs.
    metrics : sequence of str, optional
        Measures of the table. Default: all. ``error`` (1 − accuracy) is always included.
    kind : {"spearman", "pearson"}
        Correlation coefficient.

    Returns
    -------
    AveragedCorrelations
        Matrices with a single column, ``"OOD error beyond ID error"``.

    Raises
    ------
    NotApplicable
        If no model is tested on a domain that it was not trained on.
    UnknownName
        If a metric or the kind of correlation is unknown.

    Examples
    --------
    >>> table = EvaluationTable.read({"model": [*"kkllmm"], "trained_on": ["a"] * 6,
    ...     "tested_on": [*"ababab"], "accuracy": [0.7, 0.5, 0.8, 0.8, 0.9, 0.7],
    ...     "x": [0, 1, 0, 9, 0, 1]})
    >>> result = adjusted_correlations(table).overall
    >>> round(result.score("OOD x", "OOD error beyond ID error")["value"], 6)
    -1.0
    """
    check_correlation_kind(kind)
    pairs = find_pairs(table, select_metrics(table, metrics))
    pretrained = pretrained_errors(table)

    def correlate_pair(pair: IdOodPair) -> PairwiseCorrelations:
        residual = residuals(pair.values["ID"][:, 0], pair.values["OOD"][:, 0])
        variables = _pair_variables(pair, pretrained)
        return pairwise_correlations(variables, residual[:, None], kind=kind)

    names = variable_names(pairs.quantities, tuple(pretrained))
    return _average_by_group(pairs, names, (RESIDUAL_LABEL,), kind, correlate_pair)


def variable_names(metrics: Sequence[str], pretrained: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the names of all metrics in all four domain roles, and of pretrained errors.

    >>> variable_names(["error"])
    ('ID error', 'ID corrupted error', 'OOD error', 'held-out OOD error')
    """
    return (
        *(f"{role} {metric}" for metric in metrics for role in DOMAIN_ROLES),
        *(f"{PRETRAINED_ROLE} {name} {ERROR_METRIC}" for name in pretrained),
    )


def residuals(x: Floats, y: Floats) -> Floats:
    """Return the residuals of y from the least-squares line of y on x.

    The residual is NaN where x or y is NaN. All residuals are NaN if the fit is perfect or there
    are too few points.

    >>> residuals(np.array([0.0, 1.0, 2.0, np.nan]), np.array([0.0, 3.0, 0.0, 1.0])).tolist()
    [-1.0, 2.0, -1.0, nan]
    """
    known = np.isfinite(x) & np.isfinite(y)
    result: Floats = np.full(len(y), np.nan)
    if known.sum() < MIN_CORRELATION_ROWS:
        return result
    centered_x = x[known] - x[known].mean()
    centered_y = y[known] - y[known].mean()
    # If x is constant, the best line is the mean of y.
    square = centered_x @ centered_x
    slope = centered_x @ centered_y / square if square else 0.0
    rounded = (centered_y - slope * centered_x).round(RESIDUAL_DECIMALS)
    if rounded.any():
        result[known] = rounded
    return result


def _pair_variables(pair: IdOodPair, pretrained: Mapping[str, Floats]) -> Floats:
    """Return an array (models, variables) with the variables in the order of `variable_names`."""
    stacked = np.stack([pair.values[role] for role in DOMAIN_ROLES], axis=2)
    errors = [values[pair.models, None] for values in pretrained.values()]
    return np.concatenate([stacked.reshape(len(pair.models), -1), *errors], axis=1)


def _average_by_group(
    domain_pairs: IdOodPairs,
    first: tuple[str, ...],
    second: tuple[str, ...],
    kind: CorrelationKind,
    correlate_pair: Callable[[IdOodPair], PairwiseCorrelations],
) -> AveragedCorrelations:
    coefficients = [correlate_pair(pair) for pair in domain_pairs.pairs]
    values = np.stack([matrix.values for matrix in coefficients])
    models = np.stack([matrix.n_rows for matrix in coefficients])
    tasks = np.array([pair.task for pair in domain_pairs.pairs])
    shifts = np.array([pair.shift for pair in domain_pairs.pairs])

    def average(label: str, chosen: Any) -> AveragedCorrelationMatrix:
        figures = average_over_pairs(values[chosen], models[chosen], tasks[chosen])
        return AveragedCorrelationMatrix(label, kind, first, second, *figures)

    def average_each(labels: Any) -> dict[str, AveragedCorrelationMatrix]:
        names = [] if (labels == UNNAMED_LABEL).all() else np.unique(labels).tolist()
        return {name: average(name, labels == name) for name in names}

    return AveragedCorrelations(
        overall=average(OVERALL_LABEL, slice(None)),
        tasks=average_each(tasks),
        shifts=average_each(shifts),
        left_out=dict(domain_pairs.left_out),
    )


def average_over_pairs(
    values: Floats, models: Ints, tasks: Any
) -> tuple[Floats, Floats, Ints, Ints, Ints]:
    """Return mean, sd, number of pairs with and without a coefficient, and number of models.

    `values` has shape (pairs, …). Values are first averaged over the pairs of each task and then
    over tasks, so every task with a coefficient has the same weight.

    >>> result = average_over_pairs(
    ...     np.array([0.0, 0.5, 1.0]), np.array([9, 9, 9]), np.array(["a", "a", "b"]))
    >>> float(result[0])
    0.625
    """
    known = ~np.isnan(values)
    filled = np.where(known, values, 0.0)
    counts = known.sum(axis=0)
    members = np.array([tasks == task for task in np.unique(tasks)], dtype=np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        task_means = np.tensordot(members, filled, 1) / np.tensordot(members, known, 1)
        known_tasks = ~np.isnan(task_means)
        mean = np.where(known_tasks, task_means, 0.0).sum(axis=0) / known_tasks.sum(axis=0)
        deviations = np.where(known, values - filled.sum(axis=0) / counts, 0.0)
        sd = np.sqrt((deviations**2).sum(axis=0) / np.where(counts > 1, counts - 1, np.nan))
    n_models = np.where(known, models, 0).sum(axis=0)
    return mean, sd, counts, len(values) - counts, n_models
