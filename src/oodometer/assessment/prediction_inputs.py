"""Source, target and history of `estimate`, given as Predictions, files, data frames or arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from oodometer.assessment.conformal_interval import History, HistoryInput
from oodometer.assessment.learned_reference import SourceRows
from oodometer.assessment.segments import combine_segments
from oodometer.assessment.source_files import read_source, whole_source
from oodometer.assessment.target_labels import open_target_labels
from oodometer.core.array_types import Floats
from oodometer.core.errors import InputError
from oodometer.core.labels import is_blank
from oodometer.core.predictions import Predictions
from oodometer.core.protocols import ProgressCallback
from oodometer.data.batch_reader import expand_location, is_read_in_batches
from oodometer.data.prediction_files import (
    SOURCE_LABELS_ADVICE,
    UNKNOWN_CLASS_ADVICE,
    PredictionColumns,
    ScoreFile,
    label_column_candidates,
)

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
    columns: PredictionColumns | None = None,
    *,
    segment_by: tuple[str, ...] = (),
    seed: int = 0,
    progress: ProgressCallback | None = None,
) -> SourceRows:
    """Return the labelled rows of a source; large files are sampled.

    The segments are read if the source is a file or a data frame that has all columns `segment_by`.
    """
    if isinstance(source, SourceRows):
        return source
    columns = columns or PredictionColumns()
    if isinstance(source, str | Path):
        return read_source(source, columns, segment_by=segment_by, seed=seed, progress=progress)
    if is_frame(source):
        return whole_source(ScoreFile.from_frame(source, "source"), columns, segment_by)
    predictions = as_predictions(source, "source")
    return SourceRows(predictions, predictions.n)


def unlabelled_source_error(source: Any, target: Any, columns: PredictionColumns) -> InputError:
    """Return the error for a source without labels, with the most likely reason."""
    problem = "The source has no labels, and the model's accuracy on the source is needed."
    if _has_labels(target, columns):
        return InputError(
            f"{problem} The target has labels: source and target seem to be swapped. Pass the "
            "labelled data first: estimate(source, target)."
        )
    candidates: list[str] = []
    if _is_small_table(source):
        table = _open_table(source, "source")
        candidates = [] if table is None else label_column_candidates(table.column_names)
    if candidates:
        return InputError(
            f"{problem} If the column {candidates[0]!r} has the true classes, pass "
            f"columns={{'label_column': {candidates[0]!r}}}."
        )
    return InputError(f"{problem} {SOURCE_LABELS_ADVICE}")


def _has_labels(data: Any, columns: PredictionColumns) -> bool:
    """Return whether data in memory or in a small file have labels of some rows."""
    if _is_small_table(data):
        table = _open_table(data, "target")
        return table is not None and table.partial_labels(columns) is not None
    if isinstance(data, tuple) and len(data) == 2:
        return data[1] is not None
    return isinstance(data, Predictions) and data.is_labelled


def _is_small_table(data: Any) -> bool:
    """Return whether data are a data frame, or a file that is read as a whole."""
    return is_frame(data) or (isinstance(data, str | Path) and not is_read_in_batches(data))


def segment_columns(segment_by: Any) -> tuple[str, ...]:
    """Return the names of columns, if `segment_by` is a name or a list of texts; else none.

    >>> segment_columns("site"), segment_columns(["site", "sex"]), segment_columns([1, 2])
    (('site',), ('site', 'sex'), ())
    """
    names = (segment_by,) if isinstance(segment_by, str) else segment_by
    is_names = isinstance(names, list | tuple) and all(isinstance(name, str) for name in names)
    return tuple(names) if is_names else ()


def open_target(
    target: Any,
    columns: PredictionColumns | None = None,
    *,
    segment_by: Any = None,
    target_labels: Any = None,
    source: Predictions | None = None,
) -> TargetRows:
    """Return the rows of a target that is in memory or in a small file.

    If only some rows of a table, or of a pair of arrays, have a label, these labels are used as
    `target_labels`, which may also be a table, such as the file of a labeling plan. `segment_by` may
    be names of columns of a table. Predicted classes without scores are numbered as in the source.
    """
    columns = columns or PredictionColumns()
    is_path = isinstance(target, str | Path)
    if is_path or is_frame(target):
        file = ScoreFile.open(target) if is_path else ScoreFile.from_frame(target, "target")
        if target_labels is None:
            target_labels = partial_labels(file.partial_labels(columns))
        predictions = read_unlabelled(file, columns, source)
        return TargetRows(
            predictions,
            _read_segments(file, segment_by, predictions.n),
            _open_labels(target_labels, predictions),
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
    predictions = as_predictions(target, "target")
    return TargetRows(predictions, segment_by, _open_labels(target_labels, predictions))


def _open_labels(target_labels: Any, target: Predictions) -> Any:
    """Return one label per target row if the labels are in a table; others unchanged."""
    return None if target_labels is None else open_target_labels(target_labels, target)


def _read_segments(file: ScoreFile, segment_by: Any, n: int) -> Any:
    """Return the values of the named columns; other values of `segment_by` are returned unchanged.

    A list of n texts is one value per row, unless all of them are names of columns.
    """
    names = segment_columns(segment_by)
    is_values = len(names) == n and not isinstance(segment_by, str)
    if not names or (is_values and not set(names) <= set(file.column_names)):
        return segment_by
    return combine_segments([file.column(name) for name in names])


def read_unlabelled(
    file: ScoreFile, columns: PredictionColumns, source: Predictions | None
) -> Predictions:
    """Return predictions without labels; predicted classes are numbered as in the source."""
    if source is None or columns.class_names is not None or not file.has_classes_only(columns):
        return file.predictions(columns, labelled=False)
    names = source.class_names or tuple(map(str, range(source.k)))
    try:
        return file.predictions(replace(columns, class_names=names), labelled=False)
    except InputError as error:
        raise InputError(f"{error} {UNKNOWN_CLASS_ADVICE}") from error


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


def as_other_models(
    models: Any,
    columns: PredictionColumns | None = None,
    *,
    source: Predictions | None = None,
) -> Predictions | list[Predictions] | None:
    """Return the predictions of other models, given like a source, or as a list of such inputs.

    Predicted classes in tables without scores are numbered as in the source.
    """
    if models is None or isinstance(models, Predictions):
        return models
    inputs = models if isinstance(models, list) else [models]
    if isinstance(models, tuple) and all(isinstance(model, Predictions) for model in models):
        inputs = list(models)
    others = []
    for model in inputs:
        table = _open_table(model, "other_models")
        if table is None:
            others.append(as_predictions(model, "other_models"))
        else:
            others.append(read_unlabelled(table, columns or PredictionColumns(), source))
    return others


# History ----------------------------------------------------------------------------------------


def open_history(
    history: Any, columns: PredictionColumns | None = None, *, argument: str = "history"
) -> HistoryInput:
    """Return past domains from a table of past estimates, or from labelled predictions per domain.

    A table is a path or a data frame with the columns `estimate` and `truth`. Labelled predictions
    are a sequence with one file, data frame, pair of arrays or `Predictions` per domain. A folder or
    a pattern stands for its files.
    """
    if history is None or isinstance(history, History):
        return history
    is_single = isinstance(history, str | Path) or is_frame(history)
    columns = PredictionColumns() if columns is None else columns
    parts = [each for part in ([history] if is_single else history) for each in _expand(part)]
    opened = [_open_table(part, argument) for part in parts]
    for table in opened:
        if table is not None and set(table.column_names) >= HISTORY_COLUMNS:
            if len(opened) > 1:
                raise InputError(
                    f"{table.path.name} is a table of past estimates, but {argument} was given "
                    f"{len(opened)} files. Give one such table, or one file of labelled "
                    "predictions per domain."
                )
            return _read_history_table(table)
    return [
        as_predictions(part, argument)
        if table is None
        else _read_past_domain(table, columns, argument)
        for part, table in zip(parts, opened, strict=True)
    ]


def _expand(part: Any) -> tuple[Any, ...]:
    """Return the files of a folder or pattern; other inputs unchanged."""
    return expand_location(part) if isinstance(part, str | Path) else (part,)


def _read_past_domain(file: ScoreFile, columns: PredictionColumns, argument: str) -> Predictions:
    past = file.predictions(columns, labelled=True)
    if not past.is_labelled:
        raise InputError(
            f"{argument} {file.path.name} has no labels. Give past domains with a label column, or a "
            "table with the columns estimate and truth."
        )
    return past


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
