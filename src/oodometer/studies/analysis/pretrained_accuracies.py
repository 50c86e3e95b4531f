"""Accuracies of the pretrained networks on ImageNet and its variants (Wenzel et al., Fig. S1).

The accuracy of the network that a model was fine-tuned from is a property of the model. A table of
evaluations has it in columns `pretrained.…`, for example `pretrained.imagenet-a`, as a fraction.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from oodometer.core.array_types import Floats
from oodometer.core.errors import InputError
from oodometer.models.timm import TIMM_PREFIX
from oodometer.studies.analysis.evaluation_table import PRETRAINED_PREFIX, EvaluationTable
from oodometer.studies.analysis.wide_table import AccuracyMatrix


def add_pretrained_accuracies(table: EvaluationTable, data: Any) -> EvaluationTable:
    """Add the accuracies of the pretrained networks to a table of evaluations.

    Parameters
    ----------
    table : EvaluationTable
        Evaluations of models on domains.
    data : path, frame or mapping
        Table with one row per pretrained network. The column `model` names the architectures as
        `table` does; ``resnet50d`` is also the architecture ``timm:resnet50d``. Every other numeric
        column holds accuracies on one test set, for example ImageNet, -A, -R, -Real, -Sketch and
        -V2, in percent or as fractions.

    Returns
    -------
    EvaluationTable
        The table with one more column ``pretrained.<test set>`` per test set. The cells of
        architectures that are not in `data` are empty.

    Raises
    ------
    InputError
        If no architecture of the table is in `data`, or `data` cannot be read.

    Examples
    --------
    >>> table = EvaluationTable.read({"model": ["m"], "architecture": ["resnet50d"],
    ...     "trained_on": ["a"], "tested_on": ["b"], "accuracy": [0.5]}, measures=())
    >>> published = {"model": ["resnet50d"], "imagenet": [80.5]}
    >>> add_pretrained_accuracies(table, published).columns["pretrained.imagenet"]
    ('0.805',)
    """
    accuracies = AccuracyMatrix.read(data)
    rows = {name: row for row, name in enumerate(accuracies.models)}
    rows |= {f"{TIMM_PREFIX}{name}": row for name, row in rows.items()}
    if not set(table.architectures) & set(rows):
        raise InputError(
            "The table of pretrained networks has none of the architectures "
            f"{', '.join(table.architectures[:6])}; its models are "
            f"{', '.join(accuracies.models[:6])}. Name its models as the architectures."
        )
    names = [table.architectures[code] for code in table.architecture]
    columns = {
        f"{PRETRAINED_PREFIX}{test_set}": tuple(
            _cell(accuracies.accuracy[rows[name], j]) if name in rows else "" for name in names
        )
        for j, test_set in enumerate(accuracies.test_sets)
    }
    return replace(table, columns={**table.columns, **columns})


def pretrained_errors(table: EvaluationTable) -> dict[str, Floats]:
    """Return the error (1 − accuracy) of each model's pretrained network, by test set.

    An array has one value per model of the table; NaN if it is not known.

    >>> table = EvaluationTable.read({"model": ["m", "n"], "trained_on": ["a", "a"], "tested_on":
    ...     ["b", "b"], "accuracy": [0.5, 0.6], "pretrained.imagenet": [0.75, None]}, measures=())
    >>> {name: errors.tolist() for name, errors in pretrained_errors(table).items()}
    {'imagenet': [0.25, nan]}
    """
    errors = {}
    for column in (name for name in table.columns if name.startswith(PRETRAINED_PREFIX)):
        values: Floats = np.full(len(table.models), np.nan)
        for row, cell in enumerate(table.columns[column]):
            if cell:
                values[table.model[row]] = 1.0 - _read_accuracy(column, cell)
        errors[column.removeprefix(PRETRAINED_PREFIX)] = values
    return errors


def _cell(accuracy: float) -> str:
    return "" if np.isnan(accuracy) else repr(float(accuracy))


def _read_accuracy(column: str, cell: str) -> float:
    try:
        accuracy = float(cell)
    except ValueError:
        accuracy = np.nan
    if not 0 <= accuracy <= 1:
        raise InputError(
            f"The column {column!r} must hold accuracies from 0 to 1; got {cell!r}. Correct it, or "
            "leave the cell empty if the accuracy is not known."
        )
    return accuracy
