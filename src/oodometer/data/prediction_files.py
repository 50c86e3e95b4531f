"""Read prediction files: tables in several formats and `.npz` files with the outputs of a model."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from oodometer.core import frames
from oodometer.core.array_types import Array
from oodometer.core.errors import InputError, UnknownName, format_error, not_a_file, unknown_column
from oodometer.core.frames import ScoreColumns
from oodometer.core.labels import is_blank
from oodometer.core.predictions import Predictions, classes_from_table

# Number of bytes of a CSV file that are examined to find its delimiter.
HEADER_BYTES = 2**16
UNKNOWN_CLASS_ADVICE = (
    "If the source lacks this class, name all classes with class_names=[…] (--class-names)."
)
SOURCE_LABELS_ADVICE = (
    "Pass labelled Predictions, a pair (probs, labels), or a table with a column label; if the "
    "column has another name, pass columns={'label_column': '…'}."
)
# Names, in lower case, under which other programs store the true classes.
LABEL_LIKE_NAMES = (
    "labels",
    "y",
    "y_true",
    "target",
    "class",
    "true_label",
    "true_class",
    "ground_truth",
    "truth",
    "gt",
    "actual",
    "gold",
)


@dataclass(frozen=True)
class PredictionColumns:
    """Names of columns chosen by the user; None means that the default names are searched."""

    label_column: str | None = None
    prob_columns: str | None = None
    logit_columns: str | None = None
    class_names: tuple[str, ...] | None = None
    pred_column: str | None = None
    thresholds: tuple[float, ...] | None = None

    @classmethod
    def of(cls, columns: PredictionColumns | Mapping[str, Any] | None) -> PredictionColumns:
        """Return the names of columns from a mapping with the names of the fields as keys.

        >>> PredictionColumns.of({"label_column": "employed", "thresholds": 0.3}).thresholds
        (0.3,)
        """
        if columns is None or isinstance(columns, PredictionColumns):
            return cls() if columns is None else columns
        names = [field.name for field in fields(cls)]
        if not isinstance(columns, Mapping):
            raise InputError(
                "columns must be a mapping from the kind of column to its name, such as "
                f"{{'label_column': 'employed'}}; got {type(columns).__name__}. "
                f"Kinds: {', '.join(names)}."
            )
        values: dict[str, Any] = {}
        for key, value in columns.items():
            if key not in names:
                raise UnknownName("key of columns", str(key), names)
            values[key] = value if value is None else _column_value(key, value)
        if values.get("pred_column") is not None and values.get("thresholds") is not None:
            raise InputError(
                "columns has both pred_column and thresholds. Give only one of them, because each "
                "decides the classes."
            )
        return cls(**values)

    def decide(self, predictions: Predictions) -> Predictions:
        """Return the predictions with decisions by the thresholds, if there are thresholds."""
        return predictions if self.thresholds is None else predictions.decide(self.thresholds)


def _column_value(key: str, value: Any) -> str | tuple[Any, ...]:
    """Return the name of a column, the names of the classes or the thresholds; raise if invalid."""
    expected = "the name of a column"
    if key == "thresholds":
        numbers = [value] if isinstance(value, float | int) else value
        if _is_list_of(numbers, (float, int)):
            return tuple(map(float, numbers))
        expected = "a number, or one number per class"
    elif key == "class_names":
        if _is_list_of(value, str):
            return tuple(value)
        expected = "a list of texts, one per class"
    elif isinstance(value, str):
        return value
    raise InputError(f"columns: {key!r} must be {expected}; got {value!r}.")


def _is_list_of(values: Any, types: type | tuple[type, ...]) -> bool:
    return isinstance(values, list | tuple) and all(isinstance(value, types) for value in values)


def read_predictions(
    path: str | Path,
    *,
    label_column: str | None = None,
    prob_columns: str | None = None,
    logit_columns: str | None = None,
    pred_column: str | None = None,
    class_names: Sequence[str] | None = None,
) -> Predictions:
    """Read the predictions in a file.

    Parameters
    ----------
    path : str or Path
        A `.parquet`, `.csv`, `.csv.gz`, `.tsv`, `.jsonl`, `.ndjson`, `.arrow`, `.feather` or `.npz`
        file.
    label_column : str, optional
        Column (or `.npz` array) of the true classes; by default `label` (`labels`), if it exists.
    prob_columns, logit_columns : str, optional
        Name of a list column (or `.npz` array), or common prefix of one column per class. By
        default, the columns are found by names that begin with `prob` or `logit`.
    pred_column : str, optional
        Column (or `.npz` array) of the decisions; by default `pred`, if it exists. In a file
        without scores, it holds the predicted classes.
    class_names : sequence of str, optional
        Names of the classes in their order; by default the suffixes of the column names.

    Returns
    -------
    Predictions
        The predictions, labelled if the file has labels.

    Raises
    ------
    InputError
        If the file cannot be read, or its columns are missing, ambiguous or invalid.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "scores.csv"
    ...     _ = path.write_text("prob_cat,prob_dog,label\\n0.9,0.1,cat\\n0.4,0.6,cat\\n")
    ...     read_predictions(path).correct
    array([ True, False])
    """
    names = None if class_names is None else tuple(class_names)
    columns = PredictionColumns(label_column, prob_columns, logit_columns, names, pred_column)
    return ScoreFile.open(path).predictions(columns, labelled=True)


@dataclass(frozen=True)
class ScoreSchema:
    """Columns of scores, labels and segments in a table of predictions, with their Arrow types.

    `score_columns` is None if the table has predicted classes (`pred_column`) but no scores.
    `period` is None unless `segment_by` names a column of times; then it is the length of a segment.
    `all_columns` are the names of all columns of the table, also those that are not read.
    `class_order` is None unless the classes of the files must be put into another order, usually
    that of the source. Then `class_order[j]` is the number, in the files, of class j of the result.
    """

    score_columns: ScoreColumns | None
    class_names: tuple[str, ...] | None
    label_column: str | None
    segment_by: tuple[str, ...]
    types: tuple[tuple[str, Any], ...]
    class_order: tuple[int, ...] | None = None
    pred_column: str | None = None
    all_columns: frozenset[str] = frozenset()
    period: str | None = None

    @classmethod
    def of_table(
        cls,
        table: Any,
        columns: PredictionColumns,
        *,
        labelled: bool,
        segment_by: tuple[str, ...] = (),
    ) -> ScoreSchema:
        """Find the columns of a table; if `labelled` is false, labels are optional."""
        scores = None
        if _has_classes_only(table, columns):
            label = frames.find_label_column(table, columns.label_column, labelled=labelled)
        else:
            scores, label = frames.find_prediction_columns(
                table,
                label_column=columns.label_column,
                prob_columns=columns.prob_columns,
                logit_columns=columns.logit_columns,
                labelled=labelled,
            )
        for name in segment_by:
            if name not in table.column_names:
                raise unknown_column(name, table.column_names)
        names = columns.class_names
        if names is None and scores is not None:
            names = scores.class_names
        pred = None
        if columns.thresholds is None:
            pred = frames.find_pred_column(table, columns.pred_column)
        schema = cls(
            scores,
            names,
            label,
            segment_by,
            types=(),
            pred_column=pred,
            all_columns=frozenset(table.column_names),
        )
        types = ((name, table.schema.field(name).type) for name in schema.columns)
        return replace(schema, types=tuple(types))

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns to read."""
        optional = (self.label_column, *self.segment_by, self.pred_column)
        others = (name for name in optional if name is not None)
        return tuple(dict.fromkeys((*self.score_names, *others)))

    @property
    def score_names(self) -> tuple[str, ...]:
        """Names of the columns of scores; none if there are only predicted classes."""
        return () if self.score_columns is None else self.score_columns.columns

    @property
    def score_kind(self) -> tuple[str, bool]:
        """Type of the scores, and whether one column has all of them."""
        columns = self.score_columns
        return (
            ("classes", True) if columns is None else (columns.score_type, columns.is_single_column)
        )

    def reorder_classes(self, class_names: tuple[str, ...] | None) -> ScoreSchema:
        """Return the schema with the classes in the order of `class_names`."""
        own_names = self.class_names
        if class_names is None or own_names is None or class_names == own_names:
            return self
        order = tuple(own_names.index(name) for name in class_names)
        return replace(self, class_order=order, class_names=class_names)

    def scores(self, table: Any, out: Array | None = None) -> Array:
        """Return the scores of a table; `out` has the same meaning as in `frames.read_scores`."""
        columns = self.score_columns
        assert columns is not None
        if self.class_order is None:
            return frames.read_scores(table, columns, out)
        if columns.is_single_column:
            return frames.read_scores(table, columns)[:, list(self.class_order)]
        reordered = tuple(columns.columns[number] for number in self.class_order)
        return frames.read_scores(table, replace(columns, columns=reordered), out)

    def read_decisions(self, table: Any) -> Array | None:
        """Return the column of decisions; None if there is none."""
        return None if self.pred_column is None else frames.read_column(table, self.pred_column)

    def read_batch(self, table: Any) -> Predictions:
        """Return the predictions of a batch of rows, without labels."""
        if self.score_columns is None:
            return self.read_classes(table)
        return self.predictions(self.scores(table), decisions=self.read_decisions(table))

    def read_classes(self, table: Any) -> Predictions:
        """Return the predicted classes of a batch of rows; the names of the classes must be known.

        Only the distinct values are encoded, because a batch has many rows.
        """
        import pyarrow as pa

        name, names = self.pred_column, self.class_names
        assert name is not None
        assert names is not None
        frames.check_no_nulls(table.column(name), name)
        coded = pa.chunked_array(table.column(name)).combine_chunks().dictionary_encode()
        distinct = frames.read_column(pa.table({name: coded.dictionary}), name)
        try:
            numbers = Predictions.from_classes(distinct, class_names=names).classes
        except InputError:
            _raise_unknown_class(frames.read_column(table, name), names)
            raise
        classes = numbers[np.asarray(coded.indices)]
        return replace(Predictions.from_classes(classes, k=len(names)), class_names=names)

    def predictions(
        self,
        scores: Array | None,
        labels: Array | None = None,
        ids: Array | None = None,
        decisions: Array | None = None,
    ) -> Predictions:
        """Return predictions; without scores, the decisions are the predicted classes."""
        if self.score_columns is None:
            return Predictions.from_classes(
                decisions, labels=labels, ids=ids, class_names=self.class_names
            )
        is_probs = self.score_columns.score_type == "probs"
        create = Predictions.from_probs if is_probs else Predictions.from_logits
        return create(
            scores, labels=labels, ids=ids, class_names=self.class_names, decisions=decisions
        )


@dataclass(frozen=True)
class ScoreFile:
    """Content of a prediction file, which is a pyarrow table or, for `.npz`, a dict of arrays."""

    path: Path
    content: Any

    @classmethod
    def open(cls, path: str | Path) -> ScoreFile:
        """Read a file; raise an `InputError` with a message of one line if this fails."""
        path = Path(path)
        reader = _READERS.get(file_extension(path))
        if reader is None and path.is_file():
            raise InputError(
                f"{path.name} has an unknown extension. Known extensions: {', '.join(_READERS)}."
            )
        if reader is None or not path.is_file():
            raise not_a_file(path, expected="a table or an .npz file")
        return cls(path, reader(path))

    @classmethod
    def from_frame(cls, frame: Any, name: str) -> ScoreFile:
        """Return a data frame like the content of a file; `name` appears in error messages."""
        return cls(Path(name), frames.drop_pandas_index(frames.as_table(frame)))

    @property
    def column_names(self) -> list[str]:
        """Return the names of the columns or arrays."""
        return list(self.content if isinstance(self.content, dict) else self.content.column_names)

    def predictions(self, columns: PredictionColumns, *, labelled: bool) -> Predictions:
        """Return the predictions in the file; if `labelled` is false, labels are not read."""
        try:
            if self.has_classes_only(columns):
                return _classes_of(self.content, columns, labelled)
            if isinstance(self.content, dict):
                return _from_arrays(self.content, columns, labelled)
            return _from_table(frames.as_table(self.content), columns, labelled)
        except InputError as error:
            raise InputError(f"{self.path.name}: {error}") from error

    def partial_labels(self, columns: PredictionColumns) -> list[Any] | None:
        """Return the label of every row, blank if it is missing; None if no row has a label."""
        labels: list[Any] = []
        if isinstance(self.content, dict):
            name = columns.label_column or "labels"
            if name in self.content:
                labels = list(np.asarray(self.content[name]).tolist())
        else:
            name = columns.label_column or frames.DEFAULT_LABEL_COLUMN
            table = frames.as_table(self.content)
            if name in table.column_names:
                labels = table.column(name).to_pylist()
        return None if all(is_blank(label) for label in labels) else labels

    def has_classes_only(self, columns: PredictionColumns) -> bool:
        """Return whether the file has predicted classes but no scores."""
        if isinstance(self.content, dict):
            pred = columns.pred_column or frames.DEFAULT_PRED_COLUMN
            scores = (columns.prob_columns, columns.logit_columns, *frames.DEFAULT_SCORE_COLUMNS)
            return pred in self.content and not any(name in self.content for name in scores)
        return _has_classes_only(frames.as_table(self.content), columns)

    def column(self, name: str) -> Array:
        """Return one column or array, such as the segments for `--segment-by`."""
        try:
            if isinstance(self.content, dict):
                return np.asarray(find_array(self.content, name))
            return frames.read_column(frames.as_table(self.content), name)
        except InputError as error:
            raise InputError(f"{self.path.name}: {error}") from error


def _raise_unknown_class(classes: Array, class_names: tuple[str, ...]) -> None:
    """Raise the error for a value that is not a class, with the number of its row."""
    try:
        Predictions.from_classes(classes, class_names=class_names)
    except InputError as error:
        raise InputError(f"{error} {UNKNOWN_CLASS_ADVICE}") from error


def _has_classes_only(table: Any, columns: PredictionColumns) -> bool:
    """Return whether a table has predicted classes but no scores."""
    return columns.thresholds is None and frames.has_classes_only(
        table,
        probs=columns.prob_columns,
        logits=columns.logit_columns,
        pred_column=columns.pred_column,
    )


def _classes_of(content: Any, columns: PredictionColumns, labelled: bool) -> Predictions:
    """Return the predictions of a file with predicted classes but no scores."""
    label = columns.label_column
    if isinstance(content, dict):
        import pyarrow as pa

        names = [columns.pred_column or frames.DEFAULT_PRED_COLUMN]
        label = label or "labels"
        names += [label] if label in content else []
        content = pa.table({name: content[name] for name in names})
        label = label if label in names else None
    return classes_from_table(
        frames.as_table(content),
        pred_column=columns.pred_column,
        label_column=label,
        class_names=columns.class_names,
        labelled=labelled,
    )


def _from_table(table: Any, columns: PredictionColumns, labelled: bool) -> Predictions:
    schema = ScoreSchema.of_table(table, columns, labelled=labelled)
    label = schema.label_column if labelled else None
    predictions = schema.predictions(
        schema.scores(table),
        labels=None if label is None else frames.read_labels(table, label),
        ids=frames.read_column(table, "id") if "id" in table.column_names else None,
        decisions=schema.read_decisions(table),
    )
    return columns.decide(predictions)


def _from_arrays(
    arrays: dict[str, Array], columns: PredictionColumns, labelled: bool
) -> Predictions:
    requested = frames.requested_score_columns(columns.prob_columns, columns.logit_columns)
    candidates = requested or [
        (score_type, score_type)
        for score_type in frames.DEFAULT_SCORE_COLUMNS
        if score_type in arrays
    ]
    if len(candidates) != 1:
        raise InputError(
            f"Expected one of the arrays probs and logits; got {'both' if candidates else 'neither'}. "
            f"Arrays: {', '.join(arrays)}. Name one with {frames.NAME_SCORES_ADVICE}."
        )
    score_type, name = candidates[0]
    create = Predictions.from_probs if score_type == "probs" else Predictions.from_logits
    label = columns.label_column or ("labels" if "labels" in arrays else None)
    names = columns.class_names if columns.class_names is not None else arrays.get("class_names")
    pred = columns.pred_column or ("pred" if "pred" in arrays else None)
    predictions = create(
        find_array(arrays, name),
        labels=find_array(arrays, label) if labelled and label else None,
        features=arrays.get("features"),
        ids=arrays.get("ids"),
        class_names=None if names is None else [str(name) for name in np.atleast_1d(names)],
        decisions=find_array(arrays, pred) if pred and columns.thresholds is None else None,
    )
    return columns.decide(predictions)


def label_column_candidates(names: Sequence[str]) -> list[str]:
    """Return the columns whose names suggest that they hold the true classes.

    >>> label_column_candidates(["prob", "Ground_Truth", "age"])
    ['Ground_Truth']
    """
    return [name for name in names if name.lower().replace("-", "_") in LABEL_LIKE_NAMES]


def find_array(arrays: dict[str, Array], name: str, *, option: str = "") -> Array:
    """Return an array of an `.npz` file; raise if no array has that name."""
    if name not in arrays:
        advice = f" Name one with {option}='…'." if option else ""
        raise InputError(f"There is no array {name!r}. Arrays: {', '.join(arrays)}.{advice}")
    return arrays[name]


# Reading whole files ----------------------------------------------------------------------------


def file_extension(path: Path) -> str:
    """Return the extension of a file in lower case, such as `.parquet` or `.csv.gz`."""
    is_compressed = path.suffix.lower() == ".gz"
    return "".join(path.suffixes[-2:] if is_compressed else path.suffixes[-1:]).lower()


def unreadable_file_error(path: Path, file_format: str, error: Exception) -> InputError:
    """Return the error for a file that cannot be read in the format that its extension names."""
    is_encoding = isinstance(error, UnicodeDecodeError)
    advice = "Save it as UTF-8." if is_encoding else "Is the file complete?"
    reason = format_error(error, first_line=True)
    return InputError(f"{path.name} cannot be read as {file_format}: {reason}. {advice}")


def _read_npz(path: Path) -> dict[str, Array]:
    if not zipfile.is_zipfile(path):
        raise unreadable_file_error(path, "npz", zipfile.BadZipFile("File is not a zip file"))
    try:
        # The file is opened here because numpy does not close a broken archive.
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except (ValueError, OSError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error) as error:
        if "allow_pickle" in str(error):
            raise InputError(
                f"{path.name} holds Python objects, which are not loaded because loading them can "
                "run code. Save plain arrays: numbers, or text as fixed-width strings."
            ) from error
        raise unreadable_file_error(path, "npz", error) from error


def _table_reader(file_format: str, read: Callable[[Path], Any]) -> Callable[[Path], Any]:
    def reader(path: Path) -> Any:
        import pyarrow as pa

        try:
            table = read(path)
            _ = table.column_names  # raises if a name is not UTF-8
            return table
        except (pa.ArrowException, OSError, EOFError, UnicodeDecodeError) as error:
            raise unreadable_file_error(path, file_format, error) from error

    return reader


def _read_parquet(path: Path) -> Any:
    import pyarrow.parquet as pq

    # pq.read_table would import pandas, which takes longer than reading most files.
    with pq.ParquetFile(path, memory_map=True) as file:
        return file.read()


def csv_parse_options(path: Path) -> Any:
    """Return the options of pyarrow for a file with commas or, if it is a `.tsv` file, tabs."""
    from pyarrow import csv

    delimiter = "\t" if file_extension(path) == ".tsv" else ","
    # Quoted texts may contain line breaks.
    return csv.ParseOptions(delimiter=delimiter, newlines_in_values=True)


def _read_json_lines(path: Path) -> Any:
    from pyarrow import json

    return json.read_json(path)


def _read_csv(path: Path) -> Any:
    from pyarrow import csv, types

    check_delimiter(path)
    table = csv.read_csv(path, parse_options=csv_parse_options(path))
    for column in table.schema:
        if types.is_binary(column.type):
            raise InputError(
                f"{path.name}: The column {column.name!r} is not UTF-8 text. Save it as UTF-8."
            )
    return table


def check_delimiter(path: Path) -> None:
    """Raise if a CSV file is UTF-16 text, or if semicolons or tabs separate its columns."""
    with path.open("rb") as file:
        header = file.readline(HEADER_BYTES)
    if header.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise InputError(f"{path.name} is UTF-16 text. Save it as UTF-8.")
    if b"," in header or path.suffix.lower() != ".csv":
        return
    advice = "Save it with commas between columns and points in numbers."
    if b";" in header:
        raise InputError(
            f"{path.name} has semicolons between its columns; expected commas. {advice}"
        )
    if b"\t" in header:
        raise InputError(
            f"{path.name} has tabs between its columns; expected commas. Save it with commas, or "
            "rename it to .tsv."
        )


def _read_ipc(path: Path) -> Any:
    import pyarrow as pa

    with pa.memory_map(str(path)) as source:
        try:
            return pa.ipc.open_file(source).read_all()
        except pa.ArrowInvalid:
            source.seek(0)
            return pa.ipc.open_stream(source).read_all()


_READERS: dict[str, Callable[[Path], Any]] = {
    ".parquet": _table_reader("Parquet", _read_parquet),
    ".csv": _table_reader("CSV", _read_csv),
    ".csv.gz": _table_reader("CSV", _read_csv),
    ".tsv": _table_reader("TSV", _read_csv),
    ".jsonl": _table_reader("JSON lines", _read_json_lines),
    ".ndjson": _table_reader("JSON lines", _read_json_lines),
    ".arrow": _table_reader("Arrow", _read_ipc),
    ".feather": _table_reader("Arrow", _read_ipc),
    ".npz": _read_npz,
}
