"""Results as a long table that `studies.analysis` reads: a row is one measure of one model on one domain.

Columns: model, architecture, trained_on, tested_on, accuracy, measure, value, low, high, reason
(where there is no value), n (rows tested on), group, seed, converged, facts (JSON), recipe.…

A store may hold values of several settings, and of rows or models that were changed since. A table
has one of each: what was written last. Rows are in the order of their names.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from oodometer.core.errors import InputError
from oodometer.data.atomic import atomic_write
from oodometer.studies.store.records import ResultKey

ACCURACY = "accuracy"
# In the order in which they were written.
RESULTS_QUERY = """SELECT model, source, dataset, measure, settings, tested_on, n, value, low, high, reason,
facts FROM results JOIN datasets ON datasets.key = results.dataset ORDER BY results.rowid"""
# Columns that tell of the model.
MODEL_COLUMNS = ("model", "architecture", "trained_on", "group", "seed", "converged")
# All columns, in order; recipe.… come after them.
COLUMNS = (
    "model", "architecture", "trained_on", "tested_on", ACCURACY, "measure", "value", "low", "high",
    "reason", "n", "group", "seed", "converged", "facts",
)  # fmt: skip
_RECIPE_PREFIX = "recipe."
# What a column of its own, or `trained_on`, says already.
_REDUNDANT_RECIPE_KEYS = ("architecture", "domains", "format", "group", "seed")


# The keys of a model and of a dataset.
ModelDatasetKeys = tuple[str, str]


class _ResultRow(NamedTuple):
    """A result, and how many rows it is of."""

    key: ResultKey
    tested_on: str
    n: int
    value: float | None
    low: float | None
    high: float | None
    reason: str | None
    facts: str

    @property
    def pair(self) -> ModelDatasetKeys:
        return self.key.model, self.key.dataset


def long_table(
    models: Iterable[Sequence[Any]],
    results: Iterable[Sequence[Any]],
    keys: Collection[ResultKey] | None,
) -> Any:
    """The table of the results that have these keys, or of all."""
    import pyarrow as pa

    described = {row[0]: _describe_model(*row[1:]) for row in models}
    found = (_ResultRow(ResultKey(*row[:5]), *row[5:]) for row in results)
    values = [one for one in found if keys is None or one.key in keys]
    accuracies = {one.pair: one.value for one in values if one.key.measure == ACCURACY}
    chosen = _latest_results(described, values)
    columns = {**_model_columns(described, chosen), **_value_columns(chosen, accuracies)}
    first = [name for name in COLUMNS if name in columns]
    return pa.table({name: columns[name] for name in [*first, *sorted(columns.keys() - first)]})


def _model_columns(
    described: Mapping[str, Mapping[str, Any]], chosen: Sequence[_ResultRow]
) -> dict[str, Any]:
    """Columns that tell of the model; there are few models and many values, so by its number."""
    import pyarrow as pa

    used = {one.key.model for one in chosen}
    models = {key: model for key, model in described.items() if key in used}
    place = {key: number for number, key in enumerate(models)}
    numbers = pa.array([place[one.key.model] for one in chosen], type=pa.int64())
    text, number, truth = pa.string(), pa.int64(), pa.bool_()
    kinds = dict(zip(MODEL_COLUMNS, (text, text, text, text, number, truth), strict=True))
    found = {
        name: pa.array([model[name] for model in models.values()], type=kind)
        for name, kind in kinds.items()
    }
    for name in {name for model in models.values() for name in model if name not in kinds}:
        found[name] = _uniform_column([model.get(name) for model in models.values()])
    return {name: column.take(numbers) for name, column in found.items()}


def _value_columns(
    chosen: Sequence[_ResultRow], accuracies: Mapping[ModelDatasetKeys, float | None]
) -> dict[str, Any]:
    """Columns that tell of the value."""
    import pyarrow as pa

    return {
        "tested_on": pa.array([one.tested_on for one in chosen], type=pa.string()),
        "accuracy": pa.array([accuracies.get(one.pair) for one in chosen], type=pa.float64()),
        "measure": pa.array([one.key.measure for one in chosen], type=pa.string()),
        "value": pa.array([one.value for one in chosen], type=pa.float64()),
        "low": pa.array([one.low for one in chosen], type=pa.float64()),
        "high": pa.array([one.high for one in chosen], type=pa.float64()),
        "reason": pa.array([one.reason for one in chosen], type=pa.string()),
        "n": pa.array([one.n for one in chosen], type=pa.int64()),
        "facts": pa.array(
            [None if one.facts == "{}" else one.facts for one in chosen], type=pa.string()
        ),
    }


def _describe_model(
    name: str, architecture: str, trained_on: str, config: str, facts: str
) -> dict[str, Any]:
    """A model's columns."""
    made, went = json.loads(config), json.loads(facts)
    own = {
        f"{_RECIPE_PREFIX}{key}": value
        for key, value in _flatten(made)
        if key not in _REDUNDANT_RECIPE_KEYS
    }
    return {
        "model": name,
        "architecture": architecture,
        "trained_on": trained_on,
        "group": made.get("group"),
        "seed": made.get("seed"),
        "converged": went.get("converged"),
        **own,
    }


def _flatten(table: Mapping[str, Any]) -> Iterable[tuple[str, Any]]:
    """The keys of a table and of the tables in it.

    >>> list(_flatten({"lr": 0.1, "settings": {"width": 8}}))
    [('lr', 0.1), ('settings.width', 8)]
    """
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from ((f"{key}.{inner}", one) for inner, one in _flatten(value))
        else:
            yield key, value


def _latest_results(
    described: Mapping[str, Mapping[str, Any]], values: Sequence[_ResultRow]
) -> list[_ResultRow]:
    """One value of each measure of each evaluation, all of the same rows and model."""

    def evaluation(one: _ResultRow) -> tuple[str, str]:
        return described[one.key.model]["model"], one.tested_on

    last = {evaluation(one): one.pair for one in values}
    current = [one for one in values if last[evaluation(one)] == one.pair]
    found = {(*evaluation(one), one.key.measure): one for one in current}
    # Accuracy has a column of its own; a row only where there is nothing else to tell.
    told = {place[:2] for place in found if place[2] != ACCURACY}
    return [
        found[place] for place in sorted(found) if place[2] != ACCURACY or place[:2] not in told
    ]


def _uniform_column(cells: list[Any]) -> Any:
    """A column of numbers, of truths or of texts; what is mixed, or a list, is text."""
    import pyarrow as pa

    kinds = {type(cell) for cell in cells if cell is not None}
    if kinds <= {bool} or kinds <= {str} or kinds <= {int}:
        return pa.array(cells, type=None if kinds else pa.string())
    if kinds <= {int, float}:
        return pa.array(cells, type=pa.float64())
    texts = [cell if cell is None or isinstance(cell, str) else json.dumps(cell) for cell in cells]
    return pa.array(texts, type=pa.string())


def write_table(table: Any, path: Path) -> None:
    """Write a table as Parquet or CSV, by the file's ending: whole or not at all."""
    from pyarrow import csv, parquet

    writers = {".parquet": parquet.write_table, ".csv": csv.write_csv}
    writer = writers.get(path.suffix.lower())
    if writer is None:
        raise InputError(
            f"Rows can't be written to {path.name!r}. Give a name that ends in "
            f"{' or '.join(writers)}."
        )
    try:
        with atomic_write(path) as partial:
            writer(table, partial)
    except OSError as error:
        raise InputError(
            f"The rows can't be written to {str(path)!r}: {error.strerror or error}. Make room or "
            "allow writing there, or give another file."
        ) from error
