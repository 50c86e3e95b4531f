"""Model outputs in files: Parquet, CSV, Arrow and `.npz`."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from oodometer.core import frames
from oodometer.core.array_types import Array
from oodometer.core.errors import InputError
from oodometer.core.predictions import Predictions
from oodometer.core.validation import is_blank


@dataclass(frozen=True)
class PredictionColumns:
    """What the user calls things; None for the usual names."""

    label_column: str | None = None
    prob_columns: str | None = None
    logit_columns: str | None = None
    class_names: tuple[str, ...] | None = None


def read_predictions(
    path: str | Path,
    *,
    label_column: str | None = None,
    prob_columns: str | None = None,
    logit_columns: str | None = None,
    class_names: Sequence[str] | None = None,
) -> Predictions:
    """Predictions from a file, by its ending: .parquet, .csv, .arrow, .feather, .npz.

    `prob_columns` or `logit_columns` is the name of a list column (or `.npz` key), or the prefix of one column
    a class; `label_column` the column of the true classes; `class_names` what they are called, in order,
    where columns don't say so.
    """
    names = None if class_names is None else tuple(class_names)
    columns = PredictionColumns(label_column, prob_columns, logit_columns, names)
    return ScoreFile.open(path).predictions(columns, labelled=True)


@dataclass(frozen=True)
class ScoreFile:
    """An opened file of outputs: named columns, not yet taken for anything."""

    path: Path
    content: Any

    @classmethod
    def open(cls, path: str | Path) -> ScoreFile:
        """Read a file; everything that can be wrong with it is said in one line."""
        path = Path(path)
        reader = _READERS.get(file_extension(path))
        if reader is None and not path.is_dir():
            raise InputError(
                f"{path.name} has an ending that is not known. There are: {', '.join(_READERS)}."
            )
        if reader is None or not path.is_file():
            raise InputError(f"There is no file {str(path)!r}.")
        return cls(path, reader(path))

    def predictions(self, columns: PredictionColumns, *, labelled: bool) -> Predictions:
        """The predictions; without `labelled`, labels are not even looked at."""
        try:
            if isinstance(self.content, dict):
                return _from_arrays(self.content, columns, labelled)
            return _from_table(self.content, columns, labelled)
        except InputError as error:
            raise InputError(f"{self.path.name}: {error}") from error

    def partial_labels(self, columns: PredictionColumns) -> list[Any] | None:
        """Labels of some rows and blanks of the others; None where no row has one.

        Where every row has one, that is no matter of a few labels, and they are all given.
        """
        name = columns.label_column or "label"
        if isinstance(self.content, dict):
            name = columns.label_column or "labels"
            values = list(np.asarray(self.content[name]).tolist()) if name in self.content else []
        else:
            table = frames.as_table(self.content)
            values = table.column(name).to_pylist() if name in table.column_names else []
        return values if any(not is_blank(value) for value in values) else None

    def column(self, name: str) -> Array:
        """One column, for `--segment-by`."""
        try:
            if not isinstance(self.content, dict):
                return frames.read_column(frames.as_table(self.content), name)
            return np.asarray(_get_array(self.content, name))
        except InputError as error:
            raise InputError(f"{self.path.name}: {error}") from error


def _from_table(table: Any, columns: PredictionColumns, labelled: bool) -> Predictions:
    table = frames.as_table(table)
    if not labelled:
        unwanted = [name for name in table.column_names if name in ("label", columns.label_column)]
        table = table.drop_columns(unwanted)
    return Predictions.from_frame(
        table,
        label_column=columns.label_column if labelled else None,
        prob_columns=columns.prob_columns,
        logit_columns=columns.logit_columns,
        class_names=columns.class_names,
    )


def _from_arrays(
    arrays: dict[str, Array], columns: PredictionColumns, labelled: bool
) -> Predictions:
    named = frames.requested_score_columns(columns.prob_columns, columns.logit_columns)
    found = named or [(form, form) for form in frames.DEFAULT_SCORE_COLUMNS if form in arrays]
    if len(found) != 1:
        what = "both of the arrays" if found else "neither of the arrays"
        raise InputError(
            f"It has {what} probs and logits; one was expected. There are: "
            f"{', '.join(arrays)}. Name it with --prob-columns or --logit-columns."
        )
    form, name = found[0]
    door = Predictions.from_probs if form == "probs" else Predictions.from_logits
    label_key = columns.label_column or ("labels" if "labels" in arrays else None)
    names = columns.class_names if columns.class_names is not None else arrays.get("class_names")
    return door(
        _get_array(arrays, name),
        labels=_get_array(arrays, label_key) if labelled and label_key else None,
        features=arrays.get("features"),
        ids=arrays.get("ids"),
        class_names=None if names is None else [str(name) for name in np.atleast_1d(names)],
    )


def _get_array(arrays: dict[str, Array], name: str) -> Array:
    if name not in arrays:
        raise InputError(f"No array is called {name!r}. There are: {', '.join(arrays)}.")
    return arrays[name]


def file_extension(path: Path) -> str:
    """What the file is by its name; packed text has two endings."""
    packed = path.suffix.lower() == ".gz"
    return "".join(path.suffixes[-2:] if packed else path.suffixes[-1:]).lower()


def unreadable_file_error(path: Path, kind: str, error: Exception) -> InputError:
    """What to say of a file that can't be read."""
    first = (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
    cure = "Save it as UTF-8." if isinstance(error, UnicodeDecodeError) else "Is the file whole?"
    return InputError(f"{path.name} can't be read as {kind}: {first}. {cure}")


def _read_npz(path: Path) -> dict[str, Array]:
    if not zipfile.is_zipfile(path):
        raise unreadable_file_error(path, "npz", zipfile.BadZipFile("File is not a zip file"))
    try:
        # Opened here, for numpy leaves a broken archive open.
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except (ValueError, OSError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error) as error:
        if "allow_pickle" in str(error):
            raise InputError(
                f"{path.name} holds Python objects, which are not loaded because loading them can "
                "run code. Save plain arrays: numbers, or text as fixed-width strings."
            ) from error
        raise unreadable_file_error(path, "npz", error) from error


def _arrow_reader(kind: str, read: Callable[[Path], Any]) -> Callable[[Path], Any]:
    def reader(path: Path) -> Any:
        import pyarrow as pa

        try:
            table = read(path)
            _ = table.column_names  # names that are not UTF-8 are found out only here
            return table
        except (pa.ArrowException, OSError, EOFError, UnicodeDecodeError) as error:
            raise unreadable_file_error(path, kind, error) from error

    return reader


def _read_parquet(path: Path) -> Any:
    import pyarrow.parquet as pq

    # pq.read_table would import pandas, which takes longer than most files do.
    with pq.ParquetFile(path, memory_map=True) as file:
        return file.read()


def _read_csv(path: Path) -> Any:
    from pyarrow import csv, types

    check_delimiter(path)
    # Texts in quotes may run over several lines.
    found = csv.read_csv(path, parse_options=csv.ParseOptions(newlines_in_values=True))
    for column in found.schema:
        if types.is_binary(column.type):
            raise InputError(
                f"{path.name}: The column {column.name!r} is no UTF-8 text. Save it as UTF-8."
            )
    return found


def check_delimiter(path: Path) -> None:
    """Refuse what spreadsheets write in some countries: it would be one column, or rubbish."""
    with path.open("rb") as file:
        head = file.readline(2**16)
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise InputError(f"{path.name} is UTF-16 text. Save it as UTF-8.")
    for sign, name in ((b";", "semicolons"), (b"\t", "tabs")):
        if sign in head and b"," not in head and path.suffix.lower() == ".csv":
            raise InputError(
                f"{path.name} has {name} between its columns, and commas were expected. Save it "
                "with commas between columns and points in numbers."
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
    ".parquet": _arrow_reader("Parquet", _read_parquet),
    ".csv": _arrow_reader("CSV", _read_csv),
    ".csv.gz": _arrow_reader("CSV", _read_csv),
    ".arrow": _arrow_reader("Arrow", _read_ipc),
    ".feather": _arrow_reader("Arrow", _read_ipc),
    ".npz": _read_npz,
}
