"""Estimated against true accuracy: how near to y = x. Garg et al., ICLR 2022 (ATC), Figures 2 and 8.

A point is one model on one target, or, where there is a column `seed`, the mean over seeds of
models that are alike otherwise. The line is Siegel's repeated median, as in the paper.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from oodometer.core.array_types import Floats, Ints
from oodometer.core.errors import UnknownName
from oodometer.core.stats import Line, repeated_median_line
from oodometer.studies.analysis._least_squares import r_squared
from oodometer.studies.analysis.evaluation_table import EvaluationTable
from oodometer.studies.analysis.measure_noise import group_ignoring_seed
from oodometer.studies.analysis.rank_correlation import select_out_of_distribution

# The line compares every point with every other; beyond so many, evenly ranked ones stand for all.
MAX_LINE_POINTS = 2000


@dataclass(frozen=True)
class AccuracyPoint:
    """One target: true and estimated accuracy, and of how many evaluations they are the mean."""

    architecture: str
    trained_on: str
    tested_on: str
    true: float
    estimated: float
    n: int


@dataclass(frozen=True)
class TruthComparison:
    """Points, and how far they are from y = x.

    `mae` and `bias` (mean of estimated less true) are in points; `r2` is that of the estimates as
    they are. `line` gives the estimated accuracy at a true one; None where fewer than three true
    accuracies differ. `lacking` evaluations have no estimate.
    """

    estimator: str
    points: tuple[AccuracyPoint, ...]
    mae: float | None
    bias: float | None
    r2: float | None
    line: Line | None
    lacking: int

    def rows(self) -> list[dict[str, Any]]:
        """A flat row a point, for pictures."""
        return [{"estimator": self.estimator, **vars(point)} for point in self.points]

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        line = None if self.line is None else dict(vars(self.line))
        return {**vars(self), "line": line, "points": [dict(vars(one)) for one in self.points]}


def compare_with_truth(table: EvaluationTable, estimator: str) -> TruthComparison:
    """The estimates of one measure beside the accuracies on domains not trained on.

    >>> table = EvaluationTable.read({"model": ["m", "n"], "trained_on": ["a", "a"], "tested_on": ["b", "b"],
    ...                     "accuracy": [0.75, 0.5], "doc": [0.5, 0.625]})
    >>> found = compare_with_truth(table, "doc")
    >>> found.mae, found.bias, found.r2
    (18.75, -6.25, -1.5)
    """
    if estimator not in table.measures:
        raise UnknownName("measure", estimator, table.measures)
    outside = select_out_of_distribution(table)
    known = outside.select_rows(np.isfinite(outside.measures[estimator]))
    points = tuple(_mean_point(known, estimator, rows) for rows in group_ignoring_seed(known))
    true, estimated = (
        np.array([getattr(one, side) for one in points]) for side in ("true", "estimated")
    )
    lacking = len(outside) - len(known)
    if not points:
        return TruthComparison(estimator, points, None, None, None, None, lacking)
    off = estimated - true
    return TruthComparison(
        estimator,
        points,
        mae=float(100.0 * np.abs(off).mean()),
        bias=float(100.0 * off.mean()),
        r2=r_squared(estimated, true),
        line=_fit_line(true, estimated),
        lacking=lacking,
    )


def _mean_point(table: EvaluationTable, estimator: str, rows: Ints) -> AccuracyPoint:
    first = rows[0]
    return AccuracyPoint(
        table.architectures[table.architecture[first]],
        table.training(table.trained_on[first]),
        table.domains[table.tested_on[first]],
        float(table.accuracy[rows].mean()),
        float(table.measures[estimator][rows].mean()),
        len(rows),
    )


def _fit_line(true: Floats, estimated: Floats) -> Line | None:
    order = np.argsort(true, kind="stable")
    kept = order[
        np.linspace(0, len(order) - 1, min(len(order), MAX_LINE_POINTS)).round().astype(np.int64)
    ]
    if len(np.unique(true[kept])) < 3:
        return None
    return repeated_median_line(true[kept], estimated[kept])
