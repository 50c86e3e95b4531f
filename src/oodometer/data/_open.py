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
from oodometer.data._array_rows import read_array, read_list, read_npy, read_npz
from oodometer.data._table_rows import read_frame
from oodometer.data.dataset import InMemory
from oodometer.data.image_folder import ENDINGS, ImageFolder, read_folder
from oodometer.data.options import Asked, Names, Read
from oodometer.data.prediction_files import Outputs
from oodometer.parallel.pickling import Place, placed

CAN = (
    "a folder of images; a .npz, .npy, .csv, .parquet, .arrow or .feather file; an array of "
    "images or vectors; a list of texts or pairs of texts; a pandas, polars or pyarrow table"
)

# By which door a worker opens a file that was opened here.
DOOR = "oodometer.data:as_dataset"


def as_dataset(
    thing: Any,
    *,
    name: str | None = None,
    labels: Any = None,
    text: Names | None = None,
    inputs: Names | None = None,
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
    InMemory('vectors', 2 rows of vectors, labelled)
    >>> as_dataset(["fine", " "], skip_bad=True).skipped
    ('row 1',)
    """
    asked = Asked(name, labels, text, inputs, size, skip_bad)
    if isinstance(thing, InMemory | ImageFolder):
        return thing
    if isinstance(thing, str | os.PathLike):
        return _opened(Path(thing), asked)
    if isinstance(thing, Dataset):
        return thing
    return _made(_read(thing, asked), asked)


def _read(thing: Any, asked: Asked) -> Read:
    if _is_frame(thing):
        asked.refuse("a table", "size")
        return read_frame(thing, asked)
    asked.refuse(f"a {type(thing).__name__}", "text", "inputs", "size")
    if isinstance(thing, list | tuple):
        return read_list(list(thing), asked.labels)
    if hasattr(thing, "__array__"):
        return read_array(np.asarray(thing), asked.labels)
    raise InputError(f"A {type(thing).__name__} is no dataset. What can be opened: {CAN}.")


def _is_frame(thing: Any) -> bool:
    """Whether it is a table; one column of it speaks the Arrow interface too, but has no columns."""
    speaks = hasattr(thing, "__arrow_c_stream__") or hasattr(thing, "__arrow_c_array__")
    return speaks and (hasattr(thing, "columns") or hasattr(thing, "column_names"))


def _made(read: Read, asked: Asked) -> InMemory:
    whole = read.dataset(asked.name or "The data", asked.skip_bad)
    return whole if asked.name else replace(whole, name=whole.kind)


def _opened(path: Path, asked: Asked) -> Dataset:
    # Not Path's own tests, which raise where a name is too long to be one.
    if os.path.isdir(path):
        asked.refuse("a folder", "text", "inputs")
        return read_folder(path, asked)
    reader = FILES.get(path.suffix.lower())
    if not os.path.exists(path):
        raise InputError(
            f"There is no file or folder {str(path)!r:.300}. What can be opened: {CAN}."
        )
    if reader is None:
        alone = path.suffix.lower() in ENDINGS
        what = "is one image; give its folder" if alone else "has an ending that is not known"
        raise InputError(f"{path.name} {what}. What can be opened: {CAN}.")
    arrays = path.suffix.lower() in (".npy", ".npz")
    asked.refuse(f"a {path.suffix} file", "size", *(["text"] if arrays else []))
    try:
        read = reader(path, asked)
    except InputError as error:
        if str(error).startswith(path.name):
            raise
        raise InputError(f"{path.name}: {error}") from error
    whole = read.dataset(asked.name or path.stem, asked.skip_bad)
    return placed(whole, Place.of(DOOR, path, vars(asked)))


def _frame_file(path: Path, asked: Asked) -> Read:
    frame = Outputs.open(path).content
    only = frame.column_names[0] if frame.num_columns == 1 else ""
    if path.suffix.lower() == ".csv" and any(mark in only for mark in ";\t|"):
        raise InputError(
            f"It has one column, called {only!r:.80}; commas were expected between columns. Save "
            "it again with commas."
        )
    return read_frame(frame, asked)


FILES: dict[str, Callable[[Path, Asked], Read]] = {
    ".npy": read_npy,
    ".npz": read_npz,
    ".csv": _frame_file,
    ".parquet": _frame_file,
    ".arrow": _frame_file,
    ".feather": _frame_file,
}
