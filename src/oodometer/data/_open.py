"""`as_dataset`: open files, folders, arrays, lists and tables as datasets."""

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
from oodometer.data.float_images import Channels, PixelRange
from oodometer.data.image_folder import IMAGE_EXTENSIONS, ImageFolder, read_image_folder
from oodometer.data.input_rows import read_array, read_frame, read_list, read_npy, read_npz
from oodometer.data.options import ColumnNames, DatasetOptions, RawRows
from oodometer.data.prediction_files import ScoreFile
from oodometer.data.torch_data import is_torch_data, read_torch_data
from oodometer.parallel.pickling import ReopenSpec, with_reopen_spec

SUPPORTED_DATA = (
    "a folder of images; a .npz, .npy, .csv, .tsv, .jsonl, .parquet, .arrow or .feather "
    "file; an array of "
    "images or vectors; a list of texts or pairs of texts; a pandas, polars or pyarrow table; a pair "
    "(inputs, labels); a torch DataLoader or Dataset"
)

# Options for arrays of images only.
IMAGE_OPTIONS = ("pixel_range", "channels")

# Function with which a worker opens a dataset again.
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
    pixel_range: PixelRange | None = None,
    channels: Channels | None = None,
) -> Dataset:
    """Open data as a dataset.

    Texts and tables are held in memory, `.npy` files are memory-mapped, and the images of a folder
    are decoded when they are read.

    Parameters
    ----------
    data : path, array, list, table or Dataset
        A folder of images, optionally one subfolder per class; a `.npz`, `.npy`, `.csv`, `.tsv`,
        `.jsonl`, `.ndjson`, `.parquet`, `.arrow` or `.feather` file; an array of images or vectors; a list of texts or
        pairs of texts; a pandas, polars or pyarrow table; a tuple (inputs, labels); a DataLoader or
        Dataset of torch. A dataset is returned unchanged.
    name : str, optional
        Name that tables and reports show; by default the name of the file or folder.
    labels : array-like of shape (n,) or str, optional
        True class of each row, or the name of the column or array that holds the labels. By
        default, labels are read from the column `label`, from the array `y`, `labels` or `label`,
        or from the names of the subfolders of images.
    text : str or sequence of str, optional
        Column of texts, or the two columns of pairs of texts.
    inputs : str or sequence of str, optional
        Name of the array of inputs in an `.npz` file, or names of the columns of a table to use.
    size : int or (int, int), optional
        Size to which the images of a folder are scaled and cropped, in pixels.
    skip_bad : bool
        Leave out invalid rows and list them in the attribute `skipped` of the dataset, instead of
        raising an error.
    pixel_range : (float, float) or "prepared", optional
        Lowest and highest value of a pixel in images of floats, such as (0, 1); the images are
        converted to values from 0 to 255. With "prepared", the values are given to the model
        unchanged, and transforms treat them as vectors. Images of floats need this argument.
    channels : {"first", "last"}, optional
        Place of the channels in images of floats, if the shape does not show it.

    Returns
    -------
    Dataset
        The rows.

    Raises
    ------
    InputError
        If the data cannot be opened, has invalid rows, or an option does not apply to it.

    Examples
    --------
    >>> as_dataset([[1, 2], [3, 4]], labels=["a", "b"])
    InMemoryDataset('vectors', 2 rows of vectors, labelled)
    >>> as_dataset(["fine", " "], skip_bad=True).skipped
    ('row 1',)
    """
    options = DatasetOptions(name, labels, text, inputs, size, skip_bad, pixel_range, channels)
    if isinstance(data, InMemoryDataset | ImageFolder):
        return data
    if isinstance(data, str | os.PathLike):
        return _open_path(Path(data), options)
    if isinstance(data, Dataset):
        return data
    dataset = _read_object(data, options).to_dataset(name or "The data", skip_bad)
    return dataset if name else replace(dataset, name=dataset.kind)


def _read_object(data: Any, options: DatasetOptions) -> RawRows:
    if is_torch_data(data):
        data = read_torch_data(data)
    if isinstance(data, tuple) and _is_labelled_pair(data):
        if data[1] is not None and options.labels is not None:
            raise InputError("Labels are given twice: in the data and as labels=…. Leave one out.")
        options = options if data[1] is None else replace(options, labels=data[1])
        data = data[0]
    if _is_frame(data):
        options.reject_options("a table", "size", *IMAGE_OPTIONS)
        return read_frame(data, options)
    options.reject_options(f"a {type(data).__name__}", "text", "inputs", "size")
    if isinstance(data, list | tuple):
        return read_list(list(data), options.labels, options)
    if hasattr(data, "__array__"):
        return read_array(np.asarray(data), options.labels, options)
    raise InputError(f"A {type(data).__name__} is not a dataset. Supported data: {SUPPORTED_DATA}.")


def _is_labelled_pair(data: tuple[Any, ...]) -> bool:
    """Return whether a tuple is (inputs, labels), and not the rows of a dataset.

    The second part must have one dimension fewer than the first, or the first must be a table, or
    a list of texts.

    >>> _is_labelled_pair((np.ones((3, 2)), [0, 1, 1])), _is_labelled_pair(([1.0, 2.0], [3.0, 4.0]))
    (True, False)
    >>> _is_labelled_pair((["good", "bad", "fine"], ["+", "-", "+"]))
    True
    """
    if len(data) != 2 or any(isinstance(part, str) for part in data):
        return False
    inputs, labels = data
    if labels is None or _is_frame(inputs):
        return True
    shapes = [_shape(part) for part in data]
    if None in shapes or len(shapes[1] or ()) != 1:
        return False
    if len(shapes[0] or ()) > 1:
        return True
    return isinstance(inputs, list | np.ndarray) and _are_labelled_texts(inputs, labels)


def _shape(part: Any) -> tuple[int, ...] | None:
    """Return the shape of an array or of nested lists; None if there is none."""
    if hasattr(part, "shape"):
        return tuple(part.shape)
    try:
        return tuple(np.shape(part))
    except ValueError:  # lists of different lengths
        return None


def _are_labelled_texts(texts: Any, labels: Any) -> bool:
    """Return whether two lists are texts and their labels; raise if they could be two pairs."""
    if not len(texts) or not all(isinstance(text, str) for text in texts):
        return False
    if len(texts) == 2 and isinstance(labels, list) and all(isinstance(x, str) for x in labels):
        raise InputError(
            "A tuple of two lists of two texts could be two texts with labels, or two pairs of texts. "
            "Pass labels=…, or a list of pairs."
        )
    return True


def _is_frame(data: Any) -> bool:
    """Return whether data is a table, and not a single Arrow column."""
    is_arrow = hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__")
    return is_arrow and (hasattr(data, "columns") or hasattr(data, "column_names"))


def _open_path(path: Path, options: DatasetOptions) -> Dataset:
    # os.path is used because the methods of Path raise if a name is too long for the file system.
    if os.path.isdir(path):
        options.reject_options("a folder", "text", "inputs", *IMAGE_OPTIONS)
        return read_image_folder(path, options)
    if not os.path.exists(path):
        raise InputError(
            f"There is no file or folder {str(path)!r:.300}. Supported data: {SUPPORTED_DATA}."
        )
    extension = path.suffix.lower()
    reader = FILE_READERS.get(extension)
    if reader is None:
        is_image = extension in IMAGE_EXTENSIONS
        problem = "is a single image; pass its folder" if is_image else "has an unknown extension"
        raise InputError(f"{path.name} {problem}. Supported data: {SUPPORTED_DATA}.")
    has_arrays = extension in (".npy", ".npz")
    others = ["text"] if has_arrays else IMAGE_OPTIONS
    options.reject_options(f"a {path.suffix} file", "size", *others)
    try:
        rows = reader(path, options)
    except InputError as error:
        if str(error).startswith(path.name):
            raise
        raise InputError(f"{path.name}: {error}") from error
    dataset = rows.to_dataset(options.name or path.stem, options.skip_bad)
    return with_reopen_spec(dataset, ReopenSpec.create(DATASET_OPENER, path, vars(options)))


def _read_table_file(path: Path, options: DatasetOptions) -> RawRows:
    table = ScoreFile.open(path).content
    only_column = table.column_names[0] if table.num_columns == 1 else ""
    if path.suffix.lower() == ".csv" and any(mark in only_column for mark in ";\t|"):
        raise InputError(
            f"It has one column, called {only_column!r:.80}; expected commas between columns. Save "
            "it again with commas."
        )
    return read_frame(table, options)


FILE_READERS: dict[str, Callable[[Path, DatasetOptions], RawRows]] = {
    ".npy": read_npy,
    ".npz": read_npz,
    ".csv": _read_table_file,
    ".tsv": _read_table_file,
    ".jsonl": _read_table_file,
    ".ndjson": _read_table_file,
    ".parquet": _read_table_file,
    ".arrow": _read_table_file,
    ".feather": _read_table_file,
}
