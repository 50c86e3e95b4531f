"""Averaged correlations of metrics over pairs of domains. Wenzel et al., NeurIPS 2022, Appendix A.

Values of different pairs are never pooled: an easy and a hard pair together would look like a
trend. Each pair gives its own coefficient over its models, and these are averaged so that every
task counts the same. The average is no correlation of anything, but says how far one metric tells
of another.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from oodometer.core.array_types import Floats, Ints
from oodometer.core.errors import UnknownName
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
    UNNAMED_LABEL,
    IdOodPair,
    IdOodPairs,
    find_pairs,
    select_metrics,
)

# What is left of OOD error when a line in ID error has been taken off.
RESIDUAL_LABEL = "OOD error beyond ID error"
# Errors are rounded to so many decimals when compared with a line: equal ones must not be told
# apart by the last bit.
RESIDUAL_DECIMALS = 12
OVERALL_LABEL = "all"


@dataclass(frozen=True, eq=False)
class AveragedCorrelationMatrix:
    """Averaged coefficients of `first` (rows) with `second` (columns), NaN where there is none.

    `sd` is over the pairs that have an answer, `pairs` how many these are, `left_out` how many
    have none, `models` the models that took part, added up over pairs.
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
        """One cell with its figures."""
        return self._cell(metric_index(self.first, first), metric_index(self.second, second))

    def rows(self) -> list[dict[str, Any]]:
        """All cells, one after another."""
        return [self._cell(i, j) for i in range(len(self.first)) for j in range(len(self.second))]

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
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
    """Matrices over all pairs, of every task, and of every type of shift.

    Tasks and shifts are empty where the table names none; `left_out` counts rows without a role.
    """

    overall: AveragedCorrelationMatrix
    tasks: dict[str, AveragedCorrelationMatrix]
    shifts: dict[str, AveragedCorrelationMatrix]
    left_out: dict[str, int]

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "overall": self.overall.to_dict(),
            "tasks": {name: one.to_dict() for name, one in self.tasks.items()},
            "shifts": {name: one.to_dict() for name, one in self.shifts.items()},
            "left_out": dict(self.left_out),
        }


def metric_index(names: Sequence[str], name: str) -> int:
    """Where a metric stands, or an error with the nearest name."""
    if name not in names:
        raise UnknownName("metric", name, names)
    return list(names).index(name)


def average_correlations(
    table: EvaluationTable,
    *,
    metrics: Sequence[str] | None = None,
    kind: CorrelationKind = "spearman",
) -> AveragedCorrelations:
    """Every metric in every role with every other: score(A, B) = Σ_i w_i · corr(A_i, B_i).

    `metrics` names measures of the table, None for all; `error`, 1 − accuracy, is always there.
    Over the pairs i that have an answer, w_i = 1 / (tasks · pairs of the same task).
    """
    check_correlation_kind(kind)
    found = find_pairs(table, select_metrics(table, metrics))
    names = variable_names(found.quantities)

    def within(pair: IdOodPair) -> PairwiseCorrelations:
        return pairwise_correlations(_pair_variables(pair), kind=kind)

    return _average_by_group(found, names, names, kind, within)


def adjusted_correlations(
    table: EvaluationTable,
    *,
    metrics: Sequence[str] | None = None,
    kind: CorrelationKind = "spearman",
) -> AveragedCorrelations:
    """What every metric tells of OOD error that ID error does not.

    In each pair OOD error is regressed on ID error, and the metric is correlated with what is left;
    averaged over pairs as in `average_correlations`.
    """
    check_correlation_kind(kind)
    found = find_pairs(table, select_metrics(table, metrics))

    def within(pair: IdOodPair) -> PairwiseCorrelations:
        left = residuals(pair.values["ID"][:, 0], pair.values["OOD"][:, 0])
        return pairwise_correlations(_pair_variables(pair), left[:, None], kind=kind)

    return _average_by_group(
        found, variable_names(found.quantities), (RESIDUAL_LABEL,), kind, within
    )


def variable_names(metrics: Sequence[str]) -> tuple[str, ...]:
    """Metrics in all four roles.

    >>> variable_names(["error"])
    ('ID error', 'ID corrupted error', 'OOD error', 'held-out OOD error')
    """
    return tuple(f"{role} {metric}" for metric in metrics for role in DOMAIN_ROLES)


def residuals(x: Floats, y: Floats) -> Floats:
    """What a least-squares line in x leaves of y; NaN where either is, or where nothing is left.

    >>> residuals(np.array([0.0, 1.0, 2.0, np.nan]), np.array([0.0, 3.0, 0.0, 1.0])).tolist()
    [-1.0, 2.0, -1.0, nan]
    """
    known = np.isfinite(x) & np.isfinite(y)
    left: Floats = np.full(len(y), np.nan)
    if known.sum() < MIN_CORRELATION_ROWS:
        return left
    mine, theirs = x[known] - x[known].mean(), y[known] - y[known].mean()
    # Without a spread of x there is no line but the mean.
    square = mine @ mine
    rest = (theirs - (mine @ theirs / square * mine if square else 0.0)).round(RESIDUAL_DECIMALS)
    if rest.any():
        left[known] = rest
    return left


def _pair_variables(pair: IdOodPair) -> Floats:
    """All metrics in all roles of one pair: (models, variables), in the order of `variable_names`."""
    stacked = np.stack([pair.values[role] for role in DOMAIN_ROLES], axis=2)
    return stacked.reshape(len(pair.models), -1)


def _average_by_group(
    domain_pairs: IdOodPairs,
    first: tuple[str, ...],
    second: tuple[str, ...],
    kind: CorrelationKind,
    correlate_pair: Callable[[IdOodPair], PairwiseCorrelations],
) -> AveragedCorrelations:
    each = [correlate_pair(pair) for pair in domain_pairs.pairs]
    values = np.stack([one.values for one in each])
    models = np.stack([one.n_rows for one in each])
    tasks = np.array([pair.task for pair in domain_pairs.pairs])
    shifts = np.array([pair.shift for pair in domain_pairs.pairs])

    def over(label: str, chosen: Any) -> AveragedCorrelationMatrix:
        figures = average_over_pairs(values[chosen], models[chosen], tasks[chosen])
        return AveragedCorrelationMatrix(label, kind, first, second, *figures)

    def by(labels: Any) -> dict[str, AveragedCorrelationMatrix]:
        names = [] if (labels == UNNAMED_LABEL).all() else np.unique(labels).tolist()
        return {name: over(name, labels == name) for name in names}

    return AveragedCorrelations(
        over(OVERALL_LABEL, slice(None)), by(tasks), by(shifts), dict(domain_pairs.left_out)
    )


def average_over_pairs(
    values: Floats, models: Ints, tasks: Any
) -> tuple[Floats, Floats, Ints, Ints, Ints]:
    """Mean, sd, answered and unanswered pairs, and models, of (pairs, …) coefficients.

    The mean is that of the tasks' means, so that every task with an answer counts the same.

    >>> found = average_over_pairs(np.array([0.0, 0.5, 1.0]), np.array([9, 9, 9]), np.array(["a", "a", "b"]))
    >>> float(found[0])
    0.625
    """
    answered = ~np.isnan(values)
    filled, counts = np.where(answered, values, 0.0), answered.sum(axis=0)
    members = np.array([tasks == one for one in np.unique(tasks)], dtype=np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        means = np.tensordot(members, filled, 1) / np.tensordot(members, answered, 1)
        known = ~np.isnan(means)
        mean = np.where(known, means, 0.0).sum(axis=0) / known.sum(axis=0)
        off = np.where(answered, values - filled.sum(axis=0) / counts, 0.0)
        sd = np.sqrt((off**2).sum(axis=0) / np.where(counts > 1, counts - 1, np.nan))
    took_part = np.where(answered, models, 0).sum(axis=0)
    return mean, sd, counts, len(values) - counts, took_part
