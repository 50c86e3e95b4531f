"""Statistics of measures on resampled models: the same values as on a table with copied rows.

Every function takes values of measures, shape (measures, rows), and the drawn models and domains,
and returns values of shape (measures, replicates). `kendall_family`, `linear_fit` and
`rank_correlation` define the statistics.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from oodometer.core.array_types import Bools, Floats, Ints
from oodometer.core.errors import NotApplicable, UnknownName
from oodometer.core.stats import repeated_median_line
from oodometer.studies.analysis._kendall import dense_ranks
from oodometer.studies.analysis._weighted_statistics import (
    FLAT_SHARE,
    LineSums,
    PairUnits,
    weighted_pearson,
    weighted_ranks,
    weighted_spearman,
    weighted_tau,
)
from oodometer.studies.analysis.averaged_correlations import RESIDUAL_DECIMALS
from oodometer.studies.analysis.evaluation_table import EvaluationTable
from oodometer.studies.analysis.grouped_scores import RowGroups
from oodometer.studies.analysis.kendall_family import PAIR_COLUMNS, TAU_STATISTICS
from oodometer.studies.analysis.linear_fit import FITTED_STATISTICS, RAW_STATISTICS
from oodometer.studies.analysis.model_resampling import Resamples, domain_clusters
from oodometer.studies.analysis.rank_correlation import canonical_sign

# Measure that `adjusted_rho` adjusts for: the error on the training domains of a model.
ID_ERROR = "ID error"
LINE_STATISTICS = (*FITTED_STATISTICS, *RAW_STATISTICS)


def groups_by_architecture(statistic: str) -> bool:
    """Return whether the groups of a statistic have a single architecture."""
    return statistic in LINE_STATISTICS or "architecture" in _KEY_COLUMNS.get(statistic, ())


_KEY_COLUMNS = {one.name: one.key_columns for one in TAU_STATISTICS} | {
    "macro_tau_sd": PAIR_COLUMNS
}


@dataclass(frozen=True, eq=False)
class StatisticValues:
    """Values (measures, replicates), the rows that they are computed from, and number of groups."""

    values: Floats
    rows: Ints
    n_groups: int


def statistic_values(
    table: EvaluationTable, statistic: str, values: Floats, draws: Resamples
) -> StatisticValues:
    if statistic in LINE_STATISTICS:
        return _line_values(table, statistic, values, draws)
    if statistic == "cross_domain_tau":
        return _cross_domain_values(table, values, draws)
    if statistic in _KEY_COLUMNS:
        return _tau_values(table, statistic, values, draws)
    return _RANK_FUNCTIONS[statistic](table, values, draws)


def _known_rows(table: EvaluationTable, *, in_distribution: bool = False) -> Bools:
    return np.asarray((table.in_distribution == in_distribution) & ~np.isnan(table.accuracy))


def _mean_over_groups(by_group: Floats, weights: Floats) -> Floats:
    """Average (groups, measures, replicates) over the groups with a value; weights are (groups, replicates)."""
    known = ~np.isnan(by_group)
    weights = weights[:, None, :] * known
    total = weights.sum(axis=0)
    sums = (weights * np.where(known, by_group, 0.0)).sum(axis=0)
    return np.asarray(np.divide(sums, total, out=np.full_like(sums, np.nan), where=total > 0))


def _tau_values(
    table: EvaluationTable, statistic: str, values: Floats, draws: Resamples
) -> StatisticValues:
    """Return the mean over groups of τ-b between measure and accuracy, over models of a group."""
    name = statistic.removesuffix("_sd")
    spec = next(one for one in TAU_STATISTICS if one.name == name)
    mask = _known_rows(table, in_distribution=spec.in_distribution)
    groups = RowGroups.from_columns(table, spec.key_columns, mask)
    by_group = _tau_by_group(table, groups, values, draws.cluster[table.model], draws.models)
    weights = draws.of_domains(groups.keys["tested_on"])
    values = _mean_over_groups(by_group, weights)
    if name != statistic:
        values = np.sqrt(np.maximum(_mean_over_groups(by_group**2, weights) - values**2, 0.0))
    return StatisticValues(values, groups.rows, len(groups))


def _tau_by_group(
    table: EvaluationTable, groups: RowGroups, values: Floats, unit: Ints, weights: Floats
) -> Floats:
    """Return τ-b, shape (groups, measures, replicates), given the unit of each row of the table."""
    by_group = np.full((len(groups), len(values), weights.shape[1]), np.nan)
    for g, rows in enumerate(groups):
        ordered = rows[np.argsort(unit[rows], kind="stable")]
        for m, x in enumerate(values):
            known = ordered[~np.isnan(x[ordered])]
            if len(known) > 1:
                by_group[g, m] = _unit_tau(x[known], table.accuracy[known], unit[known], weights)
    return by_group


def _unit_tau(x: Floats, y: Floats, unit: Ints, weights: Floats) -> Floats:
    codes, local = np.unique(unit, return_inverse=True)
    return weighted_tau(dense_ranks(x), dense_ranks(y), PairUnits(local, weights[codes]))


def _cross_domain_values(
    table: EvaluationTable, values: Floats, draws: Resamples
) -> StatisticValues:
    """Return the mean over models of τ-b between measure and accuracy over the domains of a model."""
    groups = RowGroups.from_columns(table, ("architecture", "model"), _known_rows(table))
    drawn = draws.domains
    weights = np.ones((len(table.domains), 1)) if drawn is None else drawn
    clusters = domain_clusters(table.domains)
    first = np.unique(clusters, return_index=True)[1]
    unit = clusters[table.tested_on]
    by_group = _tau_by_group(table, groups, values, unit, weights[first])
    models = draws.models[draws.cluster[groups.keys["model"]]]
    return StatisticValues(_mean_over_groups(by_group, models), groups.rows, len(groups))


def _line_values(
    table: EvaluationTable, statistic: str, values: Floats, draws: Resamples
) -> StatisticValues:
    """Return the mean over groups of a statistic of predicted accuracies (`linear_fit`)."""
    groups = RowGroups.from_columns(table, PAIR_COLUMNS, _known_rows(table))
    domains = groups.keys["tested_on"]
    by_group = np.full((len(groups), len(values), draws.replicates), np.nan)
    rows_by_group = list(groups)
    for domain in np.unique(domains):
        members = np.flatnonzero(domains == domain)
        parts = [_GroupRows.of(table, rows_by_group[g], draws) for g in members]
        for m in range(len(values)):
            for part, result in zip(
                members, _score_lines(table, parts, values[m], statistic), strict=True
            ):
                by_group[part, m] = result
    weights = draws.of_domains(domains)
    return StatisticValues(_mean_over_groups(by_group, weights), groups.rows, len(groups))


@dataclass(frozen=True, eq=False)
class _GroupRows:
    """Models of one architecture and training set on one test domain, with their weights."""

    rows: Ints
    weights: Floats
    architecture: int
    training: int

    @classmethod
    def of(cls, table: EvaluationTable, rows: Ints, draws: Resamples) -> _GroupRows:
        first = rows[0]
        return cls(
            rows,
            draws.of_rows(table, rows),
            int(table.architecture[first]),
            int(table.trained_on[first]),
        )


def _score_lines(
    table: EvaluationTable, parts: Sequence[_GroupRows], values: Floats, statistic: str
) -> Iterator[Floats]:
    """Yield a statistic of each group of one test domain, for every replicate."""
    every = np.concatenate([part.rows for part in parts])
    center = np.nanmean(values[every]) if (~np.isnan(values[every])).any() else 0.0
    scale = np.nanmax(np.abs(values[every] - center), initial=0.0) or 1.0
    fitted = statistic in ("r2", "mae")
    xs = [(values[part.rows] - center) / scale for part in parts]
    ys = [table.accuracy[part.rows] for part in parts]
    sums = (
        [LineSums.of_rows(x, y, p.weights) for x, y, p in zip(xs, ys, parts, strict=True)]
        if fitted
        else []
    )
    for j, (part, x, y) in enumerate(zip(parts, xs, ys, strict=True)):
        if statistic == "r2_pearson":
            yield _squared_correlation(x, y, part.weights)
        elif fitted:
            predicted = _predict_group(table, parts, sums, j, x, y)
            yield _prediction_score(predicted, y, x, part.weights, statistic)
        else:
            raw = np.broadcast_to(values[part.rows][:, None], part.weights.shape)
            yield _prediction_score(raw, y, x, part.weights, statistic)


def _predict_group(
    table: EvaluationTable,
    parts: Sequence[_GroupRows],
    sums: Sequence[LineSums],
    j: int,
    x: Floats,
    y: Floats,
) -> Floats:
    """Return the predictions of the line of the first rule of `linear_fit` that applies."""
    inside = table.domain_in_training[parts[j].training]
    pools: list[list[int]] = [[], []]
    for other, part in enumerate(parts):
        if part.architecture != parts[j].architecture:
            pools[1].append(other)
        elif not (inside & table.domain_in_training[part.training]).any():
            pools[0].append(other)
    for pool in pools:
        if sum(len(parts[other].rows) for other in pool) > 1:
            total = sums[pool[0]]
            for other in pool[1:]:
                total = total + sums[other]
            return total.predict(x)
    return sums[j].without(x, y, parts[j].weights).predict(x)


def _squared_correlation(x: Floats, y: Floats, weights: Floats) -> Floats:
    known = ~np.isnan(x)
    if known.sum() < 2:
        return np.full(weights.shape[1], np.nan)
    shape = (int(known.sum()), weights.shape[1])
    x, y = (np.broadcast_to(side[known, None], shape) for side in (x, y))
    return np.asarray(weighted_pearson(x, y, weights[known]) ** 2)


def _prediction_score(
    predicted: Floats, y: Floats, x: Floats, weights: Floats, statistic: str
) -> Floats:
    """Return R² or mean absolute error (in points) of predictions (n, replicates)."""
    known = ~np.isnan(x)
    if not known.any():
        return np.full(weights.shape[1], np.nan)
    residual = predicted[known] - y[known, None]
    weights = weights[known]
    count = weights.sum(axis=0)
    enough = count > 0
    safe = np.where(enough, count, 1.0)
    # A row that is not drawn may have no prediction; it does not count.
    residual = np.where(weights > 0, residual, 0.0)
    if statistic.endswith("mae"):
        return np.where(enough, 100.0 * (weights * np.abs(residual)).sum(axis=0) / safe, np.nan)
    centered = y[known, None] - y[known].mean()
    mean = (weights * centered).sum(axis=0) / safe
    total = (weights * (centered - mean) ** 2).sum(axis=0)
    varies = total > FLAT_SHARE * np.maximum((centered**2).sum(), 1e-300)
    error = (weights * residual**2).sum(axis=0)
    return np.where(varies, 1.0 - error / np.where(varies, total, 1.0), np.nan)


def _error_correlation(
    table: EvaluationTable,
    values: Floats,
    draws: Resamples,
    *,
    key_columns: tuple[str, ...],
    signed: bool,
) -> StatisticValues:
    """Return the mean over groups of Spearman's ρ between measure and error."""
    groups = RowGroups.from_columns(table, key_columns, _known_rows(table))
    by_group = np.full((len(groups), len(values), draws.replicates), np.nan)
    for g, rows in enumerate(groups):
        weights = draws.of_rows(table, rows)
        for m, x in enumerate(values[:, rows]):
            by_group[g, m] = _known_spearman(x, 1.0 - table.accuracy[rows], weights)
    weights = draws.of_domains(groups.keys["tested_on"])
    if not signed:
        means = _mean_over_tasks(table, groups, by_group, weights)
        return StatisticValues(means, groups.rows, len(groups))
    means = _mean_over_groups(by_group, weights)
    return StatisticValues(means * _signs(table, values)[:, None], groups.rows, len(groups))


def _adjusted_values(table: EvaluationTable, values: Floats, draws: Resamples) -> StatisticValues:
    """Return the mean over pairs of Spearman's ρ between measure and error beyond ID error."""
    if ID_ERROR not in table.measures:
        raise UnknownName("measure", ID_ERROR, table.measures)
    groups = RowGroups.from_columns(table, ("trained_on", "tested_on"), _known_rows(table))
    by_group = np.full((len(groups), len(values), draws.replicates), np.nan)
    for g, rows in enumerate(groups):
        weights = draws.of_rows(table, rows)
        residual = _residuals(table.measures[ID_ERROR][rows], 1.0 - table.accuracy[rows], weights)
        for m, x in enumerate(values[:, rows]):
            known = ~np.isnan(x) & ~np.isnan(table.measures[ID_ERROR][rows])
            if known.sum() > 2:
                by_group[g, m] = weighted_pearson(
                    weighted_ranks(x[known], weights[known]),
                    _column_ranks(residual[known], weights[known]),
                    weights[known],
                )
    weights = draws.of_domains(groups.keys["tested_on"])
    means = _mean_over_tasks(table, groups, by_group, weights)
    return StatisticValues(means, groups.rows, len(groups))


def _residuals(x: Floats, y: Floats, weights: Floats) -> Floats:
    """Return the residuals of y from its line on x in each resample, shape (n, replicates)."""
    center = np.nanmean(x) if (~np.isnan(x)).any() else 0.0
    predicted = LineSums.of_rows(x - center, y, weights).predict(x - center)
    # Without a line, because x is constant, the best prediction is the mean of y.
    mean = (weights * y[:, None]).sum(axis=0) / np.maximum(weights.sum(axis=0), 1.0)
    predicted = np.where(np.isnan(predicted), mean, predicted)
    return np.asarray((y[:, None] - predicted).round(RESIDUAL_DECIMALS))


def _column_ranks(columns: Floats, weights: Floats) -> Floats:
    """Return the ranks of each column among its rows, with its own weights; ties get mean ranks."""
    order = np.argsort(columns, axis=0, kind="stable")
    values = np.take_along_axis(columns, order, axis=0)
    counts = np.take_along_axis(weights, order, axis=0)
    up_to = np.cumsum(counts, axis=0)
    index = np.arange(len(columns))[:, None]
    changes = values[1:] != values[:-1]
    edge = np.ones((1, columns.shape[1]), dtype=np.bool_)
    first = np.maximum.accumulate(np.where(np.concatenate([edge, changes]), index, 0), axis=0)
    last = np.where(np.concatenate([changes, edge]), index, len(columns))
    last = np.minimum.accumulate(last[::-1], axis=0)[::-1]
    before = np.take_along_axis(up_to - counts, first, axis=0)
    ranks = np.empty_like(weights)
    sorted_ranks = (before + np.take_along_axis(up_to, last, axis=0) + 1.0) / 2
    np.put_along_axis(ranks, order, sorted_ranks, axis=0)
    return ranks


def _known_spearman(x: Floats, y: Floats, weights: Floats) -> Floats:
    known = ~np.isnan(x)
    if known.sum() < 3:
        return np.full(weights.shape[1], np.nan)
    return weighted_spearman(x[known], y[known], weights[known])


def _signs(table: EvaluationTable, values: Floats) -> Floats:
    """Return the canonical sign of each measure, from all evaluations out of distribution."""
    rows = _known_rows(table)
    signs = []
    for x in values:
        try:
            signs.append(canonical_sign(x[rows], 1.0 - table.accuracy[rows]).value)
        except NotApplicable:
            signs.append(1)
    return np.array(signs, dtype=np.float64)


def _mean_over_tasks(
    table: EvaluationTable, groups: RowGroups, by_group: Floats, weights: Floats
) -> Floats:
    """Average groups by task, and then tasks that have a value; all tasks count the same."""
    cells = table.columns.get("task", ("",) * len(table))
    tasks = np.array([cells[rows[0]] for rows in groups])
    by_task = [
        _mean_over_groups(by_group[tasks == t], weights[tasks == t]) for t in np.unique(tasks)
    ]
    stacked = np.stack(by_task)
    return _mean_over_groups(stacked, np.ones((len(by_task), by_group.shape[2])))


def _joint_values(table: EvaluationTable, values: Floats, draws: Resamples) -> StatisticValues:
    """Return Spearman's ρ between measure and error over all evaluations pooled."""
    rows = np.flatnonzero(_known_rows(table))
    weights = draws.of_rows(table, rows) * draws.of_domains(table.tested_on[rows])
    error = 1.0 - table.accuracy[rows]
    means = np.stack([_known_spearman(x, error, weights) for x in values[:, rows]])
    return StatisticValues(means * _signs(table, values)[:, None], rows, 1)


def _estimation_errors(table: EvaluationTable, values: Floats, draws: Resamples) -> StatisticValues:
    """Return the mean absolute error of estimates over all evaluations, in points."""
    rows = np.flatnonzero(_known_rows(table))
    weights = draws.of_rows(table, rows) * draws.of_domains(table.tested_on[rows])
    errors = 100.0 * np.abs(values[:, rows] - table.accuracy[rows])
    known = ~np.isnan(errors)
    count = known.astype(np.float64) @ weights
    total = np.where(known, errors, 0.0) @ weights
    means = np.divide(total, count, out=np.full_like(total, np.nan), where=count > 0)
    return StatisticValues(means, rows, 1)


def _siegel_gaps(table: EvaluationTable, values: Floats, draws: Resamples) -> StatisticValues:
    """Return the mean distance of Siegel's line through the test domains from y = x, in points."""
    known = _known_rows(table)
    domains = np.unique(table.tested_on[known])
    weights = draws.of_domains(domains)
    result = np.full((len(values), draws.replicates), np.nan)
    for m, x in enumerate(values):
        truth, estimate = (
            np.stack([
                _domain_mean(side, np.flatnonzero(known & ~np.isnan(x) & (table.tested_on == o)),
                             table, draws)
                for o in domains
            ])
            for side in (table.accuracy, x)
        )  # fmt: skip
        for r in range(draws.replicates):
            used = np.repeat(np.arange(len(domains)), weights[:, r].astype(np.int64))
            used = used[~np.isnan(truth[used, r])]
            result[m, r] = _line_gap(truth[used, r], estimate[used, r])
    return StatisticValues(result, np.flatnonzero(known), len(domains))


def _domain_mean(side: Floats, rows: Ints, table: EvaluationTable, draws: Resamples) -> Floats:
    weights = draws.of_rows(table, rows)
    total = weights.sum(axis=0)
    sums = side[rows] @ weights
    return np.asarray(np.divide(sums, total, out=np.full_like(sums, np.nan), where=total > 0))


def _line_gap(truth: Floats, estimate: Floats) -> float:
    if len(np.unique(truth)) < 3:
        return np.nan
    line = repeated_median_line(truth, estimate)
    return float(100.0 * np.abs(line.intercept + (line.slope - 1.0) * truth).mean())


_RANK_FUNCTIONS: Mapping[str, Callable[[EvaluationTable, Floats, Resamples], StatisticValues]] = {
    "rho": partial(_error_correlation, key_columns=("tested_on",), signed=True),
    "joint_rho": _joint_values,
    "pair_rho": partial(_error_correlation, key_columns=("trained_on", "tested_on"), signed=False),
    "adjusted_rho": _adjusted_values,
    "estimation_error": _estimation_errors,
    "siegel_gap": _siegel_gaps,
}
