"""Small random evaluations, as plain rows for naive loops and as an EvaluationTable."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from oodometer.studies.analysis.evaluation_table import EvaluationTable

Row = dict[str, Any]


def random_rows(
    seed: int,
    *,
    domains: Sequence[str] = ("a", "b", "c", "d"),
    models: int = 6,
    measures: Sequence[str] = ("x", "y", "z"),
    levels: int | None = None,
    gaps: float = 0.0,
) -> list[Row]:
    """Return evaluations of every model of every training domain on every domain.

    With `levels`, numbers are rounded to that many levels, so that some are equal; `gaps` is the
    share of measures without a value.
    """
    rng = np.random.default_rng(seed)

    def number() -> float:
        value = rng.random()
        return float(value if levels is None else round(value * levels) / levels)

    return [
        {
            "model": f"{training}{index}",
            "architecture": ("nin", "vgg")[index % 2],
            "trained_on": training,
            "tested_on": test,
            "accuracy": number(),
            **{name: number() if rng.random() >= gaps else math.nan for name in measures},
        }
        for training in domains
        for index in range(models)
        for test in domains
    ]


def to_table(rows: Sequence[Row]) -> EvaluationTable:
    return EvaluationTable.read({name: [row[name] for row in rows] for name in rows[0]})


def out_of_domain_rows(rows: Sequence[Row]) -> list[Row]:
    """Return the rows on a domain that the model was not trained on."""
    return [row for row in rows if row["tested_on"] not in row["trained_on"].split(" + ")]


def complete_rows(rows: Sequence[Row], *names: str) -> list[Row]:
    """Return the rows that have all of these values."""
    return [row for row in rows if not any(math.isnan(row[name]) for name in names)]


def ranks(values: Sequence[float]) -> list[float]:
    """Return mid-ranks by counting: the values below, plus half of the other equal ones, plus 1."""
    return [
        sum(other < value for other in values) + (sum(other == value for other in values) + 1) / 2
        for value in values
    ]


def rank_correlation(x: Sequence[float], y: Sequence[float]) -> float | None:
    """Return Spearman's ρ by its definition; None for fewer than three values or a constant."""
    if len(x) < 3 or len(set(x)) < 2 or len(set(y)) < 2:
        return None
    a, b = ranks(x), ranks(y)
    mean = (len(x) + 1) / 2
    covariance = sum((i - mean) * (j - mean) for i, j in zip(a, b, strict=True))
    scale = math.sqrt(sum((i - mean) ** 2 for i in a) * sum((j - mean) ** 2 for j in b))
    return covariance / scale
