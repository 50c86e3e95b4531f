"""Store: save and query a study's models, predictions and results (many readers, one writer)."""

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
from oodometer.data.atomic import lock_folder, write_table
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
# Separator between the training domains of a model.
DOMAIN_SEPARATOR = " + "
StoreMode = Literal["read", "write"]


class Store:
    """Folder with the models, datasets, predictions and results of a study; opened by `open`.

    Parameters
    ----------
    folder : Path
        Folder of the store.
    database : sqlite3.Connection
        Open SQLite file of the store.
    exit_stack : ExitStack
        Closes the file and releases the lock.
    """

    def __init__(self, folder: Path, database: sqlite3.Connection, exit_stack: ExitStack) -> None:
        self.folder = folder
        self.array_store = ArrayStore(folder / ARRAYS_FOLDER)
        self._database = database
        self._exit_stack = exit_stack

    @classmethod
    def open(cls, path: str | Path, mode: StoreMode = "read") -> Store:
        """Open the store of a folder.

        The mode "write" creates the store if it does not exist, and raises if another process
        writes to it.
        """
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
        """Close the file and release the lock."""
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
        """Store models and datasets, to which results refer by key."""
        dataset_list = list(datasets)
        labels = self.array_store.put([dataset.labels for dataset in dataset_list])
        with translate_sqlite_errors(self.folder), self._database:
            self._insert("models", map(_model_row, models))
            self._insert("datasets", map(_dataset_row, dataset_list, labels))

    def add_outcomes(self, outcomes: Sequence[EvaluationOutcome]) -> None:
        """Store the outcomes of a task: arrays first, then all rows in one transaction."""
        with_predictions = [
            (outcome, outcome.predictions)
            for outcome in outcomes
            if outcome.predictions is not None
        ]
        arrays = self.array_store.put(
            [stored_values(predictions) for _, predictions in with_predictions]
        )
        prediction_rows = [
            _prediction_row(outcome, predictions, array)
            for (outcome, predictions), array in zip(with_predictions, arrays, strict=True)
        ]
        failure_rows = [
            (outcome.model, outcome.dataset, outcome.failure.reason, outcome.failure.trace)
            for outcome in outcomes
            if outcome.failure is not None
        ]
        with translate_sqlite_errors(self.folder), self._database:
            self._database.executemany(
                "DELETE FROM failures WHERE (model, dataset) = (?, ?)",
                [(outcome.model, outcome.dataset) for outcome in outcomes],
            )
            self._insert("predictions", prediction_rows)
            self._insert(
                "results",
                (_result_row(result) for outcome in outcomes for result in outcome.results),
            )
            self._insert("failures", failure_rows)

    def _insert(self, name: str, rows: Iterable[tuple[Any, ...]]) -> None:
        columns = len(self._database.execute(f"SELECT * FROM {name} LIMIT 0").description)
        marks = ", ".join("?" * columns)
        self._database.executemany(f"INSERT OR REPLACE INTO {name} VALUES ({marks})", rows)

    def _remove_orphans(self) -> None:
        """Remove arrays that no row refers to, and predictions whose array or labels are missing.

        Results are kept, and so are the datasets to which they refer.
        """
        existing = self.array_store.names()
        query = "SELECT array, labels FROM predictions JOIN datasets ON key = dataset"
        with translate_sqlite_errors(self.folder), self._database:
            orphans = [row for row in self._database.execute(query) if not existing.issuperset(row)]
            self._database.executemany(
                """DELETE FROM predictions WHERE array = ?
                AND dataset IN (SELECT key FROM datasets WHERE labels = ?)""",
                orphans,
            )
            query = "SELECT array FROM predictions UNION SELECT labels FROM datasets"
            self.array_store.remove_unreferenced([key for (key,) in self._database.execute(query)])

    # Reading --------------------------------------------------------------------------------

    def result_keys(self) -> set[ResultKey]:
        """Return the keys of all results, including those without a value."""
        query = "SELECT model, source, dataset, measure, settings FROM results"
        with translate_sqlite_errors(self.folder):
            # Interning saves memory, because there are many keys but few distinct strings.
            return {ResultKey(*map(sys.intern, row)) for row in self._database.execute(query)}

    def prediction_references(self) -> dict[tuple[str, str], PredictionReference]:
        """Return references to all predictions, by model and dataset."""
        query = """SELECT model, dataset, array, form, k, temperature, class_names, labels, classes
        FROM predictions JOIN datasets ON datasets.key = predictions.dataset"""
        with translate_sqlite_errors(self.folder):
            return {row[:2]: _reference(*row[2:]) for row in self._database.execute(query)}

    def predictions(self, model: str, dataset: str) -> Predictions | None:
        """Return labelled predictions by the keys of model and dataset; None if not stored."""
        reference = self.prediction_references().get((model, dataset))
        return None if reference is None else reference.read(self.array_store)

    def failures(self) -> dict[tuple[str, str], str]:
        """Return the reasons of all failures that no later run resolved, by model and dataset."""
        with translate_sqlite_errors(self.folder):
            query = "SELECT model, dataset, reason FROM failures"
            return {row[:2]: row[2] for row in self._database.execute(query)}

    def missing_reasons(self) -> dict[ResultKey, str]:
        """Return the reasons of results without a value, by key."""
        query = """SELECT model, source, dataset, measure, settings, reason FROM results
        WHERE reason IS NOT NULL"""
        with translate_sqlite_errors(self.folder):
            return {ResultKey(*row[:5]): row[5] for row in self._database.execute(query)}

    def to_table(self, keys: Collection[ResultKey] | None = None) -> Any:
        """Return results as a pyarrow.Table in the long format that `studies.analysis` reads."""
        with translate_sqlite_errors(self.folder):
            # Models and results are read in one transaction, so they are consistent even if another
            # process writes.
            self._database.execute("BEGIN")
            try:
                models = list(self._database.execute("SELECT * FROM models"))
                results = self._database.execute(table.RESULTS_QUERY)
                return table.long_table(models, results, keys)
            finally:
                self._database.rollback()

    def export(self, path: str | Path, keys: Collection[ResultKey] | None = None) -> None:
        """Write results to a Parquet or CSV file, depending on its extension."""
        write_table(self.to_table(keys), Path(path))


def _model_row(model: ModelRecord) -> tuple[Any, ...]:
    return (
        model.key,
        model.name,
        model.architecture,
        DOMAIN_SEPARATOR.join(model.trained_on),
        json.dumps(model.recipe, sort_keys=True),
        json.dumps(model.facts, sort_keys=True),
    )


def _dataset_row(dataset: DatasetRecord, labels: str) -> tuple[Any, ...]:
    return dataset.key, dataset.name, len(dataset.labels), labels, json.dumps(dataset.classes)


def _prediction_row(
    outcome: EvaluationOutcome, predictions: Predictions, array: str
) -> tuple[Any, ...]:
    names = predictions.class_names
    return (
        outcome.model,
        outcome.dataset,
        array,
        predictions.score_type,
        predictions.k,
        predictions.temperature,
        None if names is None else json.dumps(names),
    )


def _result_row(result: ResultRecord) -> tuple[Any, ...]:
    return (
        result.model,
        result.source,
        result.dataset,
        result.tested_on,
        result.measure,
        result.settings,
        result.value,
        result.low,
        result.high,
        result.reason,
        json.dumps(_to_json_value(result.facts), sort_keys=True, allow_nan=False),
        result.seconds,
    )


def _to_json_value(fact: Any) -> Any:
    """Return a value that JSON can represent; infinity and NaN become None.

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
    return PredictionReference(
        array=array,
        form=form,
        k=k,
        temperature=temperature,
        class_names=None if names is None else tuple(json.loads(names)),
        labels=labels,
        classes=tuple(json.loads(classes)),
    )
