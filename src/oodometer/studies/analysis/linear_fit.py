"""How well a line from a measure predicts accuracy (Ng et al. 2023, §4.3).

For models of architecture A trained on i and tested on o: the line a·μ + b is fitted by least
squares to other models tested on o, and `r2` = 1 − SS_res/SS_tot (which can be negative) and `mae`
(in points) are those of its predictions. Never fitted to is a model trained on o. The models are

1. "other training domains": those of A trained on none of the domains of i;
2. "other architectures": where these are fewer than two, those of all other architectures;
3. "leave one model out": where these are too, all others of the group, for each model anew.

The choice is by the models in the table, so that it is the same for all measures. `r2_pearson` is
the squared correlation of measure and accuracy in the group, which is that of the predictions of
any line. For a direct estimate of accuracy, `raw_r2` and `raw_mae` take it as it is.
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
    """Values of every measure (first axis), and why a measure has none."""

    values: Floats
    reasons: Ints


@dataclass(frozen=True, eq=False)
class LineFitGroup:
    """Models of known accuracy: measures (m, n), accuracies (n,), predictions of a line (m, n)."""

    x: Floats
    y: Floats
    predicted: LineFitValues
    rule: str


def line_fit_scores(
    table: EvaluationTable, *, methods: Sequence[str] = ()
) -> tuple[GroupedScores, ...]:
    """R2, r2_pearson and MAE of every measure in every group; raw ones of direct estimates.

    >>> table = EvaluationTable.read({"model": ["k", "l", "m", "n"], "trained_on": ["a"] * 4,
    ...                     "tested_on": ["b"] * 4, "accuracy": [0.6, 0.7, 0.8, 0.9],
    ...                     "ni": [1, 2, 3, 4]})
    >>> r2 = line_fit_scores(table)[0]
    >>> r2.values.round(9).tolist(), r2.rules
    ([[1.0]], ('leave one model out',))
    """
    made = RowGroups.from_columns(table, PAIR_COLUMNS, ~table.in_distribution)
    names = np.array(list(table.measures), dtype=np.str_)
    parts = list(_predict_groups(table, made))
    n = _stack_groups([_is_known(part.x).sum(axis=1) for part in parts], len(names))
    rules = tuple(part.rule for part in parts)
    raw = np.isin(names, list(methods))
    found = [_group_statistics(part, raw) for part in parts]
    scored = []
    for statistic in (*FITTED_STATISTICS, *(RAW_STATISTICS if raw.any() else ())):
        mine = raw if statistic in RAW_STATISTICS else np.ones(len(names), dtype=np.bool_)
        values = _stack_groups([one[statistic].values for one in found], len(names))
        reasons = _stack_groups([one[statistic].reasons for one in found], len(names))
        used = rules if statistic in ("r2", "mae") else ()
        scored.append(
            GroupedScores(statistic, tuple(names[mine].tolist()), made, n[mine],
                   values[mine], reasons[mine].astype(np.int64), used)
        )  # fmt: skip
    return tuple(scored)


def _stack_groups(columns: list[Any], n_measures: int) -> Any:
    return np.array(columns).reshape(len(columns), n_measures).T


def _is_known(x: Floats) -> Bools:
    return ~np.isnan(x)


def _predict_groups(table: EvaluationTable, groups: RowGroups) -> Iterator[LineFitGroup]:
    """Every group with what the line fitted for it predicts."""
    values = np.array(list(table.measures.values())).reshape(len(table.measures), len(table))
    usable = ~table.in_distribution & ~np.isnan(table.accuracy)
    tested = [np.flatnonzero(usable & (table.tested_on == o)) for o in range(len(table.domains))]
    apart = ~(table.domain_in_training @ table.domain_in_training.T)
    for kind, training, domain in zip(*(groups.keys[name] for name in PAIR_COLUMNS), strict=True):
        rows = tested[domain]
        own = table.architecture[rows] == kind
        mine = rows[own & (table.trained_on[rows] == training)]
        others = rows[own & apart[training, table.trained_on[rows]]]
        x, y = values[:, mine], table.accuracy[mine]
        rule, pool = _choose_pool(others, rows[~own])
        if pool is None:
            yield LineFitGroup(x, y, _predict_leave_one_out(x, y), rule)
        else:
            yield LineFitGroup(
                x, y, _predict_from_pool(x, values[:, pool], table.accuracy[pool]), rule
            )


def _choose_pool(*pools: Ints) -> tuple[str, Ints | None]:
    """The first pool that a line can be fitted to, and the rule that it is; None for no pool."""
    fit = [len(pool) > 1 for pool in pools]
    return (
        (FIT_RULES[fit.index(True)], pools[fit.index(True)]) if any(fit) else (FIT_RULES[-1], None)
    )


class CenteredPairs(NamedTuple):
    """Pairs about their means, 0 where a measure has no answer; x in units of its farthest."""

    n: Ints
    x: Floats
    y: Floats
    mean_x: Floats
    mean_y: Floats
    unit: Floats


def _center(x: Floats, y: Floats) -> CenteredPairs:
    """Deviations; the unit, without which squares may overflow, is 0 where x is constant."""
    known = _is_known(x)
    n = known.sum(axis=1)
    share = 1.0 / np.maximum(n, 1)[:, None]
    mean_x = np.where(known, x, 0.0).sum(axis=1, keepdims=True) * share
    mean_y = np.where(known, y, 0.0).sum(axis=1, keepdims=True) * share
    off_x, off_y = np.where(known, x - mean_x, 0.0), np.where(known, y - mean_y, 0.0)
    # The mean of equal numbers may be off by rounding, so deviations alone don't tell.
    unit = np.where(_is_constant(x, known), 0.0, np.abs(off_x).max(axis=1, initial=0.0))[:, None]
    off_x = np.divide(off_x, unit, out=np.zeros_like(off_x), where=unit > 0)
    return CenteredPairs(n, off_x, off_y, mean_x, mean_y, unit)


def _is_constant(values: Floats, known: Bools) -> Bools:
    low = np.where(known, values, np.inf).min(axis=1, initial=np.inf)
    high = np.where(known, values, -np.inf).max(axis=1, initial=-np.inf)
    return np.asarray(low >= high)


def _predict_from_pool(x: Floats, pool_x: Floats, pool_y: Floats) -> LineFitValues:
    """What the least-squares line through the pool predicts at x."""
    pool = _center(pool_x, pool_y)
    flat = pool.unit[:, 0] == 0
    square = np.where(flat, 1.0, (pool.x**2).sum(axis=1))
    slope = ((pool.x * pool.y).sum(axis=1) / square)[:, None]
    at = np.divide(x - pool.mean_x, pool.unit, out=np.zeros_like(x), where=pool.unit > 0)
    reasons = np.select(
        [pool.n < 2, flat],
        [grouped_scores.TOO_FEW_TO_FIT, grouped_scores.CONSTANT_FIT_VALUES],
        grouped_scores.HAS_VALUE,
    )
    return LineFitValues(pool.mean_y + slope * at, reasons)


def _predict_leave_one_out(x: Floats, y: Floats) -> LineFitValues:
    """What the line through all others predicts at each x: sums about the mean, less one row."""
    all_of = _center(x, y)
    enough = all_of.n > 2
    n = np.where(enough, all_of.n, 2)[:, None]
    grown = n / (n - 1.0)
    square = (all_of.x**2).sum(axis=1, keepdims=True) - grown * all_of.x**2
    product = (all_of.x * all_of.y).sum(axis=1, keepdims=True) - grown * all_of.x * all_of.y
    slope = np.divide(product, square, out=np.zeros_like(square), where=square > 0)
    values = all_of.mean_y - all_of.y / (n - 1.0) + slope * grown * all_of.x
    flat = _is_flat_without_one(x, all_of.n)
    reasons = np.select(
        [~enough, flat],
        [grouped_scores.TOO_FEW_TO_FIT, grouped_scores.CONSTANT_FIT_VALUES],
        grouped_scores.HAS_VALUE,
    )
    return LineFitValues(values, reasons)


def _is_flat_without_one(x: Floats, n: Ints) -> Bools:
    """Whether all but one of the values, or all, are equal."""
    if x.shape[1] < 3:
        return np.ones(len(x), dtype=np.bool_)
    rising, rows = np.sort(x, axis=1), np.arange(len(x))  # NaN comes last
    last = np.maximum(n, 3) - 1
    without_last = rising[:, 0] == rising[rows, last - 1]
    return np.asarray(without_last | (rising[:, 1] == rising[rows, last]))


def _group_statistics(group: LineFitGroup, raw: Bools) -> dict[str, LineFitValues]:
    """All statistics of a group, raw ones of the marked; the first of the reasons that hold."""
    known, about = _is_known(group.x), _center(group.x, group.y)
    few, same = about.n < 2, _is_constant(np.broadcast_to(group.y, known.shape), known)
    flat = about.unit[:, 0] == 0
    total = np.where(few | same, 1.0, (about.y**2).sum(axis=1))
    spread = np.where(flat, 1.0, (about.x**2).sum(axis=1))
    squared = (about.x * about.y).sum(axis=1) ** 2 / (spread * total)
    undefined, why = [few, same], [grouped_scores.TOO_FEW_VALUES, grouped_scores.CONSTANT_ACCURACY]
    alike = np.where(flat, grouped_scores.CONSTANT_MEASURE, grouped_scores.HAS_VALUE)
    found = {
        "r2_pearson": _mask_missing(np.minimum(squared, 1.0), np.select(undefined, why, alike))
    }
    as_is = LineFitValues(np.where(raw[:, None], group.x, 0.0), np.zeros_like(about.n))
    for prefix, (predicted, lack) in (("", group.predicted), ("raw_", as_is)):
        off = np.where(known, predicted - group.y, 0.0)
        r2 = 1.0 - (off**2).sum(axis=1) / total
        mae = 100.0 * np.abs(off).sum(axis=1) / np.maximum(about.n, 1)
        found[f"{prefix}r2"] = _mask_missing(r2, np.select(undefined, why, lack))
        found[f"{prefix}mae"] = _mask_missing(
            mae, np.where(about.n < 1, grouped_scores.NO_VALUES, lack)
        )
    return found


def _mask_missing(values: Floats, reasons: Ints) -> LineFitValues:
    return LineFitValues(np.where(reasons == grouped_scores.HAS_VALUE, values, np.nan), reasons)
