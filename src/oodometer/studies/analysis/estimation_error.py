"""Mean absolute error of accuracy estimates by dataset, type of shift and calibration.

Garg et al., "Leveraging Unlabeled Data to Predict Out-of-Distribution Performance", ICLR 2022,
Tables 1, 3 and 4. The error is averaged over the target datasets of each type of shift; then the
mean and the standard deviation over seeds are computed. Errors before (pre-T) and after (post-T)
temperature scaling are reported separately, and so are architectures.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from oodometer.core.array_types import Floats, Ints
from oodometer.core.errors import InputError
from oodometer.core.jsonable import fields_to_jsonable
from oodometer.studies.analysis.evaluation_table import (
    PRE_CALIBRATION_SUFFIX,
    EvaluationTable,
    encode_names,
    select_measures,
)
from oodometer.studies.analysis.grouped_scores import MeanStd
from oodometer.studies.analysis.id_ood_pairs import UNNAMED_LABEL
from oodometer.studies.analysis.rank_correlation import select_out_of_distribution

Calibration = Literal["pre-T", "post-T", "unknown"]
# Suffixes of measures that were computed before or after temperature scaling.
CALIBRATION_SUFFIXES: dict[str, Calibration] = {
    PRE_CALIBRATION_SUFFIX: "pre-T",
    " (post-T)": "post-T",
}
# Values of the column `temperature` that mean no temperature was fitted.
UNFITTED_TEMPERATURES = ("none", "1", "1.0")


@dataclass(frozen=True)
class EstimationErrorRow:
    """Mean absolute error of one estimator over the targets of one type of shift.

    `mae` is in percentage points; it is averaged over targets and then over seeds. `targets` is the
    number of test domains, `n` the number of evaluations with an estimate, and `lacking` the number
    of evaluations without one.
    """

    dataset: str
    shift: str
    architecture: str
    estimator: str
    calibration: Calibration
    mae: MeanStd
    targets: int
    n: int
    lacking: int

    def to_dict(self) -> dict[str, Any]:
        return fields_to_jsonable(self)


@dataclass(frozen=True)
class EstimationErrorTable:
    """Errors of all estimators.

    `sd_over` tells whether standard deviations are over seeds or over models.
    """

    cells: tuple[EstimationErrorRow, ...]
    sd_over: Literal["seed", "model"]

    def rows(self) -> list[dict[str, Any]]:
        """Return flat rows, for tables."""
        return [
            {
                **{key: value for key, value in vars(cell).items() if key != "mae"},
                "mae": cell.mae.mean,
                "sd": cell.mae.sd,
                f"{self.sd_over}s": cell.mae.groups,
            }
            for cell in self.cells
        ]

    def to_dict(self) -> dict[str, Any]:
        return {"over": self.sd_over, "cells": [cell.to_dict() for cell in self.cells]}


def estimation_errors(
    table: EvaluationTable, *, methods: Sequence[str] | None = None
) -> EstimationErrorTable:
    """Return the mean absolute error of accuracy estimates per dataset, shift and architecture.

    Only evaluations on domains that the model was not trained on are used. The column `task` names
    the dataset; if it is empty, evaluations with the same training domains form a dataset. The
    column `shift` names the type of shift. Standard deviations are over the values of the column
    `seed`, or over models if that column is empty.

    Parameters
    ----------
    table : EvaluationTable
        Evaluations of models on domains.
    methods : sequence of str, optional
        Measures that estimate accuracy itself. Default: the measures that have the name of an
        estimator of this package, with or without a suffix for calibration.

    Returns
    -------
    EstimationErrorTable
        Errors in percentage points.

    Raises
    ------
    InputError
        If the table has no estimate of accuracy, or no evaluation on another domain.

    Examples
    --------
    >>> table = EvaluationTable.read({"model": ["m", "n"], "trained_on": ["a", "a"],
    ...     "tested_on": ["b", "b"], "accuracy": [0.75, 0.5], "doc": [0.5, 0.625]})
    >>> cell = estimation_errors(table).cells[0]
    >>> cell.mae.mean, round(cell.mae.sd, 3), cell.n
    (18.75, 8.839, 2)
    """
    names = select_estimates(table, methods)
    outside = select_out_of_distribution(table)
    seeds = outside.columns.get("seed", ("",) * len(outside))
    _, runs = encode_names(
        [seed or f"model {code}" for seed, code in zip(seeds, outside.model, strict=True)]
    )
    cells = [
        cell
        for key, rows in sorted(_group_rows(outside).items())
        for name in names
        for cell in _error_cells(outside.select_rows(rows), runs[rows], key, name)
    ]
    return EstimationErrorTable(tuple(cells), "seed" if any(seeds) else "model")


def select_estimates(table: EvaluationTable, methods: Sequence[str] | None = None) -> list[str]:
    """Return the measures in `methods`; by default those that `find_estimates` returns."""
    if methods is not None:
        return list(select_measures(list(table.measures), methods))
    names = find_estimates(table)
    if not names:
        raise InputError(
            f"None of the measures is an estimator of this package: {', '.join(table.measures)}. "
            "Name those that estimate accuracy itself with methods=[…]."
        )
    return names


def find_estimates(table: EvaluationTable) -> list[str]:
    """Return the measures named after estimators of this package, ignoring calibration suffixes."""
    from oodometer.estimators import ON_REQUEST, available

    estimators = {member.name for member in (*available(), *ON_REQUEST)}
    return [name for name in table.measures if split_calibration_suffix(name)[0] in estimators]


def split_calibration_suffix(name: str) -> tuple[str, Calibration]:
    """Split a measure's name into estimator and calibration.

    >>> split_calibration_suffix("atc-mc (pre-T)"), split_calibration_suffix("doc")
    (('atc-mc', 'pre-T'), ('doc', 'unknown'))
    """
    for suffix, calibration in CALIBRATION_SUFFIXES.items():
        if name.endswith(suffix):
            return name.removesuffix(suffix), calibration
    return name, "unknown"


def _group_rows(table: EvaluationTable) -> dict[tuple[str, str, str], Ints]:
    """Return the rows of each dataset, shift and architecture."""
    blank = ("",) * len(table)
    tasks = table.columns.get("task", blank)
    shifts = table.columns.get("shift", blank)
    groups: dict[tuple[str, str, str], list[int]] = {}
    for row, (task, shift) in enumerate(zip(tasks, shifts, strict=True)):
        dataset = task or table.training(table.trained_on[row])
        key = dataset, shift or UNNAMED_LABEL, table.architectures[table.architecture[row]]
        groups.setdefault(key, []).append(row)
    return {key: np.array(rows) for key, rows in groups.items()}


def _error_cells(
    table: EvaluationTable, runs: Ints, key: tuple[str, str, str], name: str
) -> list[EstimationErrorRow]:
    """Return one row of the result for each calibration that occurs in the rows `runs`."""
    dataset, shift, architecture = key
    estimator, calibrations = row_calibrations(table, name)
    errors = 100.0 * np.abs(table.measures[name] - table.accuracy)
    cells = []
    for calibration in sorted(set(calibrations)):
        rows = np.array([row_calibration == calibration for row_calibration in calibrations])
        known = rows & np.isfinite(errors)
        mae = MeanStd.from_values(
            _mean_or_reason(errors[rows & (runs == run)]) for run in np.unique(runs[rows])
        )
        cells.append(
            EstimationErrorRow(
                dataset=dataset,
                shift=shift,
                architecture=architecture,
                estimator=estimator,
                calibration=calibration,
                mae=mae,
                targets=len(np.unique(table.tested_on[known])),
                n=int(known.sum()),
                lacking=int((rows & ~known).sum()),
            )
        )
    return cells


def _mean_or_reason(errors: Floats) -> float | str:
    known = errors[np.isfinite(errors)]
    return float(known.mean()) if len(known) else "the estimator is not applicable"


def row_calibrations(table: EvaluationTable, name: str) -> tuple[str, list[Calibration]]:
    """Return the estimator in a measure's name and the calibration of each row.

    If the name has a suffix, the suffix gives the calibration. Otherwise, if the table also has a
    measure of this name with the suffix pre-T, the calibration is post-T. Otherwise, the column
    `temperature` gives the calibration.
    """
    estimator, calibration = split_calibration_suffix(name)
    if calibration == "unknown" and f"{name}{PRE_CALIBRATION_SUFFIX}" in table.measures:
        calibration = "post-T"
    if calibration != "unknown" or "temperature" not in table.columns:
        return estimator, [calibration] * len(table)
    return estimator, [_calibration_from_temperature(cell) for cell in table.columns["temperature"]]


def _calibration_from_temperature(cell: str) -> Calibration:
    if not cell:
        return "unknown"
    return "pre-T" if cell.lower() in UNFITTED_TEMPERATURES else "post-T"
