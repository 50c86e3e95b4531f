"""Random evaluations with tasks, shifts and corruptions, and naive loops for their roles."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from oodometer.studies.analysis.evaluation_table import EvaluationTable

Row = dict[str, Any]
PHOTO, WORDS = ("photo", "sketch", "art", "cartoon"), ("news", "web", "fiction")
REAL = ("photo", "news", "web")
METRICS = ("nll", "ece")


def rows_of(seed: int, *, models: int = 5, gaps: float = 0.0, levels: int = 12) -> list[Row]:
    """Return evaluations of two tasks; some models have two domains, and values are tied."""
    rng = np.random.default_rng(seed)
    found: list[Row] = []
    for task, domains in (("photos", PHOTO), ("words", WORDS)):
        trainings = [(domain,) for domain in domains[:3]] + [domains[:2]]
        for training in trainings:
            for number in range(models):
                name = f"{task}-{'-'.join(training)}-{number}"
                tests = [*domains, *_corrupted(training, domains)]
                found += [_row(rng, name, task, training, test, levels, gaps) for test in tests]
    order = rng.permutation(len(found))
    return [found[j] for j in order]


def _corrupted(training: Sequence[str], domains: Sequence[str]) -> list[str]:
    """Return corruptions of the training domains, and one of another domain."""
    own = [f"{domain}/{kind}" for domain in training for kind in ("fog-1", "jpeg-5")]
    return [*own, f"{domains[2]}/fog-1"] if domains[2] not in training else own


def _row(
    rng: np.random.Generator,
    model: str,
    task: str,
    training: Sequence[str],
    test: str,
    levels: int,
    gaps: float,
) -> Row:
    def number() -> float:
        return math.nan if rng.random() < gaps else float(rng.integers(levels) / levels)

    sides = ["real" if side in REAL else "artificial" for side in (training[0], test)]
    return {
        "model": model,
        "trained_on": " + ".join(training),
        "tested_on": test,
        "task": task,
        "shift": " → ".join(sides),
        "accuracy": number(),
        **{metric: number() for metric in METRICS},
    }


def table_of(rows: Sequence[Row]) -> EvaluationTable:
    return EvaluationTable.read({name: [row[name] for row in rows] for name in rows[0]})


def value(row: Row, metric: str) -> float:
    return float(1.0 - row["accuracy"] if metric == "error" else row[metric])


def role(row: Row, target: str | None) -> str:
    """Return the role of a row for a pair's target; without target, every other domain is OOD."""
    training, test = row["trained_on"].split(" + "), row["tested_on"]
    if test in training:
        return "ID"
    if "/" in test:
        return "ID corrupted" if test.split("/")[0] in training else "none"
    return "OOD" if target is None or test == target else "held-out OOD"


def role_value(
    rows: Sequence[Row], model: str, metric: str, wanted: str, target: str | None
) -> float:
    """Return a model's mean in one role, over domains that at least half of its peers have."""
    mine = next(row["trained_on"] for row in rows if row["model"] == model)
    alike = [row for row in rows if row["trained_on"] == mine and role(row, target) == wanted]
    known = [row for row in alike if not math.isnan(value(row, metric))]
    half = len({row["model"] for row in known}) / 2
    asked = [
        test
        for test in sorted({row["tested_on"] for row in known})
        if sum(1 for row in known if row["tested_on"] == test) >= half
    ]
    own = {row["tested_on"]: value(row, metric) for row in known if row["model"] == model}
    if not asked or any(test not in own for test in asked):
        return math.nan
    # Rounded, because ties between means must not depend on the last bit.
    return round(sum(own[test] for test in asked) / len(asked), 11)


def naive_pairs(rows: Sequence[Row]) -> list[tuple[str, str]]:
    return sorted(
        {(row["trained_on"], row["tested_on"]) for row in rows if role(row, None) == "OOD"}
    )
