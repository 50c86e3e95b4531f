"""Compare estimated with true accuracy by method and dataset (Garg et al., ICLR 2022, Fig. 2, 8).

A point is one model on one target. If the table has a column `seed`, models that differ only in
the seed form one point, the mean over seeds. The line is Siegel's repeated median, as in the paper.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from oodometer.core.array_types import Floats, Ints
from oodometer.core.errors import UnknownName
from oodometer.core.jsonable import fields_to_jsonable
from oodometer.core.stats import Line, repeated_median_line
from oodometer.studies.analysis._least_squares import r_squared
from oodometer.studies.analysis.evaluation_table import EvaluationTable
from oodometer.studies.analysis.measure_noise import group_ignoring_seed
from oodometer.studies.analysis.rank_correlation import select_out_of_distribution

# The repeated median compares every pair of points. If there are more points than this, the points
# are sorted by true accuracy, and the line is fitted to this many of them at equal steps.
MAX_LINE_POINTS = 2000


@dataclass(frozen=True)
class AccuracyPoint:
    """True and estimated accuracy on one target, both averaged over `n` evaluations."""

    architecture: str
    trained_on: str
    tested_on: str
    true: float
    estimated: float
    n: int


@dataclass(frozen=True)
class TruthComparison:
    """True and estimated accuracies, and how far the estimates deviate from the truth.

    `mae` and `bias` (mean of estimated minus true) are in percentage points. `r2` is computed from
    the estimates themselves, without a fit. `line` predicts the estimated from the true accuracy;
    it is None if there are fewer than three different true accuracies. `lacking` is the number of
    evaluations without an estimate.
    """

    estimator: str
    points: tuple[AccuracyPoint, ...]
    mae: float | None
    bias: float | None
    r2: float | None
    line: Line | None
    lacking: int

    def rows(self) -> list[dict[str, Any]]:
        """Return one flat row per point, for charts."""
        return [{"estimator": self.estimator, **vars(point)} for point in self.points]

    def to_dict(self) -> dict[str, Any]:
        return fields_to_jsonable(self)


def compare_with_truth(table: EvaluationTable, estimator: str) -> TruthComparison:
    """Compare the estimates of one estimator with the true accuracies.

    Only evaluations on domains that the model was not trained on are used.

    Parameters
    ----------
    table : EvaluationTable
        Evaluations of models on domains.
    estimator : str
        Measure of the table that estimates accuracy, as a fraction.

    Returns
    -------
    TruthComparison
        One point per target, mean absolute error, bias, R² and a robust line.

    Raises
    ------
    UnknownName
        If the table has no such measure.
    InputError
        If no evaluation has a known accuracy on a domain that the model was not trained on.

    Examples
    --------
    >>> table = EvaluationTable.read({"model": ["m", "n"], "trained_on": ["a", "a"],
    ...     "tested_on": ["b", "b"], "accuracy": [0.75, 0.5], "doc": [0.5, 0.625]})
    >>> result = compare_with_truth(table, "doc")
    >>> result.mae, result.bias, result.r2
    (18.75, -6.25, -1.5)
    """
    if estimator not in table.measures:
        raise UnknownName("measure", estimator, table.measures)
    outside = select_out_of_distribution(table)
    known = outside.select_rows(np.isfinite(outside.measures[estimator]))
    points = tuple(_mean_point(known, estimator, rows) for rows in group_ignoring_seed(known))
    lacking = len(outside) - len(known)
    if not points:
        return TruthComparison(
            estimator, points, mae=None, bias=None, r2=None, line=None, lacking=lacking
        )
    true = np.array([point.true for point in points])
    estimated = np.array([point.estimated for point in points])
    return TruthComparison(
        estimator,
        points,
        mae=float(100.0 * np.abs(estimated - true).mean()),
        bias=float(100.0 * (estimated - true).mean()),
        r2=r_squared(estimated, true),
        line=_fit_line(true, estimated),
        lacking=lacking,
    )


def _mean_point(table: EvaluationTable, estimator: str, rows: Ints) -> AccuracyPoint:
    first = rows[0]
    return AccuracyPoint(
        architecture=table.architectures[table.architecture[first]],
        trained_on=table.training(table.trained_on[first]),
        tested_on=table.domains[table.tested_on[first]],
        true=float(table.accuracy[rows].mean()),
        estimated=float(table.measures[estimator][rows].mean()),
        n=len(rows),
    )


def _fit_line(true: Floats, estimated: Floats) -> Line | None:
    order = np.argsort(true, kind="stable")
    ranks = np.linspace(0, len(order) - 1, min(len(order), MAX_LINE_POINTS)).round()
    kept = order[ranks.astype(np.int64)]
    if len(np.unique(true[kept])) < 3:
        return None
    return repeated_median_line(true[kept], estimated[kept])
