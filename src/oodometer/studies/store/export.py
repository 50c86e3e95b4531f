"""Export the results of a store as a long table: one row per model, domain and measure.

The columns are model, architecture, trained_on, tested_on, accuracy, measure, value, low, high,
reason (if there is no value), n (number of test rows), group, seed, converged, facts (JSON) and
recipe.….

A store may hold several values of one measure for the same model and domain, if the settings, the
data or the model have changed between runs. The table contains only the value that was written
last. Rows are sorted by name.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from oodometer.studies.store.records import ResultKey

ACCURACY = "accuracy"
# Results in the order in which they were written.
RESULTS_QUERY = """SELECT model, source, dataset, measure, settings, tested_on, n, value, low, high, reason,
facts FROM results JOIN datasets ON datasets.key = results.dataset ORDER BY results.rowid"""
# Columns of the table that describe the model.
MODEL_COLUMNS = ("model", "architecture", "trained_on", "group", "seed", "converged")
# All columns in order, except the columns recipe.…, which come last.
COLUMNS = (
    "model", "architecture", "trained_on", "tested_on", ACCURACY, "measure", "value", "low", "high",
    "reason", "n", "group", "seed", "converged", "facts",
)  # fmt: skip
_RECIPE_PREFIX = "recipe."
# Recipe keys that have no column recipe.…, because other columns describe them.
_REDUNDANT_RECIPE_KEYS = ("architecture", "domains", "format", "group", "seed")
# Pair of the key of a model and the key of a dataset.
ModelDatasetKeys = tuple[str, str]


class _ResultRow(NamedTuple):
    """Stored result with its key, its test domain and the number of test rows."""

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
    """Return the table of the results with these keys, by default of all results."""
    import pyarrow as pa

    descriptions = {row[0]: _describe_model(*row[1:]) for row in models}
    all_rows = (_ResultRow(ResultKey(*row[:5]), *row[5:]) for row in results)
    rows = [row for row in all_rows if keys is None or row.key in keys]
    accuracies = {row.pair: row.value for row in rows if row.key.measure == ACCURACY}
    latest = _latest_results(descriptions, rows)
    columns = {**_model_columns(descriptions, latest), **_value_columns(latest, accuracies)}
    first = [name for name in COLUMNS if name in columns]
    return pa.table({name: columns[name] for name in [*first, *sorted(columns.keys() - first)]})


def _model_columns(
    descriptions: Mapping[str, Mapping[str, Any]], rows: Sequence[_ResultRow]
) -> dict[str, Any]:
    """Return the columns that describe the model.

    The cells are built once per model and then repeated by index, because a table has few models
    and many rows.
    """
    import pyarrow as pa

    used = {row.key.model for row in rows}
    models = {key: model for key, model in descriptions.items() if key in used}
    position = {key: number for number, key in enumerate(models)}
    indices = pa.array([position[row.key.model] for row in rows], type=pa.int64())
    text = pa.string()
    types = dict(zip(MODEL_COLUMNS, (text, text, text, text, pa.int64(), pa.bool_()), strict=True))
    columns = {
        name: pa.array([model[name] for model in models.values()], type=kind)
        for name, kind in types.items()
    }
    for name in {name for model in models.values() for name in model if name not in types}:
        columns[name] = _uniform_column([model.get(name) for model in models.values()])
    return {name: column.take(indices) for name, column in columns.items()}


def _value_columns(
    rows: Sequence[_ResultRow], accuracies: Mapping[ModelDatasetKeys, float | None]
) -> dict[str, Any]:
    """Return the columns that describe the values, such as measure, value and interval."""
    import pyarrow as pa

    facts = [None if row.facts == "{}" else row.facts for row in rows]
    return {
        "tested_on": pa.array([row.tested_on for row in rows], type=pa.string()),
        "accuracy": pa.array([accuracies.get(row.pair) for row in rows], type=pa.float64()),
        "measure": pa.array([row.key.measure for row in rows], type=pa.string()),
        "value": pa.array([row.value for row in rows], type=pa.float64()),
        "low": pa.array([row.low for row in rows], type=pa.float64()),
        "high": pa.array([row.high for row in rows], type=pa.float64()),
        "reason": pa.array([row.reason for row in rows], type=pa.string()),
        "n": pa.array([row.n for row in rows], type=pa.int64()),
        "facts": pa.array(facts, type=pa.string()),
    }


def _describe_model(
    name: str, architecture: str, trained_on: str, recipe_json: str, facts_json: str
) -> dict[str, Any]:
    """Return the cells that describe one model, by column."""
    recipe = json.loads(recipe_json)
    recipe_columns = {
        f"{_RECIPE_PREFIX}{key}": value
        for key, value in _flatten(recipe)
        if key not in _REDUNDANT_RECIPE_KEYS
    }
    return {
        "model": name,
        "architecture": architecture,
        "trained_on": trained_on,
        "group": recipe.get("group"),
        "seed": recipe.get("seed"),
        "converged": json.loads(facts_json).get("converged"),
        **recipe_columns,
    }


def _flatten(table: Mapping[str, Any]) -> Iterable[tuple[str, Any]]:
    """Yield the keys and values of a mapping; keys of nested mappings are joined by dots.

    >>> list(_flatten({"lr": 0.1, "settings": {"width": 8}}))
    [('lr', 0.1), ('settings.width', 8)]
    """
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from ((f"{key}.{inner}", item) for inner, item in _flatten(value))
        else:
            yield key, value


def _latest_results(
    descriptions: Mapping[str, Mapping[str, Any]], rows: Sequence[_ResultRow]
) -> list[_ResultRow]:
    """Return the last result per model name, test domain and measure.

    All results of a model on a domain have the same model key and dataset key, the last written.
    """

    def evaluation(row: _ResultRow) -> tuple[str, str]:
        return descriptions[row.key.model]["model"], row.tested_on

    last_pair = {evaluation(row): row.pair for row in rows}
    latest = {
        (*evaluation(row), row.key.measure): row
        for row in rows
        if last_pair[evaluation(row)] == row.pair
    }
    # Accuracy is a column of the table. It has a row only if the evaluation has no other measure.
    measured = {key[:2] for key in latest if key[2] != ACCURACY}
    return [latest[key] for key in sorted(latest) if key[2] != ACCURACY or key[:2] not in measured]


def _uniform_column(cells: list[Any]) -> Any:
    """Return a column of numbers, booleans or texts; lists and mixed types become texts."""
    import pyarrow as pa

    kinds = {type(cell) for cell in cells if cell is not None}
    if kinds <= {bool} or kinds <= {str} or kinds <= {int}:
        return pa.array(cells, type=None if kinds else pa.string())
    if kinds <= {int, float}:
        return pa.array(cells, type=pa.float64())
    texts = [cell if cell is None or isinstance(cell, str) else json.dumps(cell) for cell in cells]
    return pa.array(texts, type=pa.string())
