"""Columns of a table of evaluations, checked one by one: what the table is made of."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from oodometer.core import frames
from oodometer.core.errors import InputError, UnknownName
from oodometer.core.softmax_kernels import Floats, Ints
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
        first = str(error).splitlines()[0].rstrip(".")
        raise InputError(
            f"The columns make no table: {first}. Give columns of one length."
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
    import pyarrow as pa

    kind = frame.column(name).type
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    text = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    return any(is_so(kind) for is_so in (*text, pa.types.is_boolean))


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
