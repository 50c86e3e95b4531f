"""Readers of domains in `.npz`, `.npy` and MATLAB files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np

from oodometer.core.array_types import Array, Bools
from oodometer.core.errors import InputError, did_you_mean, format_error
from oodometer.core.inputs import InputKind
from oodometer.core.protocols import Dataset
from oodometer.data.input_rows import read_array, read_npy
from oodometer.data.options import DatasetOptions
from oodometer.data.prediction_files import ScoreFile
from oodometer.studies._toml import TABLE_ITEMS
from oodometer.studies.domains._reader import (
    ImageSize,
    check_row_counts,
    matching_rows,
    require_file,
)

RowFilters = Annotated[tuple[tuple[str, Any], ...], TABLE_ITEMS]


@dataclass(frozen=True)
class NpzReader:
    """Reader of inputs and labels in an `.npz` archive.

    inputs   name of the array of inputs
    labels   name of the array of labels
    where    conditions on further arrays; only rows that meet all of them are read

    For example, where = { domain = "photo" } reads the rows whose value in the array `domain` is
    "photo". If this array holds integers and the archive has an array `domains` of names, each
    integer is first replaced by the name at that index.
    """

    kind: ClassVar[InputKind] = "images"

    path: str
    inputs: str = "x"
    labels: str = "y"
    where: RowFilters = ()

    @property
    def files(self) -> tuple[str, ...]:
        return (self.path,)

    def read(self, root: Path, size: ImageSize) -> Dataset:
        """Read the selected rows into memory."""
        arrays = ScoreFile.open(require_file(root, self.path)).content
        inputs, labels = (
            _get_array(arrays, name, self.path) for name in (self.inputs, self.labels)
        )
        check_row_counts(inputs, labels, self.path)
        rows = filter_rows(arrays, self.where, labels, self.path)
        inputs, labels = (inputs, labels) if rows.all() else (inputs[rows], labels[rows])
        return read_array(inputs, labels).to_dataset(self.path, skip_bad=False)


def filter_rows(arrays: dict[str, Array], where: RowFilters, labels: Array, path: str) -> Bools:
    """Return a mask of the rows of an `.npz` archive that meet all conditions.

    >>> arrays = {"domain": np.array([0, 1, 1]), "domains": np.array(["photo", "sketch"])}
    >>> filter_rows(arrays, (("domain", "sketch"),), np.zeros(3), "a.npz")
    array([False,  True,  True])
    """
    rows = np.ones(len(labels), dtype=np.bool_)
    for name, accepted in where:
        values = _decode_names(arrays, name, path)
        check_row_counts(labels, values, f"{path}, {name}")
        rows &= matching_rows(values, accepted, name)
    return rows


def _get_array(arrays: dict[str, Array], name: str, path: str) -> Array:
    if name not in arrays:
        hint = did_you_mean(name, arrays)
        raise InputError(f"{path}: there is no array {name!r}.{hint} Arrays: {', '.join(arrays)}.")
    return arrays[name]


def _decode_names(arrays: dict[str, Array], name: str, path: str) -> Array:
    """Return the values of an array; replace integers by names if the archive has these names."""
    values, names = _get_array(arrays, name, path), arrays.get(f"{name}s")
    if names is None or values.dtype.kind not in "iu":
        return values
    if values.size and not 0 <= values.min() <= values.max() < len(names):
        raise InputError(
            f"{path}: {name} has values from {values.min()} to {values.max()}, and {name}s has "
            f"{len(names)} names. The values must be from 0 to {len(names) - 1}."
        )
    return names[values]


@dataclass(frozen=True)
class NpyReader:
    """Reader of two `.npy` files, one with inputs and one with labels.

    The inputs are memory-mapped. `rows` = [first, end] restricts the dataset to a range of rows,
    which excludes the row `end`.
    """

    kind: ClassVar[InputKind] = "images"

    path: str
    labels: str
    rows: tuple[int, int] | None = None

    @property
    def files(self) -> tuple[str, ...]:
        return self.path, self.labels

    def read(self, root: Path, size: ImageSize) -> Dataset:
        """Return the rows; inputs are read from disk when they are accessed."""
        labels = _load_npy(require_file(root, self.labels))
        read = read_npy(require_file(root, self.path), DatasetOptions())
        check_row_counts(read.inputs, labels, self.path)
        some = slice(None) if self.rows is None else slice(*self.rows)
        return read_array(read.inputs[some], labels[some]).to_dataset(self.path, skip_bad=False)


def _load_npy(path: Path) -> Array:
    try:
        return np.asarray(np.load(path, allow_pickle=False))
    except (ValueError, OSError, EOFError) as error:
        raise InputError(
            f"Cannot read {path.name} as npy: {format_error(error, first_line=True)}. Save a "
            "plain array."
        ) from error


@dataclass(frozen=True)
class MatReader:
    """Reader of images and labels in a MATLAB file (version 7 or earlier), the format of SVHN.

    The array of images has the shape (height, width, 3, n).
    """

    kind: ClassVar[InputKind] = "images"

    path: str
    inputs: str = "X"
    labels: str = "y"

    @property
    def files(self) -> tuple[str, ...]:
        return (self.path,)

    def read(self, root: Path, size: ImageSize) -> Dataset:
        """Read all images and labels into memory."""
        from scipy.io import loadmat

        try:
            arrays = loadmat(
                require_file(root, self.path), variable_names=[self.inputs, self.labels]
            )
        except Exception as error:  # scipy raises many exception types for broken files
            raise InputError(
                f"Cannot read {self.path} as a MATLAB file: {error}. Expected version 7 or "
                "earlier; download it again."
            ) from error
        inputs, labels = (
            _get_array(arrays, name, self.path) for name in (self.inputs, self.labels)
        )
        images, flat = np.moveaxis(inputs, -1, 0), labels.ravel().astype(np.int64)
        check_row_counts(images, flat, self.path)
        return read_array(np.ascontiguousarray(images), flat).to_dataset(self.path, skip_bad=False)
