"""Small random tables, as plain rows for literal loops and as a Table."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from oodometer.studies.analysis.evaluation_table import EvaluationTable

Row = dict[str, Any]


def made(
    seed: int,
    *,
    domains: Sequence[str] = ("a", "b", "c", "d"),
    models: int = 6,
    measures: Sequence[str] = ("x", "y", "z"),
    levels: int | None = None,
    gaps: float = 0.0,
) -> list[Row]:
    """Every model of every training domain on every domain.

    With `levels`, numbers are rounded to so many, so that some are equal; with `gaps`, that share
    of the measures has no answer.
    """
    rng = np.random.default_rng(seed)

    def number() -> float:
        value = rng.random()
        return float(value if levels is None else round(value * levels) / levels)

    return [
        {
            "model": f"{training}{number_of}",
            "architecture": ("nin", "vgg")[number_of % 2],
            "trained_on": training,
            "tested_on": test,
            "accuracy": number(),
            **{name: number() if rng.random() >= gaps else math.nan for name in measures},
        }
        for training in domains
        for number_of in range(models)
        for test in domains
    ]


def read(rows: Sequence[Row]) -> EvaluationTable:
    return EvaluationTable.read({name: [row[name] for row in rows] for name in rows[0]})


def outside(rows: Sequence[Row]) -> list[Row]:
    """Those on a domain that the model was not trained on, by the names alone."""
    return [row for row in rows if row["tested_on"] not in row["trained_on"].split(" + ")]


def known(rows: Sequence[Row], *names: str) -> list[Row]:
    """Those that have all of these values."""
    return [row for row in rows if not any(math.isnan(row[name]) for name in names)]


def ranks(values: Sequence[float]) -> list[float]:
    """By counting: one more than are below, and half of the others that are equal."""
    return [
        sum(other < value for other in values) + (sum(other == value for other in values) + 1) / 2
        for value in values
    ]


def rank_correlation(x: Sequence[float], y: Sequence[float]) -> float | None:
    """Spearman's ρ by its definition; None for fewer than three or a constant side."""
    if len(x) < 3 or len(set(x)) < 2 or len(set(y)) < 2:
        return None
    a, b = ranks(x), ranks(y)
    middle = (len(x) + 1) / 2
    along = sum((i - middle) * (j - middle) for i, j in zip(a, b, strict=True))
    length = math.sqrt(sum((i - middle) ** 2 for i in a) * sum((j - middle) ** 2 for j in b))
    return along / length
