"""The store: opened to read by anyone, to write by one."""

from __future__ import annotations

import json
import math
import sqlite3
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from oodometer.core.errors import InputError
from oodometer.core.predictions import Predictions
from oodometer.data.atomic import lock_folder
from oodometer.studies.store import export as table
from oodometer.studies.store.array_store import ArrayStore
from oodometer.studies.store.records import (
    DatasetRecord,
    EvaluationOutcome,
    ModelRecord,
    PredictionReference,
    ResultKey,
    ResultRecord,
    stored_values,
)
from oodometer.studies.store.sqlite import open_for_writing, open_read_only, translate_sqlite_errors

ARRAYS_FOLDER = "arrays"
# Between the domains that a model was trained on.
DOMAIN_SEPARATOR = " + "
StoreMode = Literal["read", "write"]


class Store:
    """All that is known of a study, in a folder; made by `open`, and closed after use."""

    def __init__(self, folder: Path, database: sqlite3.Connection, exit_stack: ExitStack) -> None:
        self.folder = folder
        self.array_store = ArrayStore(folder / ARRAYS_FOLDER)
        self._database = database
        self._exit_stack = exit_stack

    @classmethod
    def open(cls, path: str | Path, mode: StoreMode = "read") -> Store:
        """The store of a folder; to write, it is made where there is none, and no other writer may."""
        folder = Path(path)
        with ExitStack() as stack:
            if mode == "write":
                stack.enter_context(lock_folder(folder, "study", "written"))
                database = open_for_writing(folder)
            elif mode == "read":
                database = open_read_only(folder)
            else:
                raise InputError(f"mode must be 'read' or 'write'; got {mode!r}.")
            stack.callback(database.close)
            store = cls(folder, database, stack)
            if mode == "write":
                store._remove_orphans()
            store._exit_stack = stack.pop_all()
            return store

    def close(self) -> None:
        """Let go of the file, and of the lock."""
        self._exit_stack.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # Writing --------------------------------------------------------------------------------

    def add_models_and_datasets(
        self, models: Iterable[ModelRecord], datasets: Iterable[DatasetRecord]
    ) -> None:
        """Write down what models and datasets are; results name them by their keys."""
        given = list(datasets)
        labels = self.array_store.put([one.labels for one in given])
        with translate_sqlite_errors(self.folder), self._database:
            self._insert("models", (_model_row(one) for one in models))
            self._insert("datasets", map(_dataset_row, given, labels))

    def add_outcomes(self, outcomes: Sequence[EvaluationOutcome]) -> None:
        """Write down what came of a task: its arrays first, then all else in one transaction."""
        said = [(one, one.predictions) for one in outcomes if one.predictions is not None]
        arrays = self.array_store.put([stored_values(found) for _, found in said])
        failed = [one for one in outcomes if one.failure is not None]
        with translate_sqlite_errors(self.folder), self._database:
            pairs = [(one.model, one.dataset) for one in outcomes]
            self._database.executemany(
                "DELETE FROM failures WHERE (model, dataset) = (?, ?)", pairs
            )
            self._insert(
                "predictions",
                (
                    _prediction_row(one, found, key)
                    for (one, found), key in zip(said, arrays, strict=True)
                ),
            )
            self._insert("results", (_result_row(one) for each in outcomes for one in each.results))
            self._insert(
                "failures",
                (
                    (o.model, o.dataset, o.failure.reason, o.failure.trace)
                    for o in failed
                    if o.failure
                ),
            )

    def _insert(self, name: str, rows: Iterable[tuple[Any, ...]]) -> None:
        columns = len(self._database.execute(f"SELECT * FROM {name} LIMIT 0").description)
        marks = ", ".join("?" * columns)
        self._database.executemany(f"INSERT OR REPLACE INTO {name} VALUES ({marks})", rows)

    def _remove_orphans(self) -> None:
        """Arrays without a row go, and so do predictions whose array or labels somebody removed.

        Values stay, and so do the datasets that tables name them by.
        """
        there = self.array_store.names()
        query = "SELECT array, labels FROM predictions JOIN datasets ON key = dataset"
        with translate_sqlite_errors(self.folder), self._database:
            lost = [row for row in self._database.execute(query) if not there.issuperset(row)]
            self._database.executemany(
                """DELETE FROM predictions WHERE array = ?
                AND dataset IN (SELECT key FROM datasets WHERE labels = ?)""",
                lost,
            )
            query = "SELECT array FROM predictions UNION SELECT labels FROM datasets"
            self.array_store.remove_unreferenced([key for (key,) in self._database.execute(query)])

    # Reading --------------------------------------------------------------------------------

    def result_keys(self) -> set[ResultKey]:
        """The keys of all results, those without a value too."""
        query = "SELECT model, source, dataset, measure, settings FROM results"
        with translate_sqlite_errors(self.folder):
            # There are few words and many keys.
            return {ResultKey(*map(sys.intern, row)) for row in self._database.execute(query)}

    def prediction_references(self) -> dict[tuple[str, str], PredictionReference]:
        """Where all predictions are, by model and dataset."""
        query = """SELECT model, dataset, array, form, k, temperature, class_names, labels, classes
        FROM predictions JOIN datasets ON datasets.key = predictions.dataset"""
        with translate_sqlite_errors(self.folder):
            return {row[:2]: _reference(*row[2:]) for row in self._database.execute(query)}

    def predictions(self, model: str, dataset: str) -> Predictions | None:
        """What a model said of a dataset, labelled; by their keys. None where it was not asked."""
        found = self.prediction_references().get((model, dataset))
        return None if found is None else found.read(self.array_store)

    def failures(self) -> dict[tuple[str, str], str]:
        """The reasons of what failed and was not done since, by model and dataset."""
        with translate_sqlite_errors(self.folder):
            query = "SELECT model, dataset, reason FROM failures"
            return {row[:2]: row[2] for row in self._database.execute(query)}

    def missing_reasons(self) -> dict[ResultKey, str]:
        """Why values are missing that were asked for, by the keys of the results."""
        query = """SELECT model, source, dataset, measure, settings, reason FROM results
        WHERE reason IS NOT NULL"""
        with translate_sqlite_errors(self.folder):
            return {ResultKey(*row[:5]): row[5] for row in self._database.execute(query)}

    def to_table(self, keys: Collection[ResultKey] | None = None) -> Any:
        """A pyarrow.Table of the results, or of some: a row a measure, as `studies.analysis` reads it."""
        with translate_sqlite_errors(self.folder):
            # One look at both, whatever is written meanwhile.
            self._database.execute("BEGIN")
            try:
                models = list(self._database.execute("SELECT * FROM models"))
                results = self._database.execute(table.RESULTS_QUERY)
                return table.long_table(models, results, keys)
            finally:
                self._database.rollback()

    def export(self, path: str | Path, keys: Collection[ResultKey] | None = None) -> None:
        """Write the rows to a file: Parquet or CSV, by its ending."""
        table.write_table(self.to_table(keys), Path(path))


def _model_row(one: ModelRecord) -> tuple[Any, ...]:
    plain = (json.dumps(part, sort_keys=True) for part in (one.recipe, one.facts))
    return one.key, one.name, one.architecture, DOMAIN_SEPARATOR.join(one.trained_on), *plain


def _dataset_row(one: DatasetRecord, labels: str) -> tuple[Any, ...]:
    return one.key, one.name, len(one.labels), labels, json.dumps(one.classes)


def _prediction_row(one: EvaluationOutcome, said: Predictions, array: str) -> tuple[Any, ...]:
    names = None if said.class_names is None else json.dumps(said.class_names)
    return one.model, one.dataset, array, said.score_type, said.k, said.temperature, names


def _result_row(one: ResultRecord) -> tuple[Any, ...]:
    facts = json.dumps(_to_json_value(one.facts), sort_keys=True, allow_nan=False)
    return (
        one.model, one.source, one.dataset, one.tested_on, one.measure, one.settings, one.value,
        one.low, one.high, one.reason, facts, one.seconds,
    )  # fmt: skip


def _to_json_value(fact: Any) -> Any:
    """As JSON has it, which has no infinity.

    >>> _to_json_value({"alpha": float("inf"), "rows": 2})
    {'alpha': None, 'rows': 2}
    """
    if isinstance(fact, Mapping):
        return {str(key): _to_json_value(value) for key, value in fact.items()}
    if isinstance(fact, list | tuple):
        return [_to_json_value(value) for value in fact]
    if isinstance(fact, str | bool | int | None):
        return fact
    return float(fact) if math.isfinite(fact) else None


def _reference(
    array: str, form: str, k: int, temperature: float, names: str | None, labels: str, classes: str
) -> PredictionReference:
    own = None if names is None else tuple(json.loads(names))
    return PredictionReference(array, form, k, temperature, own, labels, tuple(json.loads(classes)))
