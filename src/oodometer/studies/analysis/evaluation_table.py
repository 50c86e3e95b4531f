"""The table of evaluations that all protocols read: a row is one model tested on one domain.

| column | what it holds |
| --- | --- |
| `model` | the name of the model, one of its own |
| `architecture` | optional: without it, all models are of one architecture |
| `trained_on` | the domain it was trained on, or several: `a + b` |
| `tested_on` | the domain of this row |
| `accuracy` | of the model there, a fraction from 0 to 1 |

A wide table has one more column a measure: every further column of numbers but `seed`, `n` and the
like (`_evaluation_columns.NON_MEASURE_COLUMNS`) and those that start with `recipe.`. A long one has the columns `measure` and
`value` and a row a measure; rows of one evaluation agree in accuracy. An empty, NaN or infinite
value is no answer. Evaluations whose `converged` is false are left out and counted. A model that
was measured again has a row each time, told apart by `replicate`; each counts as a model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from oodometer.core import frames
from oodometer.core.errors import InputError
from oodometer.core.softmax_kernels import Bools, Floats, Ints
from oodometer.studies.analysis import _evaluation_columns

# The name of the architecture where the table has none.
DEFAULT_ARCHITECTURE = "all"


@dataclass(frozen=True, eq=False)
class EvaluationTable:
    """Evaluations: a row is one model tested on one domain.

    Names are sorted, and the integer columns are places in them. Accuracies are fractions, NaN
    where unknown; measures are NaN where there was no answer. `columns` has what else stands in
    the table, as text; `left_out` how many rows were not taken, by the reason.

    >>> table = EvaluationTable.read({"model": ["m", "m"], "trained_on": ["a", "a"], "tested_on": ["a", "b"],
    ...                     "accuracy": [0.9, 0.7], "ni": [0.8, 0.6]})
    >>> table.domains, table.in_distribution.tolist(), table.measures["ni"].tolist()
    (('a', 'b'), [True, False], [0.8, 0.6])
    """

    models: tuple[str, ...]
    architectures: tuple[str, ...]
    domains: tuple[str, ...]
    model: Ints
    architecture: Ints
    trained_on: Ints
    trainings: tuple[tuple[str, ...], ...]
    tested_on: Ints
    accuracy: Floats
    measures: Mapping[str, Floats]
    columns: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    left_out: Mapping[str, int] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.model)

    @property
    def in_distribution(self) -> Bools:
        """Rows tested on a domain that the model was trained on."""
        return self.domain_in_training[self.trained_on, self.tested_on]

    @property
    def domain_in_training(self) -> Bools:
        """Which training sets have which domains: (trainings, domains)."""
        rows = [[name in training for name in self.domains] for training in self.trainings]
        return np.array(rows, dtype=np.bool_).reshape(len(self.trainings), len(self.domains))

    def training(self, code: int) -> str:
        """A training set as files have it: its domains, joined."""
        return _evaluation_columns.DOMAIN_SEPARATOR.join(self.trainings[code])

    def select_rows(self, mask_or_indices: Bools | Ints) -> EvaluationTable:
        """Some of its rows, by marks or places; codes and names as they are."""
        marks = np.asarray(mask_or_indices)
        place = np.flatnonzero(marks) if marks.dtype == np.bool_ else marks.astype(np.int64)
        return replace(
            self,
            model=self.model[place],
            architecture=self.architecture[place],
            trained_on=self.trained_on[place],
            tested_on=self.tested_on[place],
            accuracy=self.accuracy[place],
            measures={name: values[place] for name, values in self.measures.items()},
            columns={name: tuple(texts[j] for j in place) for name, texts in self.columns.items()},
        )

    @classmethod
    def read(cls, data: Any, *, measures: Sequence[str] | None = None) -> EvaluationTable:
        """The table of a file (.parquet, .csv, .csv.gz, .arrow, .feather), a frame or a mapping.

        `measures` names the columns (or, in a long table, the measures) to take; () for accuracies
        alone; None for all there are.
        """
        if isinstance(measures, str):
            raise InputError(
                f"measures must be a list of names; got {measures!r}. Give [{measures!r}]."
            )
        path = Path(data) if isinstance(data, str | Path) else None
        try:
            return _from_frame(_evaluation_columns.as_arrow_table(data), measures)
        except InputError as error:
            if path is None or str(error).startswith((path.name, "There is no file")):
                raise
            raise InputError(f"{path.name}: {error}") from error


def _from_frame(frame: Any, requested_measures: Sequence[str] | None) -> EvaluationTable:
    # pandas writes row names under an empty name into CSV.
    frame = frame.drop_columns([""]) if "" in frame.column_names else frame
    _evaluation_columns.check_required_columns(frame)
    frame = _evaluation_columns.rename_replicates(frame)
    table = _table_without_measures(
        frame, _evaluation_columns.read_text_columns(frame, requested_measures)
    )
    _check_models_consistent(table)
    long = set(_evaluation_columns.LONG_COLUMNS) <= set(frame.column_names)
    return _drop_unconverged((_from_long if long else _from_wide)(table, frame, requested_measures))


def _table_without_measures(frame: Any, columns: Mapping[str, tuple[str, ...]]) -> EvaluationTable:
    """The table without measures, a row for every row of the frame."""
    models, model = _evaluation_columns.encode_names(frames.read_texts(frame, "model"))
    named = "architecture" in frame.column_names
    kinds = (
        frames.read_texts(frame, "architecture") if named else [DEFAULT_ARCHITECTURE] * len(model)
    )
    architectures, architecture = _evaluation_columns.encode_names(kinds)
    trainings, trained_on = _evaluation_columns.parse_training_sets(
        *_evaluation_columns.encode_names(frames.read_texts(frame, "trained_on"))
    )
    tests = frames.read_texts(frame, "tested_on")
    domains = tuple(sorted({*tests, *(name for training in trainings for name in training)}))
    _, places = _evaluation_columns.encode_names([*domains, *tests])
    return EvaluationTable(
        models, architectures, domains, model, architecture, trained_on, trainings,
        places[len(domains) :], _evaluation_columns.read_accuracies(frame), {}, columns,
    )  # fmt: skip


def _drop_unconverged(table: EvaluationTable) -> EvaluationTable:
    """The rows of models that converged, or of which that is unknown."""
    said = table.columns.get("converged", ())
    lost = np.array(
        [cell.lower() in _evaluation_columns.FALSE_TEXTS for cell in said], dtype=np.bool_
    )
    if not lost.any():
        return table
    if lost.all():
        raise InputError(
            f"No row is left: converged is false in all {len(lost)}. Give models that converged, or "
            "leave the column out."
        )
    return replace(table.select_rows(~lost), left_out={"not converged": int(lost.sum())})


def _check_models_consistent(table: EvaluationTable) -> None:
    """A model is of one architecture and trained once; two of one name can't be told apart."""
    first = np.zeros(len(table.models), dtype=np.int64)
    first[table.model[::-1]] = np.arange(len(table))[::-1]
    for codes, what, name in (
        (table.architecture, "of the architectures", table.architectures.__getitem__),
        (table.trained_on, "trained on", table.training),
    ):
        odd = np.flatnonzero(codes != codes[first[table.model]])
        if odd.size:
            row, model = odd[0], table.model[odd[0]]
            raise InputError(
                f"The model {table.models[model]!r} is {what} {name(codes[first[model]])!r} and "
                f"{name(codes[row])!r}; a model has one. Give each model a name of its own."
            )


def _from_wide(
    table: EvaluationTable, frame: Any, requested_measures: Sequence[str] | None
) -> EvaluationTable:
    twice = _find_duplicate(table.model * len(table.domains) + table.tested_on)
    if twice is not None:
        raise _duplicate_error(table, *twice)
    taken = {*_evaluation_columns.REQUIRED_COLUMNS, "architecture", *table.columns}
    there = [
        name
        for name in frame.column_names
        if name not in taken and not _evaluation_columns.is_non_measure(name)
    ]
    if requested_measures is None:
        for name in table.columns:
            _evaluation_columns.check_not_mixed(name, table.columns[name])
    names = _evaluation_columns.select_measures(there, requested_measures)
    return replace(
        table,
        measures={
            n: _evaluation_columns.infinite_to_nan(frames.read_nullable_floats(frame, n))
            for n in names
        },
    )


def _from_long(
    table: EvaluationTable, frame: Any, requested_measures: Sequence[str] | None
) -> EvaluationTable:
    names, measure = _evaluation_columns.encode_names(frames.read_texts(frame, "measure"))
    twice = _find_duplicate(
        (table.model * len(table.domains) + table.tested_on) * len(names) + measure
    )
    if twice is not None:
        raise _duplicate_error(table, *twice, measure_text=f" of {names[measure[twice[0]]]!r}")
    values = _evaluation_columns.infinite_to_nan(frames.read_nullable_floats(frame, "value"))
    keys = table.model * len(table.domains) + table.tested_on
    _, first, evaluation = np.unique(keys, return_index=True, return_inverse=True)
    accuracy = _consistent_accuracies(table, evaluation, len(first))
    measures = {}
    place = dict(zip(names, _rows_by_code(measure), strict=True))
    for name in _evaluation_columns.select_measures(names, requested_measures):
        measures[name] = np.full(len(first), np.nan)
        measures[name][evaluation[place[name]]] = values[place[name]]
    return replace(table.select_rows(first), accuracy=accuracy, measures=measures)


def _rows_by_code(codes: Ints) -> list[Ints]:
    """The rows of every code 0, 1, …, of which each has some."""
    order = np.argsort(codes, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(codes[order])) + 1)


def _consistent_accuracies(table: EvaluationTable, evaluation: Ints, count: int) -> Floats:
    """The accuracy of every evaluation, which those of its rows that have one agree in."""
    known = np.flatnonzero(~np.isnan(table.accuracy))
    accuracy: Floats = np.full(count, np.nan)
    accuracy[evaluation[known]] = table.accuracy[known]
    off = known[table.accuracy[known] != accuracy[evaluation[known]]]
    if off.size:
        row, other = table.accuracy[off[0]], accuracy[evaluation[off[0]]]
        raise InputError(
            f"The accuracy of {_evaluation_text(table, off[0])} is {row:g} in one row and {other:g} in "
            "another. Rows of one evaluation must agree: correct one."
        )
    return accuracy


def _find_duplicate(keys: Ints) -> tuple[int, int] | None:
    """The first row whose key stood before, and where."""
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    again = np.flatnonzero(first[inverse] != np.arange(len(keys)))
    return (int(again[0]), int(first[inverse[again[0]]])) if again.size else None


def _duplicate_error(
    table: EvaluationTable, row: int, first_row: int, measure_text: str = ""
) -> InputError:
    return InputError(
        f"{_evaluation_text(table, row)} stands twice{measure_text}, in rows {first_row} and {row}. One must go, or "
        "the models need names of their own."
    )


def _evaluation_text(table: EvaluationTable, row: int) -> str:
    return f"{table.models[table.model[row]]!r} on {table.domains[table.tested_on[row]]!r}"
