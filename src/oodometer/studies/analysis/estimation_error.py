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

from oodometer.core.errors import InputError
from oodometer.core.softmax_kernels import Floats, Ints
from oodometer.studies.analysis._evaluation_columns import PRE, chosen, codes
from oodometer.studies.analysis._mean_std import Spread
from oodometer.studies.analysis.evaluation_table import Table
from oodometer.studies.analysis.id_ood_pairs import UNNAMED
from oodometer.studies.analysis.rank_correlation import outside_of_training

Calibration = Literal["pre-T", "post-T", "unsaid"]
# How names of estimates end that were made at a temperature of 1, or at a fitted one.
ENDINGS: dict[str, Calibration] = {PRE: "pre-T", " (post-T)": "post-T"}
# What the column `temperature` holds where none was fitted.
UNFITTED = ("none", "1", "1.0")


@dataclass(frozen=True)
class ShiftError:
    """The mean absolute error of one estimator over the targets of one kind of shift.

    `mae` is in points: the mean over seeds of the mean over targets. `targets` are test domains,
    `n` evaluations with an estimate, `lacking` those without one.
    """

    dataset: str
    shift: str
    architecture: str
    estimator: str
    calibration: Calibration
    mae: Spread
    targets: int
    n: int
    lacking: int

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {**vars(self), "mae": self.mae.to_dict()}


@dataclass(frozen=True)
class ShiftErrors:
    """All of them; `over` says what standard deviations are over: seeds, or models."""

    cells: tuple[ShiftError, ...]
    over: Literal["seed", "model"]

    def rows(self) -> list[dict[str, Any]]:
        """Flat rows, for tables."""
        return [
            {
                **{key: value for key, value in vars(cell).items() if key != "mae"},
                "mae": cell.mae.mean,
                "sd": cell.mae.sd,
                f"{self.over}s": cell.mae.groups,
            }
            for cell in self.cells
        ]

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {"over": self.over, "cells": [cell.to_dict() for cell in self.cells]}


def shift_errors(table: Table, *, estimators: Sequence[str] | None = None) -> ShiftErrors:
    """Mean absolute errors of estimates on domains that the models were not trained on.

    Datasets are told apart by the column `task`, or else by what the model was trained on; shifts
    by the column `shift`. Deviations are over the column `seed`, or over models where it is empty.
    `estimators` are names of measures that predict accuracy itself; without, those this package has.

    >>> table = Table.read({"model": ["m", "n"], "trained_on": ["a", "a"], "tested_on": ["b", "b"],
    ...                     "accuracy": [0.75, 0.5], "doc": [0.5, 0.625]})
    >>> shift_errors(table).cells[0].mae
    Spread(mean=18.75, sd=8.838834764831844, groups=2, left_out={})
    """
    names = direct(table, estimators)
    outside = outside_of_training(table)
    seeds = outside.columns.get("seed", ("",) * len(outside))
    named = zip(seeds, outside.model, strict=True)
    _, runs = codes([seed or f"model {code}" for seed, code in named])
    groups = _groups(outside)
    cells = [
        _cell(outside.rows(rows), runs[rows], key, name)
        for key, rows in sorted(groups.items())
        for name in names
    ]
    merged = [cell for several in cells for cell in several]
    return ShiftErrors(tuple(merged), "seed" if any(seeds) else "model")


def direct(table: Table, names: Sequence[str] | None = None) -> list[str]:
    """The measures that predict accuracy itself: those named, or those this package has."""
    if names is not None:
        return list(chosen(list(table.measures), names))
    found = estimates_in(table)
    if not found:
        raise InputError(
            f"None of the measures is an estimator of this package: {', '.join(table.measures)}. "
            "Name those that predict accuracy itself with estimators=[…]."
        )
    return found


def estimates_in(table: Table) -> list[str]:
    """The measures that are called as estimators of this package are, at any temperature."""
    from oodometer.estimators import every

    known = {member.name for member in every()}
    return [name for name in table.measures if split(name)[0] in known]


def split(name: str) -> tuple[str, Calibration]:
    """The estimator in a measure's name, and what the name says of calibration.

    >>> split("atc-mc (pre-T)"), split("doc")
    (('atc-mc', 'pre-T'), ('doc', 'unsaid'))
    """
    for ending, calibration in ENDINGS.items():
        if name.endswith(ending):
            return name.removesuffix(ending), calibration
    return name, "unsaid"


def _groups(table: Table) -> dict[tuple[str, str, str], Ints]:
    """The rows of each dataset, shift and architecture."""
    blank = ("",) * len(table)
    tasks, shifts = (table.columns.get(name, blank) for name in ("task", "shift"))
    groups: dict[tuple[str, str, str], list[int]] = {}
    for row, (task, shift) in enumerate(zip(tasks, shifts, strict=True)):
        dataset = task or table.training(table.trained_on[row])
        key = dataset, shift or UNNAMED, table.architectures[table.architecture[row]]
        groups.setdefault(key, []).append(row)
    return {key: np.array(rows) for key, rows in groups.items()}


def _cell(table: Table, runs: Ints, key: tuple[str, str, str], name: str) -> list[ShiftError]:
    """One cell, or two where the column `temperature` differs."""
    estimator, said = calibrations(table, name)
    off = 100.0 * np.abs(table.measures[name] - table.accuracy)
    found = []
    for calibration in sorted(set(said)):
        rows = np.array([one == calibration for one in said])
        known = rows & np.isfinite(off)
        found.append(
            ShiftError(
                *key, estimator, calibration,
                mae=Spread.of(_mean(off[rows & (runs == run)]) for run in np.unique(runs[rows])),
                targets=len(np.unique(table.tested_on[known])),
                n=int(known.sum()),
                lacking=int((rows & ~known).sum()),
            )
        )  # fmt: skip
    return found


def _mean(off: Floats) -> float | str:
    known = off[np.isfinite(off)]
    return float(known.mean()) if len(known) else "the estimator has no answer"


def calibrations(table: Table, name: str) -> tuple[str, list[Calibration]]:
    """The estimator in a measure's name, and whether each row was made pre-T or post-T.

    The name's ending says so; or the column `temperature`; or that there is a twin, pre-T.
    """
    estimator, said = split(name)
    if said == "unsaid" and f"{name}{PRE}" in table.measures:
        said = "post-T"
    if said != "unsaid" or "temperature" not in table.columns:
        return estimator, [said] * len(table)
    return estimator, [_of_temperature(cell) for cell in table.columns["temperature"]]


def _of_temperature(cell: str) -> Calibration:
    if not cell:
        return "unsaid"
    return "pre-T" if cell.lower() in UNFITTED else "post-T"
