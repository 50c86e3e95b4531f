"""Table of accuracies with one row per model and one column per test set.

Leaderboards are often published in this form. The table has a column `model` and one numeric column
per test set. Accuracies are in percent or fractions; a cell is empty if the model was not tested.
Text columns, and numeric columns in which all values are above 100 (an image size, for example),
are not test sets. They are ignored, unless several rows have the same model name: the values of
these columns are then added to the name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from oodometer.core import frames
from oodometer.core.array_types import Floats
from oodometer.core.errors import InputError, UnknownName, unknown_column
from oodometer.studies.analysis.evaluation_table import (
    DEFAULT_ARCHITECTURE,
    EvaluationTable,
    as_arrow_table,
    cells_to_text,
    check_not_mixed,
    encode_names,
    is_non_measure,
)

AccuracyUnit = Literal["percent", "fraction"]
MODEL_COLUMN = "model"
# No accuracy exceeds this value, neither in percent nor as a fraction.
MAX_PERCENT = 100.0


@dataclass(frozen=True, eq=False)
class AccuracyMatrix:
    """Accuracies of models (rows) on test sets (columns) as fractions; NaN where missing.

    `other_columns` are the columns that are not test sets.

    >>> wide = AccuracyMatrix.read({"model": ["a", "b"], "val": [90.0, 80.0], "sketch": [40.0, None]})
    >>> wide.test_sets, wide.accuracy.tolist()
    (('val', 'sketch'), [[0.9, 0.4], [0.8, nan]])
    """

    models: tuple[str, ...]
    test_sets: tuple[str, ...]
    accuracy: Floats
    other_columns: tuple[str, ...] = ()

    def column_index(self, name: str) -> int:
        """Return the index of a test set's column; if it is unknown, raise and name the closest."""
        if name not in self.test_sets:
            raise UnknownName("test set", name, self.test_sets)
        return self.test_sets.index(name)

    def accuracy_on(self, name: str) -> Floats:
        """Return the accuracy of every model on one test set."""
        return np.asarray(self.accuracy[:, self.column_index(name)])

    @classmethod
    def read(
        cls, data: Any, *, test_sets: Sequence[str] | None = None, unit: AccuracyUnit | None = None
    ) -> AccuracyMatrix:
        """Read a matrix from a file (.parquet, .csv, .csv.gz, .arrow, .feather), frame or mapping.

        `test_sets` are the names of the columns to read; None reads all columns that can be
        accuracies. Without `unit`, accuracies are in percent if any of them is above 1.
        """
        frame = as_arrow_table(data)
        try:
            return _from_frame(frame, test_sets, unit)
        except InputError as error:
            if not isinstance(data, str | Path):
                raise
            raise InputError(f"{Path(data).name}: {error}") from error


def _from_frame(
    frame: Any, requested_sets: Sequence[str] | None, unit: AccuracyUnit | None
) -> AccuracyMatrix:
    _check_frame(frame, requested_sets, unit)
    numbers = {
        name: frames.read_nullable_floats(frame, name)
        for name in _numeric_columns(frame, requested_sets)
    }
    sets = requested_sets or [
        name for name, column in numbers.items() if not _exceeds_percent(column)
    ]
    if not sets:
        raise InputError(
            "The table has no test set; expected numeric columns next to 'model'. Columns: "
            f"{', '.join(_column_examples(frame)) or 'none'}. Write accuracies as numbers."
        )
    others = tuple(
        name for name in frame.column_names if name not in (MODEL_COLUMN, "") and name not in sets
    )
    models = _unique_row_names(frame, others)
    accuracy = np.stack([numbers[name] for name in sets], axis=1)
    return AccuracyMatrix(models, tuple(sets), _to_fractions(accuracy, sets, models, unit), others)


def _column_examples(frame: Any) -> list[str]:
    """Return the first columns with their first values, such as `val ('90%')`."""
    names = [name for name in frame.column_names if name != MODEL_COLUMN][:12]
    return [f"{name} ({frame.column(name)[0].as_py()!r})" for name in names]


def _check_frame(frame: Any, requested_sets: Sequence[str] | None, unit: str | None) -> None:
    columns = frame.column_names
    if MODEL_COLUMN not in columns:
        raise InputError(
            f"{unknown_column(MODEL_COLUMN, columns)} Rename the column that names the models."
        )
    if not frame.num_rows:
        raise InputError("The table has no rows. One row is one model.")
    if isinstance(requested_sets, str) or (requested_sets is not None and not requested_sets):
        raise InputError(
            f"test_sets must be a list of names; got {requested_sets!r}. Pass None for all."
        )
    for name in requested_sets or ():
        if name not in columns or name == MODEL_COLUMN:
            known = [column for column in columns if column != MODEL_COLUMN]
            raise UnknownName("test set", name, known)
    if unit is not None and unit not in get_args(AccuracyUnit):
        raise UnknownName("unit", str(unit), get_args(AccuracyUnit))


def _numeric_columns(frame: Any, requested_sets: Sequence[str] | None) -> list[str]:
    """Return the requested or all numeric columns; raise if a column mixes text and numbers."""
    if requested_sets is not None:
        return list(requested_sets)
    numeric = []
    for name in frame.column_names:
        if name in (MODEL_COLUMN, "") or is_non_measure(name):
            continue
        if frames.type_category(frame.column(name).type) in ("number", "decimal", "null"):
            numeric.append(name)
        else:
            check_not_mixed(name, cells_to_text(frame.column(name).to_pylist()))
    return numeric


def _exceeds_percent(column: Floats) -> bool:
    """Return whether all numbers of a column are too large for an accuracy."""
    return bool((column[~np.isnan(column)] > MAX_PERCENT).all()) and not np.isnan(column).all()


def _unique_row_names(frame: Any, others: Sequence[str]) -> tuple[str, ...]:
    """Return a unique name per row; add the values of other columns to repeated model names."""
    models = frames.read_texts(frame, MODEL_COLUMN)
    repeated = {name for name, count in Counter(models).items() if count > 1}
    columns = {name: cells_to_text(frame.column(name).to_pylist()) for name in others}
    row_names = [
        f"{model} ({', '.join(f'{name}={columns[name][row]}' for name in others)})"
        if model in repeated and others
        else model
        for row, model in enumerate(models)
    ]
    first: dict[str, int] = {}
    for row, name in enumerate(row_names):
        if first.setdefault(name, row) != row:
            raise InputError(
                f"{name!r} occurs twice, in rows {first[name]} and {row}. Remove one, or give the "
                "models unique names."
            )
    return tuple(row_names)


def _to_fractions(
    accuracy: Floats, sets: Sequence[str], models: Sequence[str], unit: AccuracyUnit | None
) -> Floats:
    tops = np.max(accuracy, axis=0, initial=0.0, where=~np.isnan(accuracy))
    limit = MAX_PERCENT if unit == "percent" or (unit is None and tops.max() > 1) else 1.0
    wrong = np.argwhere((accuracy < 0) | (accuracy > limit))
    if len(wrong):
        row, column = wrong[0]
        raise InputError(
            f"Accuracies must be between 0 and {limit:g}; that of {models[row]!r} on "
            f"{sets[column]!r} is {accuracy[row, column]:g}. Correct it, or name the columns that "
            "are test sets."
        )
    low = np.flatnonzero((tops > 0) & (tops <= 1))
    if unit is None and limit == MAX_PERCENT and low.size:
        raise InputError(
            f"The accuracies on {sets[low[0]]!r} are at most 1, those on "
            f"{sets[int(tops.argmax())]!r} are not: fractions and percentages are mixed. Use one "
            "of them; if all are percentages, pass unit='percent'."
        )
    return np.asarray(accuracy / limit)


def to_evaluations(wide: AccuracyMatrix, reference: str) -> EvaluationTable:
    """Return one evaluation per model and test set, as if models were trained on the reference.

    >>> wide = AccuracyMatrix.read({"model": ["m", "n"], "val": [0.9, 0.8], "sketch": [0.4, None]})
    >>> table = to_evaluations(wide, "val")
    >>> len(table), table.accuracy.tolist(), {k: v.tolist() for k, v in table.measures.items()}
    (3, [0.4, 0.9, 0.8], {'accuracy on val': [0.9, 0.9, 0.8]})
    """
    reference_accuracy = wide.accuracy_on(reference)
    models, model_of = encode_names(wide.models)
    domains, domain_of = encode_names(wide.test_sets)
    rows, columns = np.nonzero(~np.isnan(wide.accuracy))
    order = np.lexsort((domain_of[columns], model_of[rows]))
    rows, columns = rows[order], columns[order]
    zeros = np.zeros(len(rows), dtype=np.int64)
    return EvaluationTable(
        models=models,
        architectures=(DEFAULT_ARCHITECTURE,),
        domains=domains,
        model=model_of[rows],
        architecture=zeros,
        trained_on=zeros,
        trainings=((reference,),),
        tested_on=domain_of[columns],
        accuracy=wide.accuracy[rows, columns],
        measures={f"accuracy on {reference}": reference_accuracy[rows]},
    )
