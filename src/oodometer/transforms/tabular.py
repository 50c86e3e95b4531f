"""Transforms of vectors and table rows: Gaussian noise, and replacement by values of other rows."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from oodometer.core import frames
from oodometer.core.array_types import Array, Bools, Floats, Ints
from oodometer.core.errors import InputError, format_error
from oodometer.core.inputs import (
    InputKind,
    Inputs,
    hash_rows,
    infer_kind,
    is_table,
    splitmix64,
    take,
)
from oodometer.core.protocols import Transform
from oodometer.core.random_streams import RowStreams, standard_normals
from oodometer.transforms.magnitude import check_magnitude

# Maximum number of rows that MarginalSwap keeps to take values from.
MAX_DONOR_ROWS = 10_000


@dataclass(frozen=True)
class Gaussian(Transform):
    """Add normal noise to every number.

    The standard deviation of the noise is `magnitude` times the standard deviation of the column,
    which `learn` computes. Integers are rounded and keep their type. Texts, categories and booleans
    are not changed.

    Parameters
    ----------
    magnitude : float
        Standard deviation of the noise as a multiple of the column's standard deviation, at least
        0.
    spread : array or dict, optional
        Standard deviation of each column. `learn` sets it.

    Examples
    --------
    >>> x = np.array([[0.0, 5.0], [2.0, 5.0]])
    >>> noisy = Gaussian(0.1).learn(x).apply(x, RowStreams(0, hash_rows(x), np.array([1, 1])))
    >>> bool((noisy[:, 0] != x[:, 0]).all()), noisy[:, 1].tolist()
    (True, [5.0, 5.0])
    """

    magnitude: float = 0.1
    spread: Any = field(default=None, compare=False, repr=False)

    name: ClassVar[str] = "gaussian"
    label: ClassVar[str] = "Gaussian"
    kinds: ClassVar[tuple[InputKind, ...]] = ("vectors", "table")
    assumes: ClassVar[str] = (
        "the class does not depend on changes that are small relative to a column's standard deviation"
    )

    def __post_init__(self) -> None:
        check_magnitude(self)

    def learn(self, inputs: Inputs) -> Gaussian:
        """Return this transform with the standard deviations of the numeric columns."""
        _check_learnable(self, inputs)
        if not is_table(inputs):
            return replace(self, spread=_standard_deviation(inputs))
        spread = {
            name: _standard_deviation(frames.read_numbers(inputs, name))
            for name in _numeric_columns(inputs)
        }
        return replace(self, spread=spread)

    def apply(self, inputs: Inputs, draws: RowStreams) -> Inputs:
        _check_kind(self, inputs)
        if self.magnitude == 0:
            return inputs
        _check_learned(self, self.spread)
        if is_table(inputs):
            return self._apply_to_table(inputs, draws)
        return self._apply_to_vectors(inputs, draws)

    def _apply_to_vectors(self, inputs: Array, draws: RowStreams) -> Array:
        if not isinstance(self.spread, np.ndarray) or self.spread.shape != inputs.shape[1:]:
            raise _column_mismatch_error(self, inputs)
        noise = standard_normals(draws, math.prod(inputs.shape[1:])).reshape(inputs.shape)
        return (inputs + self.magnitude * self.spread * noise).astype(inputs.dtype)

    def _apply_to_table(self, inputs: Any, draws: RowStreams) -> Any:
        names = _numeric_columns(inputs)
        if not isinstance(self.spread, dict) or not set(names) <= set(self.spread):
            raise _column_mismatch_error(self, inputs)
        noise = standard_normals(draws, len(names))
        for position, name in enumerate(names):
            values = frames.read_numbers(inputs, name)
            noisy = _add_noise(values, self.magnitude * self.spread[name] * noise[:, position])
            inputs = _replace_column(inputs, name, noisy)
        return inputs


@dataclass(frozen=True)
class MarginalSwap(Transform):
    """Replace some values of each row by values of other rows in the same column.

    For each row, the number of columns to change is drawn uniformly from 1 … max(1, ⌊magnitude ·
    d⌋), where d is the number of columns. Then the columns are drawn. For each of them, a donor row
    is drawn independently from at most 10,000 learned rows, and its value is used.

    Parameters
    ----------
    magnitude : float
        Largest fraction of columns to replace, from 0 to 1.
    donors : array or table, optional
        Donor rows, from which values are taken. `learn` sets them.

    Examples
    --------
    >>> x = np.array([[0.0, 5.0], [2.0, 6.0]])
    >>> swapped = MarginalSwap().learn(x).apply(x, RowStreams(0, hash_rows(x), np.array([1, 1])))
    >>> set(swapped[:, 0]) <= {0.0, 2.0}, set(swapped[:, 1]) <= {5.0, 6.0}
    (True, True)
    """

    magnitude: float = 0.15
    donors: Any = field(default=None, compare=False, repr=False)

    name: ClassVar[str] = "marginal_swap"
    label: ClassVar[str] = "MarginalSwap"
    kinds: ClassVar[tuple[InputKind, ...]] = ("vectors", "table")
    assumes: ClassVar[str] = "the class does not change if the values of a few columns change"

    def __post_init__(self) -> None:
        check_magnitude(self, 1)

    def learn(self, inputs: Inputs) -> MarginalSwap:
        """Return this transform with donor rows; their choice does not depend on the row order."""
        _check_learnable(self, inputs)
        chosen = np.argsort(splitmix64(hash_rows(inputs)), kind="stable")[:MAX_DONOR_ROWS]
        return replace(self, donors=take(inputs, chosen))

    def apply(self, inputs: Inputs, draws: RowStreams) -> Inputs:
        _check_kind(self, inputs)
        if self.magnitude == 0:
            return inputs
        _check_learned(self, self.donors)
        if is_table(inputs):
            return self._apply_to_table(inputs, draws)
        if is_table(self.donors) or self.donors.shape[1:] != inputs.shape[1:]:
            raise _column_mismatch_error(self, inputs)
        d = math.prod(inputs.shape[1:])
        rows = inputs.reshape(len(inputs), d)
        donors = self.donors.reshape(len(self.donors), d)
        is_swapped, donor_rows = draw_swaps(draws, d, len(donors), self.magnitude)
        values = donors[donor_rows, np.arange(d)]
        return np.where(is_swapped, values, rows).astype(inputs.dtype).reshape(inputs.shape)

    def _apply_to_table(self, inputs: Any, draws: RowStreams) -> Any:
        if not is_table(self.donors) or not set(inputs.column_names) <= set(
            self.donors.column_names
        ):
            raise _column_mismatch_error(self, inputs)
        n = len(inputs)
        is_swapped, donor_rows = draw_swaps(
            draws, inputs.num_columns, len(self.donors), self.magnitude
        )
        for j, name in enumerate(inputs.column_names):
            rows = np.where(is_swapped[:, j], n + donor_rows[:, j], np.arange(n))
            both = _concat_with_donors(inputs.column(name), self.donors.column(name), name)
            inputs = inputs.set_column(j, inputs.schema.field(j), both.take(rows))
        return inputs


def draw_swaps(
    draws: RowStreams, n_columns: int, n_donors: int, magnitude: float
) -> tuple[Bools, Ints]:
    """Return which values to replace, (n, d), and the donor row of each value, (n, d)."""
    uniforms = draws.uniforms(1 + 2 * n_columns)
    max_count = max(1, math.floor(magnitude * n_columns + 1e-9))
    counts = (uniforms[:, 0] * max_count).astype(np.int64)
    order = uniforms[:, 1 : n_columns + 1]
    bounds = np.take_along_axis(np.sort(order, axis=1), counts[:, None], axis=1)
    return order <= bounds, (uniforms[:, n_columns + 1 :] * n_donors).astype(np.int64)


def _concat_with_donors(column: Any, donors: Any, name: str) -> Any:
    """Concatenate a column and the donors' values, which are cast to the column's type."""
    import pyarrow as pa

    try:
        chunks = pa.chunked_array([*column.chunks, *donors.cast(column.type).chunks], column.type)
        return chunks.unify_dictionaries().combine_chunks()
    except pa.ArrowException as error:
        raise InputError(
            f"The column {name!r} has type {column.type}, to which the learned {donors.type} cannot "
            f"be converted: {format_error(error, first_line=True)}. Pass tables with the same types."
        ) from error


def _standard_deviation(values: Array) -> Floats:
    """Return the standard deviation of each column; sorting makes it independent of row order."""
    return np.asarray(np.sort(values.astype(np.float64), axis=0).std(axis=0))


def _add_noise(values: Array, noise: Floats) -> Array:
    """Add noise to numbers of any type; integers are rounded and clipped to their type's range."""
    if values.dtype.kind == "f":
        return (values + noise).astype(values.dtype)
    steps = np.rint(noise)
    bounds = np.iinfo(values.dtype)
    # The largest 64-bit integer cannot be represented as float64. The next lower float can be
    # converted back without overflow.
    high = np.nextafter(float(bounds.max), 0) if bounds.bits == 64 else float(bounds.max)
    moved = np.clip(values.astype(np.float64) + steps, float(bounds.min), high)
    return np.where(steps == 0, values, moved.astype(values.dtype))


def _numeric_columns(table: Any) -> list[str]:
    return [column.name for column in table.schema if frames.type_category(column.type) == "number"]


def _replace_column(table: Any, name: str, values: Array) -> Any:
    import pyarrow as pa

    position = table.schema.get_field_index(name)
    column = table.schema.field(position)
    return table.set_column(position, column, pa.array(values, type=column.type))


def _check_kind(transform: Transform, inputs: Inputs) -> None:
    kind = infer_kind(inputs)
    if kind not in transform.kinds:
        raise InputError(
            f"{transform.name} applies to vectors and tables; got {kind}. Pass a float array of "
            "shape (n, d) or a table."
        )


def _check_learnable(transform: Transform, inputs: Inputs) -> None:
    _check_kind(transform, inputs)
    if not len(inputs):
        raise InputError(
            f"{transform.name} cannot learn from 0 rows. Pass at least one row of source data."
        )


def _check_learned(transform: Transform, learned: Any) -> None:
    if learned is None:
        raise InputError(
            f"{transform.name} needs statistics of the source's columns. Call learn(inputs) first and "
            "use the transform that it returns."
        )


def _column_mismatch_error(transform: Transform, inputs: Inputs) -> InputError:
    columns = ", ".join(inputs.column_names[:8]) if is_table(inputs) else str(inputs.shape[1:])
    return InputError(
        f"{transform.name} learned from data with other columns than these: {columns}. Learn from "
        "data with the same columns."
    )
