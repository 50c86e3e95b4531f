"""Correlation of ID metrics with OOD error against task difficulty (Wenzel et al., 2022, App. E.1).

The difficulty of a task is its normalized gap, (acc_ID − acc_OOD) / acc_ID, mapped linearly so that
it is 0 for the easiest and 1 for the hardest task of the table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from oodometer.core.errors import NotApplicable
from oodometer.core.jsonable import fields_to_jsonable
from oodometer.core.stats import Line, least_squares_line
from oodometer.studies.analysis.averaged_correlations import average_correlations
from oodometer.studies.analysis.correlation_matrix import CorrelationKind
from oodometer.studies.analysis.evaluation_table import EvaluationTable
from oodometer.studies.analysis.id_ood_scatter import id_ood_scatters, task_difficulties

OOD_ERROR = "OOD error"
# Variables of ID data start with this text: those of the role ID and of the role ID corrupted.
ID_PREFIX = "ID "
# A line through two points fits exactly and shows no trend.
MIN_LINE_TASKS = 3


@dataclass(frozen=True)
class DifficultyPoint:
    """Averaged correlation of a metric with OOD error in one task.

    Parameters
    ----------
    task : str
        Name of the task.
    difficulty : float
        Difficulty of the task, from 0 (easiest task) to 1 (hardest task).
    correlation : float
        Averaged correlation coefficient of the task.
    pairs : int
        Number of pairs of domains that have a coefficient.
    """

    task: str
    difficulty: float
    correlation: float
    pairs: int


@dataclass(frozen=True)
class DifficultyTrend:
    """Correlation of one ID metric with OOD error as a function of task difficulty.

    Parameters
    ----------
    metric : str
        Name of the variable, such as ``ID error``.
    points : tuple of DifficultyPoint
        One point per task, from the easiest to the hardest task.
    line : Line or None
        Least-squares line; None if fewer than three tasks have different difficulties.
    """

    metric: str
    points: tuple[DifficultyPoint, ...]
    line: Line | None

    def to_dict(self) -> dict[str, Any]:
        return fields_to_jsonable(self)


def correlations_by_difficulty(
    table: EvaluationTable,
    *,
    metrics: Sequence[str] | None = None,
    kind: CorrelationKind = "spearman",
) -> tuple[DifficultyTrend, ...]:
    """Return the correlation of every ID metric with OOD error against task difficulty.

    Parameters
    ----------
    table : EvaluationTable
        Evaluations of models on domains of at least two tasks, which the column `task` or the
        column `group` names.
    metrics : sequence of str, optional
        Measures of the table. Default: all. ``error`` (1 − accuracy) is always included.
    kind : {"spearman", "pearson"}
        Correlation coefficient.

    Returns
    -------
    tuple of DifficultyTrend
        Points and fitted line of every metric on ID and on corrupted ID domains. Metrics without
        any coefficient are left out.

    Raises
    ------
    NotApplicable
        If the table does not have two tasks of different difficulty.
    UnknownName
        If a metric or the kind of correlation is unknown.

    Examples
    --------
    >>> table = EvaluationTable.read({"model": [*"kkllmmxxyyzz"], "task": ["s"] * 6 + ["t"] * 6,
    ...     "trained_on": ["a"] * 6 + ["c"] * 6, "tested_on": [*"ababab", *"cdcdcd"],
    ...     "accuracy": [0.7, 0.7, 0.8, 0.8, 0.9, 0.9, 0.9, 0.4, 0.8, 0.5, 0.7, 0.6]}, measures=())
    >>> (trend,) = correlations_by_difficulty(table)
    >>> [(point.task, point.difficulty, round(point.correlation, 6)) for point in trend.points]
    [('s', 0.0, 1.0), ('t', 1.0, -1.0)]
    """
    difficulties = _scaled_difficulties(table)
    matrices = average_correlations(table, metrics=metrics, kind=kind).tasks
    variables = next(iter(matrices.values())).first
    trends = []
    for name in (name for name in variables if name.startswith(ID_PREFIX)):
        cells = {task: matrix.score(name, OOD_ERROR) for task, matrix in matrices.items()}
        points = tuple(
            DifficultyPoint(task, difficulty, cells[task]["value"], cells[task]["pairs"])
            for task, difficulty in difficulties.items()
            if task in cells and cells[task]["value"] is not None
        )
        if points:
            trends.append(DifficultyTrend(name, points, _fit_line(points)))
    return tuple(trends)


def _scaled_difficulties(table: EvaluationTable) -> dict[str, float]:
    """Return the difficulty of every task that has one, from the easiest to the hardest."""
    tasks = task_difficulties(id_ood_scatters(table))
    known = {task.task: task.place for task in tasks if task.place is not None}
    if not known:
        raise NotApplicable(
            "the difficulty of tasks needs at least two tasks with different gaps between ID and "
            f"OOD accuracy; the table has {len(tasks)}. Name the tasks in a column 'task'"
        )
    return dict(sorted(known.items(), key=lambda item: item[1]))


def _fit_line(points: Sequence[DifficultyPoint]) -> Line | None:
    difficulties = [point.difficulty for point in points]
    if len(set(difficulties)) < MIN_LINE_TASKS:
        return None
    return least_squares_line(difficulties, [point.correlation for point in points])
