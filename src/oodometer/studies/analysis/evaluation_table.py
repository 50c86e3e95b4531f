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

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from oodometer.core import frames
from oodometer.core.array_types import Bools, Floats, Ints
from oodometer.core.errors import InputError, UnknownName, format_error
from oodometer.data.prediction_files import ScoreFile

REQUIRED_COLUMNS = ("model", "trained_on", "tested_on", "accuracy")
LONG_COLUMNS = ("measure", "value")
# Columns that are no measures although they may hold numbers.
NON_MEASURE_COLUMNS = (
    "seed", "replicate", "converged", "n", "task", "shift", "group", "environment", "temperature",
    "reason", "low", "high", "seconds", "source", "dataset", "settings", "split", "facts",
)  # fmt: skip
RECIPE_PREFIX = "recipe."
# What tells apart the rows of a model that was measured again.
REPLICATE_COLUMN = "replicate"
# Between the domains of a training set.
DOMAIN_SEPARATOR = " + "
# What the names of estimates end in whose scores were left as they are, without a temperature.
PRE_CALIBRATION_SUFFIX = " (pre-T)"
# How `converged` is denied.
FALSE_TEXTS = ("false", "0", "0.0", "no")


def as_arrow_table(data: Any) -> Any:
    """An Arrow table of whatever holds one."""
    if isinstance(data, str | Path):
        data = ScoreFile.open(data).content
    if not isinstance(data, Mapping):
        if not any(hasattr(data, f"__arrow_c_{form}__") for form in ("stream", "array")):
            raise InputError(
                f"{type(data).__name__} is no table. Give a path, a pandas, polars or pyarrow table, "
                "or a mapping of columns."
            )
        return frames.drop_pandas_index(frames.as_table(data))
    import pyarrow as pa

    try:
        return pa.table({str(name): pa.array(column) for name, column in data.items()})
    except (pa.ArrowException, ValueError, TypeError) as error:
        reason = format_error(error, first_line=True)
        raise InputError(
            f"The columns make no table: {reason}. Give columns of one length."
        ) from error


def check_required_columns(frame: Any) -> None:
    """Refuse a table without rows or without a column that it must have."""
    there = frame.column_names
    needed = (*REQUIRED_COLUMNS, *(LONG_COLUMNS if "measure" in there else ()))
    missing = [name for name in needed if name not in there]
    if missing:
        others = [name for name in there if name not in needed]
        near = [hit for name in missing for hit in difflib.get_close_matches(name, others, n=1)]
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise InputError(
            f"The table has no column {' or '.join(map(repr, missing))}; {', '.join(needed)} are "
            f"needed.{hint} There are: {', '.join(there[:12]) or 'none'}. Rename or add what is missing."
        )
    if not frame.num_rows:
        raise InputError("The table has no rows. One row is one model tested on one domain.")


def rename_replicates(frame: Any) -> Any:
    """The table with a model a replicate; `recipe.model` then says which models were one."""
    if REPLICATE_COLUMN not in frame.column_names:
        return frame
    import pyarrow as pa

    names = frames.read_texts(frame, "model")
    again = _cells_to_text(frame.column(REPLICATE_COLUMN).to_pylist())
    first = dict(zip(names, again, strict=True))
    several = {name for name, cell in zip(names, again, strict=True) if cell != first[name]}
    apart = [
        f"{name} ({REPLICATE_COLUMN} {cell})" if cell and name in several else name
        for name, cell in zip(names, again, strict=True)
    ]
    place = frame.column_names.index("model")
    told = frame.set_column(place, "model", pa.array(apart))
    one = f"{RECIPE_PREFIX}model"
    return (
        told
        if not several or one in told.column_names
        else told.append_column(one, pa.array(names))
    )


def encode_names(names: Sequence[str]) -> tuple[tuple[str, ...], Ints]:
    """The distinct names, sorted, and the place of each."""
    distinct = sorted(set(names))
    place = {name: j for j, name in enumerate(distinct)}
    return tuple(distinct), np.array([place[name] for name in names], dtype=np.int64)


def parse_training_sets(
    names: Sequence[str], codes: Ints
) -> tuple[tuple[tuple[str, ...], ...], Ints]:
    """Training sets as sorted domains, so that `b + a` is `a + b`."""
    parts = [
        tuple(sorted({part.strip() for part in name.split(DOMAIN_SEPARATOR)} - {""}))
        for name in names
    ]
    distinct = sorted(set(parts))
    return tuple(distinct), np.array([distinct.index(part) for part in parts])[codes]


def read_accuracies(frame: Any) -> Floats:
    """The accuracies, NaN where unknown; percent are refused."""
    found = frames.read_nullable_floats(frame, "accuracy")
    wrong = np.flatnonzero((found < 0) | (found > 1))
    if wrong.size:
        value = found[wrong[0]]
        cure = "Divide percent by 100." if 1 < value <= 100 else "Correct it."
        raise InputError(
            f"accuracy must be a fraction from 0 to 1; row {wrong[0]} is {value:g}. {cure}"
        )
    return found


def read_text_columns(
    frame: Any, requested_measures: Sequence[str] | None
) -> dict[str, tuple[str, ...]]:
    """What is neither needed nor a measure, as text; nothing where it is empty."""
    taken = {*REQUIRED_COLUMNS, *LONG_COLUMNS, "architecture", *(requested_measures or ())}
    names = [name for name in frame.column_names if name not in taken]
    kept = [name for name in names if is_non_measure(name) or _is_text(frame, name)]
    return {name: _cells_to_text(frame.column(name).to_pylist()) for name in kept}


def _cells_to_text(cells: Sequence[Any]) -> tuple[str, ...]:
    return tuple("" if cell is None else str(cell) for cell in cells)


def is_non_measure(name: str) -> bool:
    """Whether a column of this name is no measure."""
    return name in NON_MEASURE_COLUMNS or name.startswith(RECIPE_PREFIX)


def _is_text(frame: Any, name: str) -> bool:
    category = frames.type_category(frames.value_type(frame.column(name).type))
    return category in ("text", "boolean")


def select_measures(available: Sequence[str], requested: Sequence[str] | None) -> Sequence[str]:
    """The measures to take of those that are there: all, or those asked for."""
    for name in requested or ():
        if name not in available:
            raise UnknownName("measure", name, available)
    if requested is None and not available:
        raise InputError(
            "The table has no measure: one column of numbers a measure, or the columns measure and "
            "value, were expected. Add one, or ask for accuracies alone with measures=()."
        )
    return available if requested is None else list(dict.fromkeys(requested))


def infinite_to_nan(values: Floats) -> Floats:
    """The values, NaN where one is infinite; in place."""
    values[~np.isfinite(values)] = np.nan
    return values


def check_not_mixed(name: str, cells: Sequence[str]) -> None:
    """A text column with numbers in it is a measure with a slip of the pen."""
    if is_non_measure(name):
        return
    distinct = {cell for cell in cells if cell}
    numbers = {cell for cell in distinct if _is_number(cell)}
    if numbers and numbers != distinct:
        row = next(j for j, cell in enumerate(cells) if cell and cell not in numbers)
        raise InputError(
            f"The column {name!r} holds both numbers and text: row {row} is {cells[row]!r}. Correct "
            "it, leave the column out, or name the measures to be taken."
        )


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


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
        return DOMAIN_SEPARATOR.join(self.trainings[code])

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
            return _from_frame(as_arrow_table(data), measures)
        except InputError as error:
            if path is None or str(error).startswith((path.name, "There is no file")):
                raise
            raise InputError(f"{path.name}: {error}") from error


def _from_frame(frame: Any, requested_measures: Sequence[str] | None) -> EvaluationTable:
    # pandas writes row names under an empty name into CSV.
    frame = frame.drop_columns([""]) if "" in frame.column_names else frame
    check_required_columns(frame)
    frame = rename_replicates(frame)
    table = _table_without_measures(frame, read_text_columns(frame, requested_measures))
    _check_models_consistent(table)
    long = set(LONG_COLUMNS) <= set(frame.column_names)
    return _drop_unconverged((_from_long if long else _from_wide)(table, frame, requested_measures))


def _table_without_measures(frame: Any, columns: Mapping[str, tuple[str, ...]]) -> EvaluationTable:
    """The table without measures, a row for every row of the frame."""
    models, model = encode_names(frames.read_texts(frame, "model"))
    named = "architecture" in frame.column_names
    kinds = (
        frames.read_texts(frame, "architecture") if named else [DEFAULT_ARCHITECTURE] * len(model)
    )
    architectures, architecture = encode_names(kinds)
    trainings, trained_on = parse_training_sets(
        *encode_names(frames.read_texts(frame, "trained_on"))
    )
    tests = frames.read_texts(frame, "tested_on")
    domains = tuple(sorted({*tests, *(name for training in trainings for name in training)}))
    _, places = encode_names([*domains, *tests])
    return EvaluationTable(
        models, architectures, domains, model, architecture, trained_on, trainings,
        places[len(domains) :], read_accuracies(frame), {}, columns,
    )  # fmt: skip


def _drop_unconverged(table: EvaluationTable) -> EvaluationTable:
    """The rows of models that converged, or of which that is unknown."""
    said = table.columns.get("converged", ())
    lost = np.array([cell.lower() in FALSE_TEXTS for cell in said], dtype=np.bool_)
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
    taken = {*REQUIRED_COLUMNS, "architecture", *table.columns}
    there = [name for name in frame.column_names if name not in taken and not is_non_measure(name)]
    if requested_measures is None:
        for name in table.columns:
            check_not_mixed(name, table.columns[name])
    names = select_measures(there, requested_measures)
    return replace(
        table,
        measures={n: infinite_to_nan(frames.read_nullable_floats(frame, n)) for n in names},
    )


def _from_long(
    table: EvaluationTable, frame: Any, requested_measures: Sequence[str] | None
) -> EvaluationTable:
    names, measure = encode_names(frames.read_texts(frame, "measure"))
    twice = _find_duplicate(
        (table.model * len(table.domains) + table.tested_on) * len(names) + measure
    )
    if twice is not None:
        raise _duplicate_error(table, *twice, measure_text=f" of {names[measure[twice[0]]]!r}")
    values = infinite_to_nan(frames.read_nullable_floats(frame, "value"))
    keys = table.model * len(table.domains) + table.tested_on
    _, first, evaluation = np.unique(keys, return_index=True, return_inverse=True)
    accuracy = _consistent_accuracies(table, evaluation, len(first))
    measures = {}
    place = dict(zip(names, _rows_by_code(measure), strict=True))
    for name in select_measures(names, requested_measures):
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
