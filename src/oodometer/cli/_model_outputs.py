"""Predictions of a model on a dataset as a table, for the commands `predict` and `estimate`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from oodometer.cli._options import (
    DatasetFileOptions,
    WorkerOptions,
)
from oodometer.cli._runtime import progress_bar
from oodometer.core.array_types import Array
from oodometer.core.errors import InputError
from oodometer.data.prediction_files import ScoreFile

if TYPE_CHECKING:
    from oodometer.core.predictions import Predictions
    from oodometer.core.protocols import Model

TABLE_EXTENSIONS = (".csv", ".tsv", ".jsonl", ".ndjson", ".parquet", ".arrow", ".feather")


def predict_file(
    model: Model,
    location: str,
    *,
    label_column: str | None,
    data_options: DatasetFileOptions,
    worker_options: WorkerOptions | None = None,
    kept_columns: Sequence[str] = (),
) -> ScoreFile:
    """Run a model on a dataset; return the table of predictions, with the labels if known.

    `kept_columns` are columns of the data that the table contains too, if they exist.
    """
    from oodometer.models.inference import predict_dataset

    dataset = _open_dataset(location, label_column, data_options)
    runner = None if worker_options is None else worker_options.optional_runner()
    with progress_bar() as progress:
        predictions = predict_dataset(
            model,
            dataset,
            labelled=False,
            runner=runner,
            progress=progress,
            message=f"Predicting {dataset.name}",
        )
    path = Path(location)
    others: dict[str, Array] = {}
    if kept_columns and path.suffix.lower() in (*TABLE_EXTENSIONS, ".npz"):
        file = ScoreFile.open(path)
        others = {name: file.column(name) for name in kept_columns if name in file.column_names}
    return ScoreFile(path, predictions_table(predictions, dataset.labels, others))


def _open_dataset(location: str, label_column: str | None, options: DatasetFileOptions) -> Any:
    """Open a dataset; its label column is optional, because the target may not have it."""
    try:
        return options.open(location, label_column)
    except InputError:
        if label_column is None:
            raise
    return options.open(location)


def predictions_table(
    predictions: Predictions, labels: Array | None, others: dict[str, Array] | None = None
) -> Any:
    """Return a pyarrow table in the format of `docs/formats.md`; labels are class names if known."""
    import pyarrow as pa

    names = predictions.class_names or tuple(map(str, range(predictions.k)))
    columns: dict[str, Any] = {}
    if predictions.scores is None:
        columns["pred"] = np.asarray(names)[predictions.classes]
        if predictions.class_names is None:
            columns["pred"] = predictions.classes
    else:
        prefix = "prob" if predictions.score_type == "probs" else "logit"
        columns |= {f"{prefix}_{name}": predictions.scores[:, j] for j, name in enumerate(names)}
    if labels is not None:
        columns["label"] = np.asarray(labels)
    columns |= {name: values for name, values in (others or {}).items() if name not in columns}
    return pa.table(columns)
