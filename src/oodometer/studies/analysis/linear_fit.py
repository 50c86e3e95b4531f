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

from oodometer.core.softmax_kernels import Bools, Floats, Ints
from oodometer.studies.analysis import grouped_scores
from oodometer.studies.analysis.evaluation_table import Table
from oodometer.studies.analysis.grouped_scores import Groups, Scores
from oodometer.studies.analysis.kendall_family import PAIR

RULES = ("other training domains", "other architectures", "leave one model out")
FITTED, DIRECT = ("r2", "r2_pearson", "mae"), ("raw_r2", "raw_mae")


class Found(NamedTuple):
    """Values of every measure (first axis), and why a measure has none."""

    values: Floats
    reasons: Ints


@dataclass(frozen=True, eq=False)
class Group:
    """Models of known accuracy: measures (m, n), accuracies (n,), predictions of a line (m, n)."""

    x: Floats
    y: Floats
    predicted: Found
    rule: str


def lines(table: Table, *, direct: Sequence[str] = ()) -> tuple[Scores, ...]:
    """R2, r2_pearson and MAE of every measure in every group; raw ones of direct estimates.

    >>> table = Table.read({"model": ["k", "l", "m", "n"], "trained_on": ["a"] * 4,
    ...                     "tested_on": ["b"] * 4, "accuracy": [0.6, 0.7, 0.8, 0.9],
    ...                     "ni": [1, 2, 3, 4]})
    >>> r2 = lines(table)[0]
    >>> r2.values.round(9).tolist(), r2.rules
    ([[1.0]], ('leave one model out',))
    """
    made = Groups.of(table, PAIR, ~table.own)
    names = np.array(list(table.measures), dtype=np.str_)
    parts = list(_groups(table, made))
    n = _by_group([_known(part.x).sum(axis=1) for part in parts], len(names))
    rules = tuple(part.rule for part in parts)
    raw = np.isin(names, list(direct))
    found = [_statistics(part, raw) for part in parts]
    scored = []
    for statistic in (*FITTED, *(DIRECT if raw.any() else ())):
        mine = raw if statistic in DIRECT else np.ones(len(names), dtype=np.bool_)
        values = _by_group([one[statistic].values for one in found], len(names))
        reasons = _by_group([one[statistic].reasons for one in found], len(names))
        used = rules if statistic in ("r2", "mae") else ()
        scored.append(
            Scores(statistic, tuple(names[mine].tolist()), made, n[mine],
                   values[mine], reasons[mine].astype(np.int64), used)
        )  # fmt: skip
    return tuple(scored)


def _by_group(columns: list[Any], measures: int) -> Any:
    return np.array(columns).reshape(len(columns), measures).T


def _known(x: Floats) -> Bools:
    return ~np.isnan(x)


def _groups(table: Table, made: Groups) -> Iterator[Group]:
    """Every group with what the line fitted for it predicts."""
    values = np.array(list(table.measures.values())).reshape(len(table.measures), len(table))
    usable = ~table.own & ~np.isnan(table.accuracy)
    tested = [np.flatnonzero(usable & (table.tested_on == o)) for o in range(len(table.domains))]
    apart = ~(table.includes @ table.includes.T)
    for kind, training, domain in zip(*(made.keys[name] for name in PAIR), strict=True):
        rows = tested[domain]
        own = table.architecture[rows] == kind
        mine = rows[own & (table.trained_on[rows] == training)]
        others = rows[own & apart[training, table.trained_on[rows]]]
        x, y = values[:, mine], table.accuracy[mine]
        rule, pool = _pool(others, rows[~own])
        if pool is None:
            yield Group(x, y, _left_one_out(x, y), rule)
        else:
            yield Group(x, y, _fitted(x, values[:, pool], table.accuracy[pool]), rule)


def _pool(*pools: Ints) -> tuple[str, Ints | None]:
    """The first pool that a line can be fitted to, and the rule that it is; None for no pool."""
    fit = [len(pool) > 1 for pool in pools]
    return (RULES[fit.index(True)], pools[fit.index(True)]) if any(fit) else (RULES[-1], None)


class Centred(NamedTuple):
    """Pairs about their means, 0 where a measure has no answer; x in units of its farthest."""

    n: Ints
    x: Floats
    y: Floats
    mean_x: Floats
    mean_y: Floats
    unit: Floats


def _centred(x: Floats, y: Floats) -> Centred:
    """Deviations; the unit, without which squares may overflow, is 0 where x is constant."""
    known = _known(x)
    n = known.sum(axis=1)
    share = 1.0 / np.maximum(n, 1)[:, None]
    mean_x = np.where(known, x, 0.0).sum(axis=1, keepdims=True) * share
    mean_y = np.where(known, y, 0.0).sum(axis=1, keepdims=True) * share
    off_x, off_y = np.where(known, x - mean_x, 0.0), np.where(known, y - mean_y, 0.0)
    # The mean of equal numbers may be off by rounding, so deviations alone don't tell.
    unit = np.where(_constant(x, known), 0.0, np.abs(off_x).max(axis=1, initial=0.0))[:, None]
    off_x = np.divide(off_x, unit, out=np.zeros_like(off_x), where=unit > 0)
    return Centred(n, off_x, off_y, mean_x, mean_y, unit)


def _constant(values: Floats, known: Bools) -> Bools:
    low = np.where(known, values, np.inf).min(axis=1, initial=np.inf)
    high = np.where(known, values, -np.inf).max(axis=1, initial=-np.inf)
    return np.asarray(low >= high)


def _fitted(x: Floats, pool_x: Floats, pool_y: Floats) -> Found:
    """What the least-squares line through the pool predicts at x."""
    pool = _centred(pool_x, pool_y)
    flat = pool.unit[:, 0] == 0
    square = np.where(flat, 1.0, (pool.x**2).sum(axis=1))
    slope = ((pool.x * pool.y).sum(axis=1) / square)[:, None]
    at = np.divide(x - pool.mean_x, pool.unit, out=np.zeros_like(x), where=pool.unit > 0)
    reasons = np.select(
        [pool.n < 2, flat],
        [grouped_scores.NO_POOL, grouped_scores.FLAT_POOL],
        grouped_scores.ANSWERED,
    )
    return Found(pool.mean_y + slope * at, reasons)


def _left_one_out(x: Floats, y: Floats) -> Found:
    """What the line through all others predicts at each x: sums about the mean, less one row."""
    all_of = _centred(x, y)
    enough = all_of.n > 2
    n = np.where(enough, all_of.n, 2)[:, None]
    grown = n / (n - 1.0)
    square = (all_of.x**2).sum(axis=1, keepdims=True) - grown * all_of.x**2
    product = (all_of.x * all_of.y).sum(axis=1, keepdims=True) - grown * all_of.x * all_of.y
    slope = np.divide(product, square, out=np.zeros_like(square), where=square > 0)
    values = all_of.mean_y - all_of.y / (n - 1.0) + slope * grown * all_of.x
    flat = _flat_without_one(x, all_of.n)
    reasons = np.select(
        [~enough, flat], [grouped_scores.NO_POOL, grouped_scores.FLAT_POOL], grouped_scores.ANSWERED
    )
    return Found(values, reasons)


def _flat_without_one(x: Floats, n: Ints) -> Bools:
    """Whether all but one of the values, or all, are equal."""
    if x.shape[1] < 3:
        return np.ones(len(x), dtype=np.bool_)
    rising, rows = np.sort(x, axis=1), np.arange(len(x))  # NaN comes last
    last = np.maximum(n, 3) - 1
    without_last = rising[:, 0] == rising[rows, last - 1]
    return np.asarray(without_last | (rising[:, 1] == rising[rows, last]))


def _statistics(group: Group, raw: Bools) -> dict[str, Found]:
    """All statistics of a group, raw ones of the marked; the first of the reasons that hold."""
    known, about = _known(group.x), _centred(group.x, group.y)
    few, same = about.n < 2, _constant(np.broadcast_to(group.y, known.shape), known)
    flat = about.unit[:, 0] == 0
    total = np.where(few | same, 1.0, (about.y**2).sum(axis=1))
    spread = np.where(flat, 1.0, (about.x**2).sum(axis=1))
    squared = (about.x * about.y).sum(axis=1) ** 2 / (spread * total)
    undefined, why = [few, same], [grouped_scores.FEW, grouped_scores.SAME_ACCURACY]
    alike = np.where(flat, grouped_scores.SAME_MEASURE, grouped_scores.ANSWERED)
    found = {"r2_pearson": _found(np.minimum(squared, 1.0), np.select(undefined, why, alike))}
    as_is = Found(np.where(raw[:, None], group.x, 0.0), np.zeros_like(about.n))
    for prefix, (predicted, lack) in (("", group.predicted), ("raw_", as_is)):
        off = np.where(known, predicted - group.y, 0.0)
        r2 = 1.0 - (off**2).sum(axis=1) / total
        mae = 100.0 * np.abs(off).sum(axis=1) / np.maximum(about.n, 1)
        found[f"{prefix}r2"] = _found(r2, np.select(undefined, why, lack))
        found[f"{prefix}mae"] = _found(mae, np.where(about.n < 1, grouped_scores.NONE, lack))
    return found


def _found(values: Floats, reasons: Ints) -> Found:
    return Found(np.where(reasons == grouped_scores.ANSWERED, values, np.nan), reasons)
