"""OOD against ID accuracy for each pair of domains, and task difficulty (Wenzel et al., 2022).

See appendices D and E of the paper. The scatter plot of a pair has one point per model. The
normalized gap is (acc_ID − acc_OOD) / acc_ID, computed from the mean accuracies over models. The
normalized gap of a task is called its difficulty.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from oodometer.core.array_types import Floats
from oodometer.core.errors import InputError
from oodometer.core.jsonable import fields_to_jsonable
from oodometer.studies.analysis.evaluation_table import EvaluationTable
from oodometer.studies.analysis.id_ood_pairs import IdOodPair, find_pairs
from oodometer.studies.analysis.scatter_patterns import ScatterPattern, classify_pattern


@dataclass(frozen=True)
class AccuracyGap:
    """Mean ID and OOD accuracy and their normalized gap, each with its standard error."""

    id: float | None
    id_se: float | None
    ood: float | None
    ood_se: float | None
    value: float | None
    value_se: float | None

    def to_dict(self) -> dict[str, Any]:
        return fields_to_jsonable(self)


@dataclass(frozen=True, eq=False)
class IdOodScatter:
    """Scatter plot of one pair of domains, with its pattern and gap.

    Its points are the models with a known accuracy on both domains. `left_out` is the number of
    models of the pair without one of the two accuracies.
    """

    training: str
    target: str
    task: str
    shift: str
    models: tuple[str, ...]
    id_accuracy: Floats
    ood_accuracy: Floats
    left_out: int
    pattern: ScatterPattern
    gap: AccuracyGap

    def to_dict(self) -> dict[str, Any]:
        renamed = {"id_accuracy": "id", "ood_accuracy": "ood"}
        return {renamed.get(key, key): value for key, value in fields_to_jsonable(self).items()}


@dataclass(frozen=True)
class TaskDifficulty:
    """Difficulty of a task over its pairs of domains.

    `gap` is computed from the mean accuracies over pairs, which all have the same weight. `sd` is
    the standard deviation of the gaps of the single pairs. `place` is the gap, scaled so that it is
    0 for the easiest task and 1 for the hardest.
    """

    task: str
    pairs: int
    left_out: int
    gap: AccuracyGap
    sd: float | None
    place: float | None

    def to_dict(self) -> dict[str, Any]:
        return fields_to_jsonable(self)


def id_ood_scatters(table: EvaluationTable) -> tuple[IdOodScatter, ...]:
    """Return the scatter plot of every pair of the table.

    If the table has a column `n`, it holds the number of test rows of each evaluation.
    """
    variance = table.accuracy * (1.0 - table.accuracy) / _test_set_sizes(table)
    pairs = find_pairs(table, {"accuracy": table.accuracy, "variance": variance}).pairs
    return tuple(_build_scatter(table, pair) for pair in pairs)


def _test_set_sizes(table: EvaluationTable) -> Floats:
    if "n" not in table.columns:
        return np.full(len(table), np.nan)
    cells = table.columns["n"]
    try:
        sizes = np.array([float(cell) if cell else np.nan for cell in cells])
    except ValueError as error:
        raise InputError(
            f"The column 'n' must hold numbers of test rows: {error}. Correct or remove it."
        ) from error
    if (sizes <= 0).any():
        row = int(np.flatnonzero(sizes <= 0)[0])
        raise InputError(
            f"The column 'n' must hold numbers above 0; row {row} is {cells[row]}. Correct it, or "
            "leave it empty if unknown."
        )
    return sizes


def _build_scatter(table: EvaluationTable, pair: IdOodPair) -> IdOodScatter:
    (x, x_variance), (y, y_variance) = pair.values["ID"].T, pair.values["OOD"].T
    both = ~(np.isnan(x) | np.isnan(y))
    # The sampling variance of a mean over k test sets is 1/k of the mean variance of the sets.
    mean_variance = x_variance / max(pair.n_id_domains, 1)
    return IdOodScatter(
        training=pair.training,
        target=pair.target,
        task=pair.task,
        shift=pair.shift,
        models=tuple(table.models[code] for code in pair.models[both]),
        id_accuracy=x[both],
        ood_accuracy=y[both],
        left_out=int((~both).sum()),
        pattern=classify_pattern(x, y, mean_variance, y_variance),
        gap=accuracy_gap(x[both], y[both]),
    )


def accuracy_gap(id_accuracy: Floats, ood_accuracy: Floats) -> AccuracyGap:
    """Return the normalized gap, 1 − mean OOD / mean ID, with its delta-method standard error.

    >>> gap = accuracy_gap(np.array([0.8, 0.8]), np.array([0.5, 0.7]))
    >>> round(gap.value, 6), round(gap.value_se, 6)
    (0.25, 0.125)
    """
    if not len(id_accuracy):
        return AccuracyGap(None, None, None, None, None, None)
    x = float(id_accuracy.mean())
    y = float(ood_accuracy.mean())
    gap = AccuracyGap(
        id=x,
        id_se=standard_error(id_accuracy),
        ood=y,
        ood_se=standard_error(ood_accuracy),
        value=None,
        value_se=None,
    )
    if x == 0:
        return gap
    residual_se = standard_error(ood_accuracy - y / x * id_accuracy)
    value_se = None if residual_se is None else residual_se / x
    return replace(gap, value=1.0 - y / x, value_se=value_se)


def standard_error(values: Floats) -> float | None:
    """Return the standard error of a mean; None for fewer than two values.

    >>> standard_error(np.array([0.0, 2.0])), standard_error(np.array([0.5]))
    (1.0, None)
    """
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else None


def task_difficulties(scatters: Sequence[IdOodScatter]) -> tuple[TaskDifficulty, ...]:
    """Return the difficulty of every task; scatter plots without any point are left out."""
    tasks = [
        _task_difficulty(name, [scatter for scatter in scatters if scatter.task == name])
        for name in sorted({scatter.task for scatter in scatters})
    ]
    gaps = [task.gap.value for task in tasks if task.gap.value is not None]
    if not gaps or min(gaps) == max(gaps):
        return tuple(tasks)
    easiest, hardest = min(gaps), max(gaps)
    return tuple(
        replace(task, place=(task.gap.value - easiest) / (hardest - easiest))
        if task.gap.value is not None
        else task
        for task in tasks
    )


def _task_difficulty(name: str, scatters: Sequence[IdOodScatter]) -> TaskDifficulty:
    gaps = [scatter.gap for scatter in scatters if scatter.models]
    means = np.array([(gap.id, gap.ood) for gap in gaps], dtype=np.float64).reshape(-1, 2)
    pair_gaps = np.array([gap.value for gap in gaps if gap.value is not None])
    return TaskDifficulty(
        task=name,
        pairs=len(gaps),
        left_out=len(scatters) - len(gaps),
        gap=accuracy_gap(means[:, 0], means[:, 1]),
        sd=float(pair_gaps.std(ddof=1)) if len(pair_gaps) > 1 else None,
        place=None,
    )
