"""Table of evaluations, the input of all analyses: one row is one model tested on one domain.

| column | content |
| --- | --- |
| `model` | name of the model, unique per model |
| `architecture` | optional; if it is missing, all models have the same architecture |
| `trained_on` | training domain, or several domains in the form `a + b` |
| `tested_on` | test domain of the row |
| `accuracy` | accuracy of the model on the test domain, a fraction from 0 to 1 |

The table may be wide or long. In a wide table, each measure is a column: every other numeric column
is a measure, except the columns in `NON_MEASURE_COLUMNS` and those that start with `recipe.` or
`pretrained.`. A long table has the columns `measure` and `value`, and each evaluation has one row
per measure; all of these rows have the same accuracy. An empty, NaN or infinite value counts as
missing. Evaluations whose column `converged` is false are left out and counted. Rows that differ in
the column `replicate` are repeated measurements of a model; each replicate counts as a separate
model.

The columns are numpy arrays of integer codes and not a pandas frame. Grouping 112,118 rows by codes
takes 0.3 to 8 ms; `DataFrame.groupby` takes 2 to 11 ms. Besides, importing pandas takes longer than
most analyses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from oodometer.core import frames
from oodometer.core.array_types import Bools, Floats, Ints
from oodometer.core.errors import InputError, UnknownName, did_you_mean, format_error
from oodometer.data.prediction_files import ScoreFile

REQUIRED_COLUMNS = ("model", "trained_on", "tested_on", "accuracy")
LONG_COLUMNS = ("measure", "value")
# Columns that are not measures although they may hold numbers.
NON_MEASURE_COLUMNS = (
    "seed", "replicate", "converged", "n", "task", "shift", "group", "environment", "temperature",
    "reason", "low", "high", "seconds", "source", "dataset", "settings", "split", "facts",
)  # fmt: skip
RECIPE_PREFIX = "recipe."
# Columns with the accuracy of the network that a model was fine-tuned from, per test set.
PRETRAINED_PREFIX = "pretrained."
# Column that distinguishes repeated measurements of a model.
REPLICATE_COLUMN = "replicate"
# Separator between the domains of a training set.
DOMAIN_SEPARATOR = " + "
# Suffix in the name of an estimate that was computed without temperature scaling.
PRE_CALIBRATION_SUFFIX = " (pre-T)"
# Texts in the column `converged` that mean false.
FALSE_TEXTS = ("false", "0", "0.0", "no")
# Name of the architecture if the table has no column `architecture`.
DEFAULT_ARCHITECTURE = "all"


@dataclass(frozen=True, eq=False)
class EvaluationTable:
    """Evaluations: one row is one model tested on one domain.

    Models, architectures, training sets and domains are stored as integer columns, which are
    indices into tuples of sorted names.

    Parameters
    ----------
    models, architectures, domains : tuple of str
        Sorted names.
    model, architecture, tested_on : array of int, shape (n,)
        Indices into `models`, `architectures` and `domains`.
    trained_on : array of int, shape (n,)
        Indices into `trainings`.
    trainings : tuple of tuple of str
        Training sets. Each one is a tuple of its domains, sorted by name.
    accuracy : array of shape (n,)
        Accuracies as fractions; NaN if unknown.
    measures : mapping of str to array of shape (n,)
        Values per measure; NaN if missing.
    columns : mapping of str to tuple of str
        All other columns, as text.
    left_out : mapping of str to int
        Number of rows left out, by reason.

    Examples
    --------
    >>> table = EvaluationTable.read({"model": ["m", "m"], "trained_on": ["a", "a"],
    ...     "tested_on": ["a", "b"], "accuracy": [0.9, 0.7], "ni": [0.8, 0.6]})
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
        """Mask of the rows tested on a domain that the model was trained on."""
        return self.domain_in_training[self.trained_on, self.tested_on]

    @property
    def domain_in_training(self) -> Bools:
        """Mask of the domains that belong to each training set, shape (trainings, domains)."""
        rows = [[name in training for name in self.domains] for training in self.trainings]
        return np.array(rows, dtype=np.bool_).reshape(len(self.trainings), len(self.domains))

    def training(self, code: int) -> str:
        """Return a training set as it is written in files, for example `a + b`."""
        return DOMAIN_SEPARATOR.join(self.trainings[code])

    def select_rows(self, mask_or_indices: Bools | Ints) -> EvaluationTable:
        """Return a table with some of the rows and the same tuples of names."""
        selector = np.asarray(mask_or_indices)
        is_mask = selector.dtype == np.bool_
        rows = np.flatnonzero(selector) if is_mask else selector.astype(np.int64)
        return replace(
            self,
            model=self.model[rows],
            architecture=self.architecture[rows],
            trained_on=self.trained_on[rows],
            tested_on=self.tested_on[rows],
            accuracy=self.accuracy[rows],
            measures={name: values[rows] for name, values in self.measures.items()},
            columns={name: tuple(cells[j] for j in rows) for name, cells in self.columns.items()},
        )

    @classmethod
    def open(cls, data: Any) -> EvaluationTable:
        """Return a table as it is; read anything else with all of its measures."""
        return data if isinstance(data, EvaluationTable) else cls.read(data)

    @classmethod
    def read(cls, data: Any, *, measures: Sequence[str] | None = None) -> EvaluationTable:
        """Read a table from a file (.parquet, .csv, .csv.gz, .arrow, .feather), frame or mapping.

        `measures` are the names of the measures to read. An empty sequence reads the accuracies
        only; None reads all measures.
        """
        if isinstance(measures, str):
            raise InputError(
                f"measures must be a list of names; got {measures!r}. Pass [{measures!r}]."
            )
        frame = as_arrow_table(data)
        try:
            return _from_frame(frame, measures)
        except InputError as error:
            if not isinstance(data, str | Path):
                raise
            raise InputError(f"{Path(data).name}: {error}") from error


def as_arrow_table(data: Any) -> Any:
    """Return a path, frame or mapping of columns as an Arrow table."""
    if isinstance(data, str | Path):
        data = ScoreFile.open(data).content
    if not isinstance(data, Mapping):
        if not any(hasattr(data, f"__arrow_c_{form}__") for form in ("stream", "array")):
            raise InputError(
                f"{type(data).__name__} is not a table. Pass a path, a pandas, polars or pyarrow "
                "table, or a mapping of columns."
            )
        return frames.drop_pandas_index(frames.as_table(data))
    import pyarrow as pa

    try:
        return pa.table({str(name): pa.array(column) for name, column in data.items()})
    except (pa.ArrowException, ValueError, TypeError) as error:
        reason = format_error(error, first_line=True)
        raise InputError(
            f"The columns do not form a table: {reason}. Pass columns of equal length."
        ) from error


def encode_names(names: Sequence[str]) -> tuple[tuple[str, ...], Ints]:
    """Return the sorted distinct names, and the index of each given name among them."""
    distinct = sorted(set(names))
    index = {name: j for j, name in enumerate(distinct)}
    return tuple(distinct), np.array([index[name] for name in names], dtype=np.int64)


def is_non_measure(name: str) -> bool:
    """Return whether a column of this name is never a measure."""
    return name in NON_MEASURE_COLUMNS or name.startswith((RECIPE_PREFIX, PRETRAINED_PREFIX))


def cells_to_text(cells: Sequence[Any]) -> tuple[str, ...]:
    """Return cells as text; missing cells become empty texts."""
    return tuple("" if cell is None else str(cell) for cell in cells)


def select_measures(available: Sequence[str], requested: Sequence[str] | None) -> Sequence[str]:
    """Return the requested measures, or all available ones."""
    for name in requested or ():
        if name not in available:
            raise UnknownName("measure", name, available)
    if requested is None and not available:
        raise InputError(
            "The table has no measure; expected one numeric column per measure, or the columns "
            "measure and value. Add one, or read accuracies only with measures=()."
        )
    return available if requested is None else list(dict.fromkeys(requested))


def check_not_mixed(name: str, cells: Sequence[str]) -> None:
    """Raise if a text column also holds numbers; it may be a measure with a typing error."""
    if is_non_measure(name):
        return
    distinct = {cell for cell in cells if cell}
    numbers = {cell for cell in distinct if _is_number(cell)}
    if numbers and numbers != distinct:
        row = next(j for j, cell in enumerate(cells) if cell and cell not in numbers)
        raise InputError(
            f"The column {name!r} holds both numbers and text: row {row} is {cells[row]!r}. Correct "
            "it, remove the column, or name the measures to read."
        )


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _from_frame(frame: Any, requested_measures: Sequence[str] | None) -> EvaluationTable:
    # pandas writes the index into CSV files as a column with an empty name.
    frame = frame.drop_columns([""]) if "" in frame.column_names else frame
    _check_required_columns(frame)
    frame = _rename_replicates(frame)
    table = _table_without_measures(frame, _read_text_columns(frame, requested_measures))
    _check_models_consistent(table)
    read_measures = _from_long if set(LONG_COLUMNS) <= set(frame.column_names) else _from_wide
    return _drop_unconverged(read_measures(table, frame, requested_measures))


def _check_required_columns(frame: Any) -> None:
    columns = frame.column_names
    required = (*REQUIRED_COLUMNS, *(LONG_COLUMNS if "measure" in columns else ()))
    missing = [name for name in required if name not in columns]
    if missing:
        others = [name for name in columns if name not in required]
        hints = [hint for name in missing if (hint := did_you_mean(name, others))]
        advice = "Rename or add the missing columns."
        if missing == list(REQUIRED_COLUMNS[1:]):  # the other columns may be test sets
            advice += (
                " A table of accuracies, with one column per test set, is compared by "
                "compare_with_reference(table, reference)."
            )
        raise InputError(
            f"The table has no column {' or '.join(map(repr, missing))}; {', '.join(required)} are "
            f"required.{hints[0] if hints else ''} Columns: {', '.join(columns[:12]) or 'none'}. "
            f"{advice}"
        )
    if not frame.num_rows:
        raise InputError("The table has no rows. One row is one model tested on one domain.")


def _rename_replicates(frame: Any) -> Any:
    """Give each replicate of a model a unique name; `recipe.model` keeps the original name."""
    if REPLICATE_COLUMN not in frame.column_names:
        return frame
    import pyarrow as pa

    names = frames.read_texts(frame, "model")
    replicates = cells_to_text(frame.column(REPLICATE_COLUMN).to_pylist())
    any_replicate = dict(zip(names, replicates, strict=True))
    repeated = {
        name
        for name, replicate in zip(names, replicates, strict=True)
        if replicate != any_replicate[name]
    }
    unique_names = [
        f"{name} ({REPLICATE_COLUMN} {replicate})" if replicate and name in repeated else name
        for name, replicate in zip(names, replicates, strict=True)
    ]
    position = frame.column_names.index("model")
    renamed = frame.set_column(position, "model", pa.array(unique_names))
    common_column = f"{RECIPE_PREFIX}model"
    if not repeated or common_column in renamed.column_names:
        return renamed
    return renamed.append_column(common_column, pa.array(names))


def _read_text_columns(
    frame: Any, requested_measures: Sequence[str] | None
) -> dict[str, tuple[str, ...]]:
    """Return the columns that are neither required nor measures, as text."""
    used = {*REQUIRED_COLUMNS, *LONG_COLUMNS, "architecture", *(requested_measures or ())}
    return {
        name: cells_to_text(frame.column(name).to_pylist())
        for name in frame.column_names
        if name not in used and (is_non_measure(name) or _is_text(frame, name))
    }


def _is_text(frame: Any, name: str) -> bool:
    category = frames.type_category(frames.value_type(frame.column(name).type))
    return category in ("text", "boolean")


def _table_without_measures(frame: Any, columns: Mapping[str, tuple[str, ...]]) -> EvaluationTable:
    """Return a table with one row per row of the frame and no measures."""
    models, model = encode_names(frames.read_texts(frame, "model"))
    kinds = [DEFAULT_ARCHITECTURE] * len(model)
    if "architecture" in frame.column_names:
        kinds = frames.read_texts(frame, "architecture")
    architectures, architecture = encode_names(kinds)
    trainings, trained_on = _parse_training_sets(frames.read_texts(frame, "trained_on"))
    tests = frames.read_texts(frame, "tested_on")
    domains = tuple(sorted({*tests, *(name for training in trainings for name in training)}))
    _, codes = encode_names([*domains, *tests])
    return EvaluationTable(
        models=models,
        architectures=architectures,
        domains=domains,
        model=model,
        architecture=architecture,
        trained_on=trained_on,
        trainings=trainings,
        tested_on=codes[len(domains) :],
        accuracy=_read_accuracies(frame),
        measures={},
        columns=columns,
    )


def _parse_training_sets(names: Sequence[str]) -> tuple[tuple[tuple[str, ...], ...], Ints]:
    """Return the distinct training sets and the index of each row; `b + a` equals `a + b`."""
    distinct_names, codes = encode_names(names)
    parsed = [
        tuple(sorted({part.strip() for part in name.split(DOMAIN_SEPARATOR)} - {""}))
        for name in distinct_names
    ]
    distinct = sorted(set(parsed))
    return tuple(distinct), np.array([distinct.index(domains) for domains in parsed])[codes]


def _read_accuracies(frame: Any) -> Floats:
    accuracies = frames.read_nullable_floats(frame, "accuracy")
    wrong = np.flatnonzero((accuracies < 0) | (accuracies > 1))
    if wrong.size:
        value = accuracies[wrong[0]]
        advice = "Divide percentages by 100." if 1 < value <= 100 else "Correct it."
        raise InputError(
            f"accuracy must be a fraction from 0 to 1; row {wrong[0]} is {value:g}. {advice}"
        )
    return accuracies


def _drop_unconverged(table: EvaluationTable) -> EvaluationTable:
    """Drop the rows of models that are known not to have converged."""
    cells = table.columns.get("converged", ())
    unconverged = np.array([cell.lower() in FALSE_TEXTS for cell in cells], dtype=np.bool_)
    if not unconverged.any():
        return table
    if unconverged.all():
        raise InputError(
            f"No row is left: converged is false in all {len(unconverged)}. Add models that "
            "converged, or remove the column."
        )
    left_out = {"not converged": int(unconverged.sum())}
    return replace(table.select_rows(~unconverged), left_out=left_out)


def _check_models_consistent(table: EvaluationTable) -> None:
    """Raise if rows of one model differ in architecture or training set."""
    first = np.zeros(len(table.models), dtype=np.int64)
    first[table.model[::-1]] = np.arange(len(table))[::-1]
    for codes, phrase, name in (
        (table.architecture, "has the architectures", table.architectures.__getitem__),
        (table.trained_on, "is trained on", table.training),
    ):
        different = np.flatnonzero(codes != codes[first[table.model]])
        if different.size:
            row = different[0]
            model = table.model[row]
            raise InputError(
                f"The model {table.models[model]!r} {phrase} {name(codes[first[model]])!r} and "
                f"{name(codes[row])!r}; a model has one. Give each model a unique name."
            )


def _from_wide(
    table: EvaluationTable, frame: Any, requested_measures: Sequence[str] | None
) -> EvaluationTable:
    _check_unique(table, _evaluation_keys(table))
    used = {*REQUIRED_COLUMNS, "architecture", *table.columns}
    available = [
        name for name in frame.column_names if name not in used and not is_non_measure(name)
    ]
    if requested_measures is None:
        for name, cells in table.columns.items():
            check_not_mixed(name, cells)
    names = select_measures(available, requested_measures)
    return replace(table, measures={name: _read_values(frame, name) for name in names})


def _from_long(
    table: EvaluationTable, frame: Any, requested_measures: Sequence[str] | None
) -> EvaluationTable:
    names, measure = encode_names(frames.read_texts(frame, "measure"))
    keys = _evaluation_keys(table)
    _check_unique(table, keys * len(names) + measure, [names[code] for code in measure])
    values = _read_values(frame, "value")
    _, first, evaluation = np.unique(keys, return_index=True, return_inverse=True)
    accuracy = _consistent_accuracies(table, evaluation, len(first))
    # Split the rows by measure. Every measure has at least one row.
    order = np.argsort(measure, kind="stable")
    rows_by_code = np.split(order, np.flatnonzero(np.diff(measure[order])) + 1)
    rows = dict(zip(names, rows_by_code, strict=True))
    measures = {}
    for name in select_measures(names, requested_measures):
        measures[name] = np.full(len(first), np.nan)
        measures[name][evaluation[rows[name]]] = values[rows[name]]
    return replace(table.select_rows(first), accuracy=accuracy, measures=measures)


def _read_values(frame: Any, name: str) -> Floats:
    """Return a numeric column with NaN in place of missing and infinite values."""
    values = frames.read_nullable_floats(frame, name)
    values[~np.isfinite(values)] = np.nan
    return values


def _consistent_accuracies(table: EvaluationTable, evaluation: Ints, count: int) -> Floats:
    """Return the accuracy of each evaluation; raise if rows of one evaluation differ in it."""
    known = np.flatnonzero(~np.isnan(table.accuracy))
    accuracy: Floats = np.full(count, np.nan)
    accuracy[evaluation[known]] = table.accuracy[known]
    different = known[table.accuracy[known] != accuracy[evaluation[known]]]
    if different.size:
        row = different[0]
        raise InputError(
            f"The accuracy of {_evaluation_text(table, row)} is {table.accuracy[row]:g} in one row "
            f"and {accuracy[evaluation[row]]:g} in another. Rows of one evaluation must have the "
            "same accuracy."
        )
    return accuracy


def _evaluation_keys(table: EvaluationTable) -> Ints:
    return table.model * len(table.domains) + table.tested_on


def _check_unique(
    table: EvaluationTable, keys: Ints, measure_names: Sequence[str] | None = None
) -> None:
    """Raise if two rows have the same key."""
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    repeated = np.flatnonzero(first[inverse] != np.arange(len(keys)))
    if repeated.size:
        row = int(repeated[0])
        measure = f" of {measure_names[row]!r}" if measure_names else ""
        raise InputError(
            f"{_evaluation_text(table, row)} occurs twice{measure}, in rows {first[inverse[row]]} "
            f"and {row}. Remove one, or give the models unique names."
        )


def _evaluation_text(table: EvaluationTable, row: int) -> str:
    return f"{table.models[table.model[row]]!r} on {table.domains[table.tested_on[row]]!r}"
