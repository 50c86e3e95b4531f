"""Domains in arrays: an `.npz`, two `.npy` files, or the `.mat` file of SVHN."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np

from oodometer.core.array_types import Array
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
    """Arrays of an `.npz`: the inputs, the labels, and those that `where` chooses rows by.

    Where an array `domain` holds numbers and there is an array `domains` of names, rows are
    chosen by these: where = { domain = "photo" }.
    """

    kind: ClassVar[InputKind] = "images"

    path: str
    inputs: str = "x"
    labels: str = "y"
    where: RowFilters = ()

    @property
    def files(self) -> tuple[str, ...]:
        """The archive."""
        return (self.path,)

    def read(self, root: Path, size: ImageSize) -> Dataset:
        """The chosen rows, in memory."""
        arrays = ScoreFile.open(require_file(root, self.path)).content
        inputs, labels = (
            _get_array(arrays, name, self.path) for name in (self.inputs, self.labels)
        )
        check_row_counts(inputs, labels, self.path)
        rows = np.ones(len(labels), dtype=np.bool_)
        for name, wanted in self.where:
            values = _decode_names(arrays, name, self.path)
            check_row_counts(inputs, values, f"{self.path}, {name}")
            rows &= matching_rows(values, wanted, name)
        inputs, labels = (inputs, labels) if rows.all() else (inputs[rows], labels[rows])
        return read_array(inputs, labels).to_dataset(self.path, skip_bad=False)


def _get_array(arrays: dict[str, Array], name: str, path: str) -> Array:
    if name not in arrays:
        hint = did_you_mean(name, arrays)
        raise InputError(
            f"{path}: no array is called {name!r}.{hint} There are: {', '.join(arrays)}. Name one."
        )
    return arrays[name]


def _decode_names(arrays: dict[str, Array], name: str, path: str) -> Array:
    """The values of an array, as names where a second array spells them out."""
    values, names = _get_array(arrays, name, path), arrays.get(f"{name}s")
    if names is None or values.dtype.kind not in "iu":
        return values
    if values.size and not 0 <= values.min() <= values.max() < len(names):
        raise InputError(
            f"{path}: {name} has numbers from {values.min()} to {values.max()}, and {name}s has "
            f"{len(names)} names. They must go from 0 to {len(names) - 1}."
        )
    return names[values]


@dataclass(frozen=True)
class NpyReader:
    """Inputs in one `.npy` file, mapped, and labels in another; `rows` is a first and a last."""

    kind: ClassVar[InputKind] = "images"

    path: str
    labels: str
    rows: tuple[int, int] | None = None

    @property
    def files(self) -> tuple[str, ...]:
        """The inputs and the labels."""
        return self.path, self.labels

    def read(self, root: Path, size: ImageSize) -> Dataset:
        """The rows; those of the inputs are read from the disk when they are asked for."""
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
            f"{path.name} can't be read as npy: {format_error(error, first_line=True)}. Save a "
            "plain array."
        ) from error


@dataclass(frozen=True)
class MatReader:
    """Images (height, width, 3, n) and labels of a MATLAB file up to version 7, as SVHN has them."""

    kind: ClassVar[InputKind] = "images"

    path: str
    inputs: str = "X"
    labels: str = "y"

    @property
    def files(self) -> tuple[str, ...]:
        """The file."""
        return (self.path,)

    def read(self, root: Path, size: ImageSize) -> Dataset:
        """The images, in memory."""
        from scipy.io import loadmat

        try:
            arrays = loadmat(
                require_file(root, self.path), variable_names=[self.inputs, self.labels]
            )
        except Exception as error:  # of many kinds, where a file is broken
            raise InputError(
                f"{self.path} can't be read as a MATLAB file: {error}. Version 7 or earlier was "
                "expected; fetch it again."
            ) from error
        inputs, labels = (
            _get_array(arrays, name, self.path) for name in (self.inputs, self.labels)
        )
        images, flat = np.moveaxis(inputs, -1, 0), labels.ravel().astype(np.int64)
        check_row_counts(images, flat, self.path)
        return read_array(np.ascontiguousarray(images), flat).to_dataset(self.path, skip_bad=False)
