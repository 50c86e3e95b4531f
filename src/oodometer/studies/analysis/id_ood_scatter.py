"""ID against OOD accuracy of every pair, gaps, and how hard tasks are. Wenzel et al., NeurIPS 2022.

Appendices D and E: the scatter of a pair has a point a model; the normalised gap is
(acc_ID − acc_OOD) / acc_ID of the mean accuracies, and that of a task says how hard it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from oodometer.core.array_types import Floats
from oodometer.core.errors import InputError
from oodometer.studies.analysis.evaluation_table import EvaluationTable
from oodometer.studies.analysis.id_ood_pairs import IdOodPair, find_pairs
from oodometer.studies.analysis.scatter_patterns import ScatterPattern, classify_pattern


@dataclass(frozen=True)
class AccuracyGap:
    """Mean ID and OOD accuracy and their normalised gap, each with its standard error."""

    id: float | None
    id_se: float | None
    ood: float | None
    ood_se: float | None
    value: float | None
    value_se: float | None

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return dict(vars(self))


@dataclass(frozen=True, eq=False)
class IdOodScatter:
    """One pair of domains: models with an accuracy on both, the pattern they make, and the gap.

    `left_out` is how many models of the pair lack one of the two.
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
        """Plain values, for JSON."""
        return {
            **{name: getattr(self, name) for name in ("training", "target", "task", "shift")},
            "models": list(self.models),
            "id": self.id_accuracy.tolist(),
            "ood": self.ood_accuracy.tolist(),
            "left_out": self.left_out,
            "pattern": self.pattern.to_dict(),
            "gap": self.gap.to_dict(),
        }


@dataclass(frozen=True)
class TaskDifficulty:
    """How hard the pairs of a task are.

    `gap` is of the mean accuracies over pairs, every pair counting the same; `sd` that of the
    pairs' own gaps; `place` the gap between the easiest task (0) and the hardest (1) of all.
    """

    task: str
    pairs: int
    left_out: int
    gap: AccuracyGap
    sd: float | None
    place: float | None

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {**vars(self), "gap": self.gap.to_dict()}


def id_ood_scatters(table: EvaluationTable) -> tuple[IdOodScatter, ...]:
    """The scatter of every pair of the table; a column `n` says how many rows a test had."""
    variance = table.accuracy * (1.0 - table.accuracy) / _test_set_sizes(table)
    found = find_pairs(table, {"accuracy": table.accuracy, "variance": variance})
    return tuple(_build_scatter(table, pair) for pair in found.pairs)


def _test_set_sizes(table: EvaluationTable) -> Floats:
    if "n" not in table.columns:
        return np.full(len(table), np.nan)
    cells = table.columns["n"]
    try:
        rows = np.array([float(cell) if cell else np.nan for cell in cells])
    except ValueError as error:
        raise InputError(
            f"The column 'n' must hold numbers of test rows: {error}. Correct it, or leave it out."
        ) from error
    if (rows <= 0).any():
        row = int(np.flatnonzero(rows <= 0)[0])
        raise InputError(
            f"The column 'n' must hold numbers above 0; row {row} is {cells[row]}. Correct it, or "
            "leave it empty where it is not known."
        )
    return rows


def _build_scatter(table: EvaluationTable, pair: IdOodPair) -> IdOodScatter:
    (x, x_variance), (y, y_variance) = pair.values["ID"].T, pair.values["OOD"].T
    both = ~(np.isnan(x) | np.isnan(y))
    # A mean over several test sets varies the less by chance.
    by_chance = x_variance / max(pair.n_id_domains, 1), y_variance
    return IdOodScatter(
        pair.training, pair.target, pair.task, pair.shift,
        tuple(table.models[code] for code in pair.models[both]), x[both], y[both],
        int((~both).sum()), classify_pattern(x, y, *by_chance), accuracy_gap(x[both], y[both]),
    )  # fmt: skip


def accuracy_gap(id_accuracy: Floats, ood_accuracy: Floats) -> AccuracyGap:
    """The normalised gap of accuracies, 1 − mean OOD / mean ID, by the delta method as sure as it is.

    >>> found = accuracy_gap(np.array([0.8, 0.8]), np.array([0.5, 0.7]))
    >>> round(found.value, 6), round(found.value_se, 6)
    (0.25, 0.125)
    """
    n = len(id_accuracy)
    if not n:
        return AccuracyGap(None, None, None, None, None, None)
    x, y = float(id_accuracy.mean()), float(ood_accuracy.mean())
    figures = (x, _standard_error(id_accuracy), y, _standard_error(ood_accuracy))
    if x == 0:
        return AccuracyGap(*figures, None, None)
    off = _standard_error(ood_accuracy - y / x * id_accuracy)
    return AccuracyGap(*figures, 1.0 - y / x, None if off is None else off / x)


def _standard_error(values: Floats) -> float | None:
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else None


def task_difficulties(scatters: Sequence[IdOodScatter]) -> tuple[TaskDifficulty, ...]:
    """How hard every task is; pairs without a model that has both accuracies are left out."""
    tasks = [
        _task_difficulty(name, [one for one in scatters if one.task == name])
        for name in _task_names(scatters)
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


def _task_names(scatters: Sequence[IdOodScatter]) -> list[str]:
    return sorted({one.task for one in scatters})


def _task_difficulty(name: str, scatters: Sequence[IdOodScatter]) -> TaskDifficulty:
    gaps = [one.gap for one in scatters if one.models]
    means = np.array([(gap.id, gap.ood) for gap in gaps], dtype=np.float64).reshape(-1, 2)
    own = np.array([gap.value for gap in gaps if gap.value is not None])
    sd = float(own.std(ddof=1)) if len(own) > 1 else None
    return TaskDifficulty(
        name, len(gaps), len(scatters) - len(gaps), accuracy_gap(means[:, 0], means[:, 1]), sd, None
    )
