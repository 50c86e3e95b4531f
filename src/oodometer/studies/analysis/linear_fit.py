"""Predict accuracy from a measure by a fitted line: R² and MAE (Ng et al., 2023, §4.3).

A group consists of the models of architecture A that were trained on the domains i and are tested
on the domain o. For each group, the line a·μ + b, with μ the value of the measure, is fitted by
least squares to other models tested on o. `r2` = 1 − SS_res/SS_tot (which can be negative) and
`mae` (in points) score the accuracies that the line predicts for the group. Models trained on o are
never used for the fit. The line is fitted to the first of these sets that has at least two models:

1. "other training domains": models of A that were trained on none of the domains i;
2. "other architectures": models of all other architectures;
3. "leave one model out": the line for each model of the group is fitted to its other models.

The choice of the set depends only on the models in the table, so it is the same for all measures.
`r2_pearson` is the squared correlation of measure and accuracy in the group; the predictions of any
line have the same squared correlation. `raw_r2` and `raw_mae` score measures that are estimates of
accuracy, without a fit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from oodometer.core.array_types import Bools, Floats, Ints
from oodometer.studies.analysis import grouped_scores
from oodometer.studies.analysis.evaluation_table import EvaluationTable
from oodometer.studies.analysis.grouped_scores import GroupedScores, RowGroups
from oodometer.studies.analysis.kendall_family import PAIR_COLUMNS

FIT_RULES = ("other training domains", "other architectures", "leave one model out")
FITTED_STATISTICS, RAW_STATISTICS = ("r2", "r2_pearson", "mae"), ("raw_r2", "raw_mae")


class LineFitValues(NamedTuple):
    """Statistics of line fits, one entry per measure (first axis), and reasons for missing values."""

    values: Floats
    reasons: Ints


@dataclass(frozen=True, eq=False)
class LineFitGroup:
    """Models of one group: measures (m, n), accuracies (n,) and predicted accuracies (m, n)."""

    x: Floats
    y: Floats
    predicted: LineFitValues
    rule: str


def line_fit_scores(
    table: EvaluationTable, *, methods: Sequence[str] = ()
) -> tuple[GroupedScores, ...]:
    """Return R2, r2_pearson and MAE per measure and group, and also raw R2 and MAE of `methods`.

    >>> table = EvaluationTable.read({"model": ["k", "l", "m", "n"], "trained_on": ["a"] * 4,
    ...     "tested_on": ["b"] * 4, "accuracy": [0.6, 0.7, 0.8, 0.9], "ni": [1, 2, 3, 4]})
    >>> r2 = line_fit_scores(table)[0]
    >>> r2.values.round(9).tolist(), r2.rules
    ([[1.0]], ('leave one model out',))
    """
    groups = RowGroups.from_columns(table, PAIR_COLUMNS, ~table.in_distribution)
    names = np.array(list(table.measures), dtype=np.str_)
    predicted_groups = list(_predict_groups(table, groups))
    n = _stack_groups([(~np.isnan(group.x)).sum(axis=1) for group in predicted_groups], len(names))
    rules = tuple(group.rule for group in predicted_groups)
    raw = np.isin(names, list(methods))
    statistics = [_group_statistics(group, raw) for group in predicted_groups]
    scores = []
    for statistic in (*FITTED_STATISTICS, *(RAW_STATISTICS if raw.any() else ())):
        used = raw if statistic in RAW_STATISTICS else np.ones(len(names), dtype=np.bool_)
        values = _stack_groups([group[statistic].values for group in statistics], len(names))
        reasons = _stack_groups([group[statistic].reasons for group in statistics], len(names))
        scores.append(
            GroupedScores(
                statistic=statistic,
                measures=tuple(names[used].tolist()),
                groups=groups,
                n=n[used],
                values=values[used],
                reasons=reasons[used].astype(np.int64),
                rules=rules if statistic in ("r2", "mae") else (),
            )
        )
    return tuple(scores)


def _stack_groups(columns: list[Any], n_measures: int) -> Any:
    return np.array(columns).reshape(len(columns), n_measures).T


def _predict_groups(table: EvaluationTable, groups: RowGroups) -> Iterator[LineFitGroup]:
    """Yield every group with the predictions of the line fitted for it."""
    values = np.array(list(table.measures.values())).reshape(len(table.measures), len(table))
    usable = ~table.in_distribution & ~np.isnan(table.accuracy)
    tested = [np.flatnonzero(usable & (table.tested_on == o)) for o in range(len(table.domains))]
    disjoint = ~(table.domain_in_training @ table.domain_in_training.T)
    for kind, training, domain in zip(*(groups.keys[name] for name in PAIR_COLUMNS), strict=True):
        rows = tested[domain]
        same_architecture = table.architecture[rows] == kind
        group_rows = rows[same_architecture & (table.trained_on[rows] == training)]
        other_trainings = rows[same_architecture & disjoint[training, table.trained_on[rows]]]
        x = values[:, group_rows]
        y = table.accuracy[group_rows]
        pools = (other_trainings, rows[~same_architecture])
        choice = next((j for j, pool in enumerate(pools) if len(pool) > 1), None)
        if choice is None:
            yield LineFitGroup(x, y, _predict_leave_one_out(x, y), FIT_RULES[-1])
        else:
            pool = pools[choice]
            predicted = _predict_from_pool(x, values[:, pool], table.accuracy[pool])
            yield LineFitGroup(x, y, predicted, FIT_RULES[choice])


class CenteredPairs(NamedTuple):
    """Deviations of x and y from their means; 0 where x is missing.

    The deviations of x are divided by `unit`.
    """

    n: Ints
    x: Floats
    y: Floats
    mean_x: Floats
    mean_y: Floats
    unit: Floats


def _center(x: Floats, y: Floats) -> CenteredPairs:
    """Center x and y, and divide x by its largest deviation, `unit`, which is 0 if x is constant."""
    known = ~np.isnan(x)
    n = known.sum(axis=1)
    share = 1.0 / np.maximum(n, 1)[:, None]
    mean_x = np.where(known, x, 0.0).sum(axis=1, keepdims=True) * share
    mean_y = np.where(known, y, 0.0).sum(axis=1, keepdims=True) * share
    centered_x = np.where(known, x - mean_x, 0.0)
    centered_y = np.where(known, y - mean_y, 0.0)
    # The computed mean of equal numbers may differ from them by a rounding error, so constant x is
    # detected separately. Without division by the unit, squares may overflow.
    largest = np.abs(centered_x).max(axis=1, initial=0.0)
    unit = np.where(_is_constant(x, known), 0.0, largest)[:, None]
    scaled_x = np.divide(centered_x, unit, out=np.zeros_like(centered_x), where=unit > 0)
    return CenteredPairs(n=n, x=scaled_x, y=centered_y, mean_x=mean_x, mean_y=mean_y, unit=unit)


def _is_constant(values: Floats, known: Bools) -> Bools:
    low = np.where(known, values, np.inf).min(axis=1, initial=np.inf)
    high = np.where(known, values, -np.inf).max(axis=1, initial=-np.inf)
    return np.asarray(low >= high)


def _predict_from_pool(x: Floats, pool_x: Floats, pool_y: Floats) -> LineFitValues:
    """Predict accuracies at x by the least-squares line through `pool_x` and `pool_y`."""
    pool = _center(pool_x, pool_y)
    flat = pool.unit[:, 0] == 0
    square = np.where(flat, 1.0, (pool.x**2).sum(axis=1))
    slope = ((pool.x * pool.y).sum(axis=1) / square)[:, None]
    scaled = np.divide(x - pool.mean_x, pool.unit, out=np.zeros_like(x), where=pool.unit > 0)
    reasons = np.select(
        [pool.n < 2, flat],
        [grouped_scores.TOO_FEW_TO_FIT, grouped_scores.CONSTANT_FIT_VALUES],
        grouped_scores.HAS_VALUE,
    )
    return LineFitValues(pool.mean_y + slope * scaled, reasons)


def _predict_leave_one_out(x: Floats, y: Floats) -> LineFitValues:
    """Predict accuracies at each x by the least-squares line through all other points."""
    centered = _center(x, y)
    enough = centered.n > 2
    n = np.where(enough, centered.n, 2)[:, None]
    factor = n / (n - 1.0)
    square = (centered.x**2).sum(axis=1, keepdims=True) - factor * centered.x**2
    product = (centered.x * centered.y).sum(axis=1, keepdims=True)
    product = product - factor * centered.x * centered.y
    slope = np.divide(product, square, out=np.zeros_like(square), where=square > 0)
    values = centered.mean_y - centered.y / (n - 1.0) + slope * factor * centered.x
    flat = _is_flat_without_one(x, centered.n)
    reasons = np.select(
        [~enough, flat],
        [grouped_scores.TOO_FEW_TO_FIT, grouped_scores.CONSTANT_FIT_VALUES],
        grouped_scores.HAS_VALUE,
    )
    return LineFitValues(values, reasons)


def _is_flat_without_one(x: Floats, n: Ints) -> Bools:
    """Return whether all n values, or all but one of them, are equal."""
    if x.shape[1] < 3:
        return np.ones(len(x), dtype=np.bool_)
    ordered = np.sort(x, axis=1)  # NaN comes last
    rows = np.arange(len(x))
    last = np.maximum(n, 3) - 1
    without_last = ordered[:, 0] == ordered[rows, last - 1]
    return np.asarray(without_last | (ordered[:, 1] == ordered[rows, last]))


def _group_statistics(group: LineFitGroup, raw: Bools) -> dict[str, LineFitValues]:
    """Return all statistics of a group; raw statistics only for the measures selected by `raw`."""
    known = ~np.isnan(group.x)
    centered = _center(group.x, group.y)
    too_few = centered.n < 2
    constant_y = _is_constant(np.broadcast_to(group.y, known.shape), known)
    constant_x = centered.unit[:, 0] == 0
    total = np.where(too_few | constant_y, 1.0, (centered.y**2).sum(axis=1))
    x_square = np.where(constant_x, 1.0, (centered.x**2).sum(axis=1))
    r2_pearson = (centered.x * centered.y).sum(axis=1) ** 2 / (x_square * total)
    undefined = [too_few, constant_y]
    codes = [grouped_scores.TOO_FEW_VALUES, grouped_scores.CONSTANT_ACCURACY]
    otherwise = np.where(constant_x, grouped_scores.CONSTANT_MEASURE, grouped_scores.HAS_VALUE)
    statistics = {
        "r2_pearson": _mask_missing(
            np.minimum(r2_pearson, 1.0), np.select(undefined, codes, otherwise)
        )
    }
    unfitted = LineFitValues(np.where(raw[:, None], group.x, 0.0), np.zeros_like(centered.n))
    for prefix, (predicted, reasons) in (("", group.predicted), ("raw_", unfitted)):
        residual = np.where(known, predicted - group.y, 0.0)
        r2 = 1.0 - (residual**2).sum(axis=1) / total
        mae = 100.0 * np.abs(residual).sum(axis=1) / np.maximum(centered.n, 1)
        statistics[f"{prefix}r2"] = _mask_missing(r2, np.select(undefined, codes, reasons))
        statistics[f"{prefix}mae"] = _mask_missing(
            mae, np.where(centered.n < 1, grouped_scores.NO_VALUES, reasons)
        )
    return statistics


def _mask_missing(values: Floats, reasons: Ints) -> LineFitValues:
    return LineFitValues(np.where(reasons == grouped_scores.HAS_VALUE, values, np.nan), reasons)
