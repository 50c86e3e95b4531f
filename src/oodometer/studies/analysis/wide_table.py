"""A table of accuracies, a row a model and a column a test set, as result pages publish them.

It has the column `model` and a column of numbers a test set, in percent or as fractions, empty
where a model was not tested. Columns of text, and of numbers that all lie above 100, are no test
sets (an image size, say): they are left out by name, and tell rows of one model apart.
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from oodometer.core import frames
from oodometer.core.array_types import Floats, Ints
from oodometer.core.errors import InputError, UnknownName
from oodometer.studies.analysis import evaluation_table
from oodometer.studies.analysis.evaluation_table import DEFAULT_ARCHITECTURE, EvaluationTable

AccuracyUnit = Literal["percent", "fraction"]
MODEL_COLUMN = "model"
# Nothing above this is an accuracy, in either unit.
MAX_PERCENT = 100.0


@dataclass(frozen=True, eq=False)
class AccuracyMatrix:
    """Accuracies of models (rows) on test sets (columns) as fractions, NaN where there is none.

    `other_columns` are columns that are no test sets.

    >>> wide = AccuracyMatrix.read({"model": ["a", "b"], "val": [90.0, 80.0], "sketch": [40.0, None]})
    >>> wide.test_sets, wide.accuracy.tolist()
    (('val', 'sketch'), [[0.9, 0.4], [0.8, nan]])
    """

    models: tuple[str, ...]
    test_sets: tuple[str, ...]
    accuracy: Floats
    other_columns: tuple[str, ...] = ()

    def column_index(self, name: str) -> int:
        """The column of a test set, or an error with the nearest name."""
        if name not in self.test_sets:
            raise UnknownName("test set", name, self.test_sets)
        return self.test_sets.index(name)

    def accuracy_on(self, name: str) -> Floats:
        """Every model's accuracy on one test set."""
        return np.asarray(self.accuracy[:, self.column_index(name)])

    @classmethod
    def read(
        cls, data: Any, *, test_sets: Sequence[str] | None = None, unit: AccuracyUnit | None = None
    ) -> AccuracyMatrix:
        """The table of a file (.parquet, .csv, .csv.gz, .arrow, .feather), a frame or a mapping.

        `test_sets` names the columns to take, None for all that may be accuracies. Without a `unit`, a
        table with a number above 1 is in percent.
        """
        path = Path(data) if isinstance(data, str | Path) else None
        try:
            return _from_frame(evaluation_table.as_arrow_table(data), test_sets, unit)
        except InputError as error:
            if path is None or str(error).startswith((path.name, "There is no file")):
                raise
            raise InputError(f"{path.name}: {error}") from error


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
            "The table has no test set: columns of numbers beside 'model' were expected. There are: "
            f"{', '.join(_column_examples(frame)) or 'none'}. Add some, or write accuracies as numbers."
        )
    others = tuple(
        name for name in frame.column_names if name not in (MODEL_COLUMN, "") and name not in sets
    )
    models = _unique_row_names(frame, others)
    accuracy = np.stack([numbers[name] for name in sets], axis=1)
    return AccuracyMatrix(models, tuple(sets), _to_fractions(accuracy, sets, models, unit), others)


def _column_examples(frame: Any) -> list[str]:
    """The first columns with what they hold, such as `val ('90%')`."""
    names = [name for name in frame.column_names if name != MODEL_COLUMN][:12]
    return [f"{name} ({frame.column(name)[0].as_py()!r})" for name in names]


def _check_frame(frame: Any, requested_sets: Sequence[str] | None, unit: str | None) -> None:
    there = frame.column_names
    if MODEL_COLUMN not in there:
        near = difflib.get_close_matches(MODEL_COLUMN, [name.lower() for name in there], n=1)
        hint = f" Did you mean {next(n for n in there if n.lower() == near[0])!r}?" if near else ""
        raise InputError(
            f"The table has no column 'model'.{hint} There are: {', '.join(there[:12]) or 'none'}. "
            "Rename the column that names the models."
        )
    if not frame.num_rows:
        raise InputError("The table has no rows. One row is one model.")
    if isinstance(requested_sets, str) or (requested_sets is not None and not requested_sets):
        raise InputError(
            f"test_sets must be a list of names; got {requested_sets!r}. Give None for all."
        )
    for name in requested_sets or ():
        if name not in there or name == MODEL_COLUMN:
            raise UnknownName("test set", name, [one for one in there if one != MODEL_COLUMN])
    if unit is not None and unit not in get_args(AccuracyUnit):
        raise UnknownName("unit", str(unit), get_args(AccuracyUnit))


def _numeric_columns(frame: Any, requested_sets: Sequence[str] | None) -> list[str]:
    """Columns that hold numbers, or those wanted; text with numbers in it is refused."""
    if requested_sets is not None:
        return list(requested_sets)
    found = []
    for name in frame.column_names:
        if name in (MODEL_COLUMN, "") or evaluation_table.is_non_measure(name):
            continue
        if frames.type_category(frame.column(name).type) in ("number", "decimal", "null"):
            found.append(name)
        else:
            evaluation_table.check_not_mixed(name, _column_as_text(frame, name))
    return found


def _column_as_text(frame: Any, name: str) -> list[str]:
    return ["" if cell is None else str(cell) for cell in frame.column(name).to_pylist()]


def _exceeds_percent(column: Floats) -> bool:
    """Whether all numbers of a column are too large for an accuracy."""
    return bool((column[~np.isnan(column)] > MAX_PERCENT).all()) and not np.isnan(column).all()


def _unique_row_names(frame: Any, others: Sequence[str]) -> tuple[str, ...]:
    """Names of the rows: the model, and where it stands twice, what tells its rows apart."""
    models = frames.read_texts(frame, MODEL_COLUMN)
    twice = {name for name, count in Counter(models).items() if count > 1}
    columns = {name: _column_as_text(frame, name) for name in others}
    named = [
        f"{model} ({', '.join(f'{name}={columns[name][row]}' for name in others)})"
        if model in twice and others
        else model
        for row, model in enumerate(models)
    ]
    first: dict[str, int] = {}
    for row, name in enumerate(named):
        if first.setdefault(name, row) != row:
            raise InputError(
                f"{name!r} stands twice, in rows {first[name]} and {row}. One must go, or the "
                "models need names of their own."
            )
    return tuple(named)


def _to_fractions(
    accuracy: Floats, sets: Sequence[str], models: Sequence[str], unit: AccuracyUnit | None
) -> Floats:
    tops = np.max(accuracy, axis=0, initial=0.0, where=~np.isnan(accuracy))
    limit = MAX_PERCENT if unit == "percent" or (unit is None and tops.max() > 1) else 1.0
    wrong = np.argwhere((accuracy < 0) | (accuracy > limit))
    if len(wrong):
        row, column = wrong[0]
        raise InputError(
            f"Accuracies must lie in 0…{limit:g}; that of {models[row]!r} on {sets[column]!r} is "
            f"{accuracy[row, column]:g}. Correct it, or name the columns that are test sets."
        )
    low = np.flatnonzero((tops > 0) & (tops <= 1))
    if unit is None and limit == MAX_PERCENT and low.size:
        raise InputError(
            f"The accuracies on {sets[low[0]]!r} never pass 1, those on {sets[int(tops.argmax())]!r} "
            "do: fractions and percent are mixed. Use one of them; if all are percent, say "
            "unit='percent'."
        )
    return np.asarray(accuracy / limit)


def to_evaluations(wide: AccuracyMatrix, reference: str) -> EvaluationTable:
    """Every model on every set that it was tested on, as if trained on the reference.

    >>> wide = AccuracyMatrix.read({"model": ["m", "n"], "val": [0.9, 0.8], "sketch": [0.4, None]})
    >>> table = to_evaluations(wide, "val")
    >>> len(table), table.accuracy.tolist(), {k: v.tolist() for k, v in table.measures.items()}
    (3, [0.4, 0.9, 0.8], {'accuracy on val': [0.9, 0.9, 0.8]})
    """
    usual = wide.accuracy_on(reference)
    models, model_of = _sort_names(wide.models)
    domains, domain_of = _sort_names(wide.test_sets)
    rows, columns = np.nonzero(~np.isnan(wide.accuracy))
    order = np.lexsort((domain_of[columns], model_of[rows]))
    rows, columns = rows[order], columns[order]
    zeros = np.zeros(len(rows), dtype=np.int64)
    return EvaluationTable(
        models, (DEFAULT_ARCHITECTURE,), domains, model_of[rows], zeros, zeros, ((reference,),),
        domain_of[columns], wide.accuracy[rows, columns], {f"accuracy on {reference}": usual[rows]},
    )  # fmt: skip


def _sort_names(names: tuple[str, ...]) -> tuple[tuple[str, ...], Ints]:
    """The names sorted, and where each of them has gone."""
    ordered = tuple(sorted(names))
    place = {name: j for j, name in enumerate(ordered)}
    return ordered, np.array([place[name] for name in names], dtype=np.int64)
