"""Small random tables of evaluations, and the statistics of Ng et al. (2023) as naive loops."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from oodometer.studies.analysis.evaluation_table import EvaluationTable

Row = dict[str, Any]
Key = tuple[Any, ...]
# Value or None, reason for None, number of values, rule of the line or None.
Answer = tuple[float | None, str | None, int, str | None]


def random_columns(seed: int) -> dict[str, list[Any]]:
    """Return up to three architectures and five domains with ties, gaps and undefined groups."""
    rng = np.random.default_rng(seed)
    domains = [f"d{j}" for j in range(rng.integers(2, 6))]
    rows: list[Row] = []
    for kind in range(rng.integers(1, 4)):
        for training in range(rng.integers(1, 5)):
            share = rng.choice(domains, size=rng.choice([1, 1, 1, 2]), replace=False)
            for copy in range(rng.integers(1, 6)):
                model, there = f"{kind}-{training}-{copy}", rng.random(len(domains)) < 0.9
                rows += [_row(rng, kind, model, share, one) for one in np.array(domains)[there]]
    if not rows:
        return random_columns(seed + 1_000_003)
    return {name: [row[name] for row in rows] for name in rows[0]}


def _row(rng: Any, kind: int, model: str, share: Sequence[str], tested: str) -> Row:
    accuracy = round(float(rng.random()), 1)
    return {
        "model": model,
        "architecture": f"k{kind}",
        "trained_on": " + ".join(share),
        "tested_on": str(tested),
        "accuracy": accuracy if rng.random() < 0.95 else math.nan,
        "near": round(accuracy + float(rng.normal(0, 0.2)), 1) if rng.random() < 0.9 else math.nan,
        "coarse": float(rng.integers(0, 2)),
        "doc": float(rng.random()),
        "nothing": math.nan,
    }


def rows_of(table: EvaluationTable) -> list[Row]:
    """Return the table as a list of dictionaries."""
    return [
        {
            "model": table.models[table.model[r]],
            "architecture": table.architectures[table.architecture[r]],
            "trained_on": table.training(table.trained_on[r]),
            "share": set(table.trainings[table.trained_on[r]]),
            "tested_on": table.domains[table.tested_on[r]],
            "accuracy": float(table.accuracy[r]),
            **{name: float(values[r]) for name, values in table.measures.items()},
        }
        for r in range(len(table))
    ]


def is_in_distribution(row: Row) -> bool:
    return row["tested_on"] in row["share"]


def loop_tau(x: Sequence[float], y: Sequence[float]) -> tuple[float | None, str | None]:
    """Return τ-b by a loop over all pairs, or the reason why it is undefined."""
    if len(x) < 2:
        return None, "fewer than two values"
    surplus = untied_x = untied_y = 0
    for i in range(len(x)):
        for j in range(i):
            a, b = (x[i] > x[j]) - (x[i] < x[j]), (y[i] > y[j]) - (y[i] < y[j])
            surplus, untied_x, untied_y = surplus + a * b, untied_x + a * a, untied_y + b * b
    if not untied_y:
        return None, "all accuracies equal"
    if not untied_x:
        return None, "all values of the measure equal"
    return surplus / math.sqrt(untied_x * untied_y), None


def loop_line(pool: Sequence[tuple[float, float]]) -> Callable[[float], float]:
    """Return the least-squares line."""
    n = len(pool)
    mean_x, mean_y = sum(x for x, _ in pool) / n, sum(y for _, y in pool) / n
    square = sum((x - mean_x) ** 2 for x, _ in pool)
    slope = sum((x - mean_x) * (y - mean_y) for x, y in pool) / square
    return lambda x: mean_y + slope * (x - mean_x)


def fit_problem(pool: Sequence[tuple[float, float]]) -> str | None:
    if len(pool) < 2:
        return "fewer than two models to fit the line to"
    if len({x for x, _ in pool}) < 2:
        return "all values equal where the line is fitted"
    return None


def complete_pairs(rows: Sequence[Row], measure: str) -> list[tuple[float, float]]:
    """Return measure and accuracy of the rows that have both."""
    both = [(row[measure], row["accuracy"]) for row in rows]
    return [(x, y) for x, y in both if not (math.isnan(x) or math.isnan(y))]


TAUS = {
    "id_tau": (("architecture", "trained_on", "tested_on"), True),
    "macro_tau": (("architecture", "trained_on", "tested_on"), False),
    "micro_tau": (("architecture", "tested_on"), False),
    "arch_tau": (("tested_on",), False),
    "cross_domain_tau": (("architecture", "model"), False),
}
NAMES = ("architecture", "trained_on", "tested_on", "model")


def by_key(rows: Sequence[Row], by: Sequence[str], own: bool) -> dict[Key, list[Row]]:
    found = defaultdict(list)
    for row in rows:
        if is_in_distribution(row) == own:
            found[tuple(row[name] if name in by else None for name in NAMES)].append(row)
    return found


def loop_taus(table: EvaluationTable) -> dict[Key, Answer]:
    rows = rows_of(table)
    found: dict[Key, Answer] = {}
    for statistic, (by, own) in TAUS.items():
        for key, mine in by_key(rows, by, own).items():
            for measure in table.measures:
                pairs = complete_pairs(mine, measure)
                value, reason = loop_tau([x for x, _ in pairs], [y for _, y in pairs])
                found[(measure, statistic, *key)] = (value, reason, len(pairs), None)
    return found


def loop_rule(mine: Row, rows: Sequence[Row]) -> tuple[str, list[Row]]:
    """Return the rule by which the line of a group is fitted, and the rows it is fitted to."""
    there = [
        row
        for row in rows
        if row["tested_on"] == mine["tested_on"]
        and not is_in_distribution(row)
        and not math.isnan(row["accuracy"])
    ]
    same = [row for row in there if row["architecture"] == mine["architecture"]]
    apart = [row for row in same if not row["share"] & mine["share"]]
    others = [row for row in there if row["architecture"] != mine["architecture"]]
    if len(apart) > 1:
        return "other training domains", apart
    if len(others) > 1:
        return "other architectures", others
    return "leave one model out", []


def loop_predictions(
    pairs: Sequence[tuple[float, float]], rule: str, pool: Sequence[tuple[float, float]]
) -> tuple[list[float] | None, str | None]:
    found = []
    for j, (x, _) in enumerate(pairs):
        used = [*pairs[:j], *pairs[j + 1 :]] if rule == "leave one model out" else pool
        reason = fit_problem(used)
        if reason:
            return None, reason
        found.append(loop_line(used)(x))
    return found, None


def loop_lines(table: EvaluationTable, direct: Sequence[str]) -> dict[Key, Answer]:
    rows = rows_of(table)
    found: dict[Key, Answer] = {}
    for key, mine in by_key(rows, TAUS["macro_tau"][0], False).items():
        rule, pool = loop_rule(mine[0], rows)
        for measure in table.measures:
            pairs = complete_pairs(mine, measure)
            predicted, lack = loop_predictions(pairs, rule, complete_pairs(pool, measure))
            for statistic, (value, reason) in loop_errors(pairs, predicted, lack).items():
                used = rule if statistic in ("r2", "mae") else None
                found[(measure, statistic, *key)] = (value, reason, len(pairs), used)
            if measure in direct:
                raw = loop_errors(pairs, [x for x, _ in pairs], None)
                for name in ("r2", "mae"):
                    found[(measure, f"raw_{name}", *key)] = (*raw[name], len(pairs), None)
    return found


def loop_errors(
    pairs: Sequence[tuple[float, float]], predicted: list[float] | None, lack: str | None
) -> dict[str, tuple[float | None, str | None]]:
    """Return R2, r2_pearson and MAE of predictions, each with the reason if undefined."""
    n, x, y = len(pairs), [x for x, _ in pairs], [y for _, y in pairs]
    found: dict[str, tuple[float | None, str | None]] = {}
    if n < 1:
        found["mae"] = (None, "no values")
    elif predicted is None:
        found["mae"] = (None, lack)
    else:
        found["mae"] = (100 * sum(abs(p - t) for p, t in zip(predicted, y, strict=True)) / n, None)
    if n < 2 or len(set(y)) < 2:
        why = "fewer than two values" if n < 2 else "all accuracies equal"
        return {**found, "r2": (None, why), "r2_pearson": (None, why)}
    total = sum((t - sum(y) / n) ** 2 for t in y)
    if predicted is None:
        found["r2"] = (None, lack)
    else:
        left = sum((p - t) ** 2 for p, t in zip(predicted, y, strict=True))
        found["r2"] = (1 - left / total, None)
    if len(set(x)) < 2:
        return {**found, "r2_pearson": (None, "all values of the measure equal")}
    return {**found, "r2_pearson": (float(np.corrcoef(x, y)[0, 1]) ** 2, None)}


def values_by_key(rows: Any) -> dict[Key, Answer]:
    """Return the values of groups by key, in the form of the naive loops; keys are unique."""
    found: dict[Key, Answer] = {}
    for row in rows:
        key = (row["measure"], row["statistic"], *(row[name] for name in NAMES))
        assert key not in found
        found[key] = (row["value"], row["reason"], row["n"], row["rule"])
    return found


def assert_same(found: dict[Key, Answer], expected: dict[Key, Answer]) -> None:
    assert set(found) == set(expected)
    for key, (value, *rest) in expected.items():
        mine, *others = found[key]
        assert others == rest, (key, found[key], expected[key])
        assert (mine is None) == (value is None), (key, mine, value)
        if value is not None and mine is not None:
            assert math.isclose(mine, value, rel_tol=1e-7, abs_tol=1e-9), (key, mine, value)
