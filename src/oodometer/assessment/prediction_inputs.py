"""Source, target and history of `estimate`, given as Predictions, files, data frames or arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from oodometer.assessment._estimate import HistoryInput
from oodometer.assessment.conformal_interval import History
from oodometer.assessment.learned_reference import SourceRows
from oodometer.assessment.source_files import read_source
from oodometer.core.array_types import Floats
from oodometer.core.errors import InputError
from oodometer.core.labels import is_blank
from oodometer.core.predictions import Predictions
from oodometer.core.protocols import ProgressCallback
from oodometer.data.prediction_files import PredictionColumns, ScoreFile

# Columns of a table of past estimates.
HISTORY_COLUMNS = {"estimate", "truth"}


@dataclass(frozen=True, eq=False)
class TargetRows:
    """Predictions on a target in memory, with the segments and the labels of some of its rows.

    `name` is the name of the file, or empty.
    """

    predictions: Predictions
    segments: Any = None
    labels: Any = None
    name: str = ""


def open_source(
    source: Any,
    *,
    segment_column: str | None = None,
    seed: int = 0,
    progress: ProgressCallback | None = None,
) -> SourceRows:
    """Return the labelled rows of a source; large files are sampled.

    The segments are read if the source is a file or a data frame that has the column.
    """
    if isinstance(source, SourceRows):
        return source
    columns = PredictionColumns()
    if isinstance(source, str | Path):
        return read_source(source, columns, segment_by=segment_column, seed=seed, progress=progress)
    segments = None
    if is_frame(source):
        segments = ScoreFile.from_frame(source, "source").optional_column(segment_column)
    predictions = as_predictions(source, "source")
    return SourceRows(predictions, predictions.n, segments)


def open_target(target: Any, *, segment_by: Any = None, target_labels: Any = None) -> TargetRows:
    """Return the rows of a target that is in memory or in a small file.

    If only some rows of a table, or of a pair of arrays, have a label, these labels are used as
    `target_labels`. `segment_by` may be the name of a column of a table.
    """
    is_path = isinstance(target, str | Path)
    if is_path or is_frame(target):
        file = ScoreFile.open(target) if is_path else ScoreFile.from_frame(target, "target")
        if target_labels is None:
            target_labels = partial_labels(file.partial_labels(PredictionColumns()))
        return TargetRows(
            file.predictions(PredictionColumns(), labelled=False),
            file.column(segment_by) if isinstance(segment_by, str) else segment_by,
            target_labels,
            file.path.name if is_path else "",
        )
    if isinstance(segment_by, str):
        raise InputError(
            f"segment_by names the column {segment_by!r}, but the target is not a file or a data "
            "frame. Pass one value per target row."
        )
    if isinstance(target, tuple) and len(target) == 2 and target_labels is None:
        probs, labels = target
        return TargetRows(
            as_predictions(probs, "target"),
            segment_by,
            partial_labels(None if labels is None else list(labels)),
        )
    return TargetRows(as_predictions(target, "target"), segment_by, target_labels)


def partial_labels(labels: list[Any] | None) -> list[Any] | None:
    """Return labels of which some are blank; None if there are none, or if every row has one."""
    return labels if labels and any(is_blank(label) for label in labels) else None


def is_frame(data: Any) -> bool:
    """Return whether data are a table with the Arrow interface: pandas, polars or pyarrow."""
    return hasattr(data, "__arrow_c_stream__")


def as_predictions(data: Any, argument: str) -> Predictions:
    """Return predictions from Predictions, a file, a data frame, probabilities, or (probs, labels).

    Arrays are read as probabilities: whether scores are logits or probabilities is never guessed.
    """
    if isinstance(data, Predictions):
        return data
    if isinstance(data, str | Path):
        return ScoreFile.open(data).predictions(PredictionColumns(), labelled=True)
    if is_frame(data):
        file = ScoreFile.from_frame(data, argument)
        return file.predictions(PredictionColumns(), labelled=True)
    if not hasattr(data, "__array__") and not isinstance(data, Sequence):
        raise InputError(
            f"{argument} must be Predictions, the path of a file, a data frame, an array of "
            f"probabilities or a pair (probs, labels); got {type(data).__name__}."
        )
    probs, labels = data if isinstance(data, tuple) and len(data) == 2 else (data, None)
    try:
        return Predictions.from_probs(probs, labels=labels)
    except InputError as error:
        raise InputError(f"{argument}: {error}") from error


def as_other_models(models: Any) -> Predictions | list[Predictions] | None:
    """Return the predictions of other models, given like a source, or as a list of such inputs."""
    if models is None or isinstance(models, Predictions):
        return models
    inputs = models if isinstance(models, list) else [models]
    if isinstance(models, tuple) and all(isinstance(model, Predictions) for model in models):
        inputs = list(models)
    return [as_predictions(model, "other_models") for model in inputs]


# History ----------------------------------------------------------------------------------------


def open_history(
    history: Any, columns: PredictionColumns | None = None, *, argument: str = "history"
) -> HistoryInput:
    """Return past domains from a table of past estimates, or from labelled predictions per domain.

    A table is a path or a data frame with the columns `estimate` and `truth`. Labelled predictions
    are a sequence with one file, data frame, pair of arrays or `Predictions` per domain.
    """
    if history is None or isinstance(history, History):
        return history
    is_single = isinstance(history, str | Path) or is_frame(history)
    columns = PredictionColumns() if columns is None else columns
    domains = []
    for part in [history] if is_single else list(history):
        table = _open_table(part, argument)
        if table is None:
            domains.append(as_predictions(part, argument))
        elif set(table.column_names) >= HISTORY_COLUMNS:
            if not is_single and len(history) > 1:
                raise InputError(
                    f"{table.path.name} is a table of past estimates, but {argument} was given "
                    f"{len(history)} files. Give one such table, or one file of labelled "
                    "predictions per domain."
                )
            return _read_history_table(table)
        else:
            domains.append(table.predictions(columns, labelled=True))
    return domains


def _open_table(data: Any, argument: str) -> ScoreFile | None:
    """Return a file or a data frame as a table; None if the data are something else."""
    if isinstance(data, str | Path):
        return ScoreFile.open(data)
    return ScoreFile.from_frame(data, argument) if is_frame(data) else None


def _read_history_table(table: ScoreFile) -> History:
    try:
        return History(
            _read_fractions(table, "estimate"),
            _read_fractions(table, "truth"),
            *(
                _read_fractions(table, name) if name in table.column_names else None
                for name in ("spread", "expected_error")
            ),
        )
    except InputError as error:
        raise InputError(f"{table.path.name}: {error}") from error


def _read_fractions(table: ScoreFile, name: str) -> Floats:
    values = table.column(name)
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"The column {name!r} must contain numbers from 0 to 1; got {values[:1].tolist()[0]!r}."
        ) from error
