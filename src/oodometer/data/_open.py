"""`as_dataset`: the one door to datasets."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from oodometer.core.errors import InputError
from oodometer.core.protocols import Dataset
from oodometer.data.dataset import InMemoryDataset
from oodometer.data.image_folder import IMAGE_EXTENSIONS, ImageFolder, read_image_folder
from oodometer.data.input_rows import read_array, read_frame, read_list, read_npy, read_npz
from oodometer.data.options import ColumnNames, DatasetOptions, RawRows
from oodometer.data.prediction_files import ScoreFile
from oodometer.parallel.pickling import ReopenSpec, with_reopen_spec

SUPPORTED_DATA = (
    "a folder of images; a .npz, .npy, .csv, .parquet, .arrow or .feather file; an array of "
    "images or vectors; a list of texts or pairs of texts; a pandas, polars or pyarrow table"
)

# By which door a worker opens a file that was opened here.
DATASET_OPENER = "oodometer.data:as_dataset"


def as_dataset(
    data: Any,
    *,
    name: str | None = None,
    labels: Any = None,
    text: ColumnNames | None = None,
    inputs: ColumnNames | None = None,
    size: int | tuple[int, int] | None = None,
    skip_bad: bool = False,
) -> Dataset:
    """A dataset of almost anything that holds inputs.

    `labels` is a label a row, or the name of a column or array; `text` the column of texts, or
    the two of pairs; `inputs` the array of an `.npz`, or the columns of a table; `size` what a
    folder's images are brought to. Bad rows are an error; with `skip_bad` they are left out, and
    the dataset's `skipped` says which. Texts and tables are held in memory; `.npy` files are
    mapped and images decoded when they are asked for.

    >>> as_dataset([[1, 2], [3, 4]], labels=["a", "b"])
    InMemoryDataset('vectors', 2 rows of vectors, labelled)
    >>> as_dataset(["fine", " "], skip_bad=True).skipped
    ('row 1',)
    """
    asked = DatasetOptions(name, labels, text, inputs, size, skip_bad)
    if isinstance(data, InMemoryDataset | ImageFolder):
        return data
    if isinstance(data, str | os.PathLike):
        return _open_path(Path(data), asked)
    if isinstance(data, Dataset):
        return data
    return _build_dataset(_read_object(data, asked), asked)


def _read_object(thing: Any, options: DatasetOptions) -> RawRows:
    if _is_frame(thing):
        options.reject_options("a table", "size")
        return read_frame(thing, options)
    options.reject_options(f"a {type(thing).__name__}", "text", "inputs", "size")
    if isinstance(thing, list | tuple):
        return read_list(list(thing), options.labels)
    if hasattr(thing, "__array__"):
        return read_array(np.asarray(thing), options.labels)
    raise InputError(
        f"A {type(thing).__name__} is no dataset. What can be opened: {SUPPORTED_DATA}."
    )


def _is_frame(thing: Any) -> bool:
    """Whether it is a table; one column of it speaks the Arrow interface too, but has no columns."""
    speaks = hasattr(thing, "__arrow_c_stream__") or hasattr(thing, "__arrow_c_array__")
    return speaks and (hasattr(thing, "columns") or hasattr(thing, "column_names"))


def _build_dataset(raw: RawRows, options: DatasetOptions) -> InMemoryDataset:
    whole = raw.to_dataset(options.name or "The data", options.skip_bad)
    return whole if options.name else replace(whole, name=whole.kind)


def _open_path(path: Path, options: DatasetOptions) -> Dataset:
    # Not Path's own tests, which raise where a name is too long to be one.
    if os.path.isdir(path):
        options.reject_options("a folder", "text", "inputs")
        return read_image_folder(path, options)
    reader = FILE_READERS.get(path.suffix.lower())
    if not os.path.exists(path):
        raise InputError(
            f"There is no file or folder {str(path)!r:.300}. What can be opened: {SUPPORTED_DATA}."
        )
    if reader is None:
        alone = path.suffix.lower() in IMAGE_EXTENSIONS
        what = "is one image; give its folder" if alone else "has an ending that is not known"
        raise InputError(f"{path.name} {what}. What can be opened: {SUPPORTED_DATA}.")
    arrays = path.suffix.lower() in (".npy", ".npz")
    options.reject_options(f"a {path.suffix} file", "size", *(["text"] if arrays else []))
    try:
        read = reader(path, options)
    except InputError as error:
        if str(error).startswith(path.name):
            raise
        raise InputError(f"{path.name}: {error}") from error
    whole = read.to_dataset(options.name or path.stem, options.skip_bad)
    return with_reopen_spec(whole, ReopenSpec.create(DATASET_OPENER, path, vars(options)))


def _read_table_file(path: Path, options: DatasetOptions) -> RawRows:
    frame = ScoreFile.open(path).content
    only = frame.column_names[0] if frame.num_columns == 1 else ""
    if path.suffix.lower() == ".csv" and any(mark in only for mark in ";\t|"):
        raise InputError(
            f"It has one column, called {only!r:.80}; commas were expected between columns. Save "
            "it again with commas."
        )
    return read_frame(frame, options)


FILE_READERS: dict[str, Callable[[Path, DatasetOptions], RawRows]] = {
    ".npy": read_npy,
    ".npz": read_npz,
    ".csv": _read_table_file,
    ".parquet": _read_table_file,
    ".arrow": _read_table_file,
    ".feather": _read_table_file,
}
