"""How far estimates of accuracy are off, by dataset, nature of shift and calibration.

Garg et al., "Leveraging Unlabeled Data to Predict Out-of-Distribution Performance", ICLR 2022
(ATC), Tables 1, 3 and 4: the mean absolute error over the target datasets of each kind of shift,
its mean and standard deviation over seeds, before (pre-T) and after (post-T) temperature scaling.
Those of one architecture stand together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from oodometer.core.array_types import Floats, Ints
from oodometer.core.errors import InputError
from oodometer.studies.analysis.evaluation_table import (
    PRE_CALIBRATION_SUFFIX,
    EvaluationTable,
    encode_names,
    select_measures,
)
from oodometer.studies.analysis.grouped_scores import MeanStd
from oodometer.studies.analysis.id_ood_pairs import UNNAMED_LABEL
from oodometer.studies.analysis.rank_correlation import select_out_of_distribution

Calibration = Literal["pre-T", "post-T", "unsaid"]
# How names of estimates end that were made at a temperature of 1, or at a fitted one.
CALIBRATION_SUFFIXES: dict[str, Calibration] = {
    PRE_CALIBRATION_SUFFIX: "pre-T",
    " (post-T)": "post-T",
}
# What the column `temperature` holds where none was fitted.
UNFITTED_TEMPERATURES = ("none", "1", "1.0")


@dataclass(frozen=True)
class EstimationErrorRow:
    """The mean absolute error of one estimator over the targets of one kind of shift.

    `mae` is in points: the mean over seeds of the mean over targets. `targets` are test domains,
    `n` evaluations with an estimate, `lacking` those without one.
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
        """Plain values, for JSON."""
        return {**vars(self), "mae": self.mae.to_dict()}


@dataclass(frozen=True)
class EstimationErrorTable:
    """All of them; `sd_over` says what standard deviations are over: seeds, or models."""

    cells: tuple[EstimationErrorRow, ...]
    sd_over: Literal["seed", "model"]

    def rows(self) -> list[dict[str, Any]]:
        """Flat rows, for tables."""
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
        """Plain values, for JSON."""
        return {"over": self.sd_over, "cells": [cell.to_dict() for cell in self.cells]}


def estimation_errors(
    table: EvaluationTable, *, methods: Sequence[str] | None = None
) -> EstimationErrorTable:
    """Mean absolute errors of estimates on domains that the models were not trained on.

    Datasets are told apart by the column `task`, or else by what the model was trained on; shifts
    by the column `shift`. Deviations are over the column `seed`, or over models where it is empty.
    `methods` are names of measures that predict accuracy itself; without, those this package has.

    >>> table = EvaluationTable.read({"model": ["m", "n"], "trained_on": ["a", "a"], "tested_on": ["b", "b"],
    ...                     "accuracy": [0.75, 0.5], "doc": [0.5, 0.625]})
    >>> estimation_errors(table).cells[0].mae
    MeanStd(mean=18.75, sd=8.838834764831844, groups=2, left_out={})
    """
    names = select_estimates(table, methods)
    outside = select_out_of_distribution(table)
    seeds = outside.columns.get("seed", ("",) * len(outside))
    named = zip(seeds, outside.model, strict=True)
    _, runs = encode_names([seed or f"model {code}" for seed, code in named])
    groups = _group_rows(outside)
    cells = [
        _error_cells(outside.select_rows(rows), runs[rows], key, name)
        for key, rows in sorted(groups.items())
        for name in names
    ]
    merged = [cell for several in cells for cell in several]
    return EstimationErrorTable(tuple(merged), "seed" if any(seeds) else "model")


def select_estimates(table: EvaluationTable, methods: Sequence[str] | None = None) -> list[str]:
    """The measures that predict accuracy itself: those named, or those this package has."""
    if methods is not None:
        return list(select_measures(list(table.measures), methods))
    found = find_estimates(table)
    if not found:
        raise InputError(
            f"None of the measures is an estimator of this package: {', '.join(table.measures)}. "
            "Name those that predict accuracy itself with methods=[…]."
        )
    return found


def find_estimates(table: EvaluationTable) -> list[str]:
    """The measures that are called as estimators of this package are, at any temperature."""
    from oodometer.estimators import available

    known = {member.name for member in available()}
    return [name for name in table.measures if split_calibration_suffix(name)[0] in known]


def split_calibration_suffix(name: str) -> tuple[str, Calibration]:
    """The estimator in a measure's name, and what the name says of calibration.

    >>> split_calibration_suffix("atc-mc (pre-T)"), split_calibration_suffix("doc")
    (('atc-mc', 'pre-T'), ('doc', 'unsaid'))
    """
    for ending, calibration in CALIBRATION_SUFFIXES.items():
        if name.endswith(ending):
            return name.removesuffix(ending), calibration
    return name, "unsaid"


def _group_rows(table: EvaluationTable) -> dict[tuple[str, str, str], Ints]:
    """The rows of each dataset, shift and architecture."""
    blank = ("",) * len(table)
    tasks, shifts = (table.columns.get(name, blank) for name in ("task", "shift"))
    groups: dict[tuple[str, str, str], list[int]] = {}
    for row, (task, shift) in enumerate(zip(tasks, shifts, strict=True)):
        dataset = task or table.training(table.trained_on[row])
        key = dataset, shift or UNNAMED_LABEL, table.architectures[table.architecture[row]]
        groups.setdefault(key, []).append(row)
    return {key: np.array(rows) for key, rows in groups.items()}


def _error_cells(
    table: EvaluationTable, runs: Ints, key: tuple[str, str, str], name: str
) -> list[EstimationErrorRow]:
    """One cell, or two where the column `temperature` differs."""
    estimator, said = row_calibrations(table, name)
    off = 100.0 * np.abs(table.measures[name] - table.accuracy)
    found = []
    for calibration in sorted(set(said)):
        rows = np.array([one == calibration for one in said])
        known = rows & np.isfinite(off)
        found.append(
            EstimationErrorRow(
                *key, estimator, calibration,
                mae=MeanStd.from_values(_mean_or_reason(off[rows & (runs == run)]) for run in np.unique(runs[rows])),
                targets=len(np.unique(table.tested_on[known])),
                n=int(known.sum()),
                lacking=int((rows & ~known).sum()),
            )
        )  # fmt: skip
    return found


def _mean_or_reason(off: Floats) -> float | str:
    known = off[np.isfinite(off)]
    return float(known.mean()) if len(known) else "the estimator is not applicable"


def row_calibrations(table: EvaluationTable, name: str) -> tuple[str, list[Calibration]]:
    """The estimator in a measure's name, and whether each row was made pre-T or post-T.

    The name's ending says so; or the column `temperature`; or that there is a twin, pre-T.
    """
    estimator, said = split_calibration_suffix(name)
    if said == "unsaid" and f"{name}{PRE_CALIBRATION_SUFFIX}" in table.measures:
        said = "post-T"
    if said != "unsaid" or "temperature" not in table.columns:
        return estimator, [said] * len(table)
    return estimator, [_calibration_from_temperature(cell) for cell in table.columns["temperature"]]


def _calibration_from_temperature(cell: str) -> Calibration:
    if not cell:
        return "unsaid"
    return "pre-T" if cell.lower() in UNFITTED_TEMPERATURES else "post-T"
