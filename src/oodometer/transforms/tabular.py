"""Changes of vectors and of table rows: noise, and values borrowed from other rows."""

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

# So many rows are kept to borrow values from.
MAX_DONOR_ROWS = 10_000


@dataclass(frozen=True)
class Gaussian(Transform):
    """Adds to every number normal noise of `magnitude` standard deviations of its column.

    The deviations are learned. Whole numbers stay whole and within their type; text, categories
    and true and false stay as they are.

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
    assumes: ClassVar[str] = "no class hangs on a small part of a column's spread"

    def __post_init__(self) -> None:
        if not (math.isfinite(self.magnitude) and self.magnitude >= 0):
            raise InputError(
                f"magnitude must be a share of the standard deviation, 0 or more; got "
                f"{self.magnitude}. Give one such as 0.1."
            )

    def learn(self, inputs: Inputs) -> Gaussian:
        """The same, knowing the standard deviation of every column of numbers."""
        _check_learnable(self, inputs)
        if is_table(inputs):
            names = _numeric_columns(inputs)
            return replace(
                self, spread={n: _standard_deviation(frames.read_numbers(inputs, n)) for n in names}
            )
        return replace(self, spread=_standard_deviation(inputs))

    def apply(self, inputs: Inputs, draws: RowStreams) -> Inputs:
        """Every row with noise of its own."""
        _check_kind(self, inputs)
        if self.magnitude == 0:
            return inputs
        _check_learned(self, self.spread)
        return (
            self._apply_to_table(inputs, draws)
            if is_table(inputs)
            else self._apply_to_vectors(inputs, draws)
        )

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
        for at, name in enumerate(names):
            values = frames.read_numbers(inputs, name)
            moved = _add_noise(values, self.magnitude * self.spread[name] * noise[:, at])
            inputs = _replace_column(inputs, name, moved)
        return inputs


@dataclass(frozen=True)
class MarginalSwap(Transform):
    """Replaces values by those that other rows have in the same column.

    One column or more, up to the share `magnitude` of them, drawn for each row; each value comes
    from a row of its own, drawn among at most 10,000 that were learned.

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
    assumes: ClassVar[str] = "no class hangs on a few of the columns"

    def __post_init__(self) -> None:
        if not 0 <= self.magnitude <= 1:
            raise InputError(
                f"magnitude must be a share of the columns, 0 to 1; got {self.magnitude}. Give one "
                "such as 0.15."
            )

    def learn(self, inputs: Inputs) -> MarginalSwap:
        """The same, with rows to borrow from, chosen by their content: order does not matter."""
        _check_learnable(self, inputs)
        chosen = np.argsort(splitmix64(hash_rows(inputs)), kind="stable")[:MAX_DONOR_ROWS]
        return replace(self, donors=take(inputs, chosen))

    def apply(self, inputs: Inputs, draws: RowStreams) -> Inputs:
        """Every row with some values of other rows."""
        _check_kind(self, inputs)
        if self.magnitude == 0:
            return inputs
        _check_learned(self, self.donors)
        if is_table(inputs):
            return self._apply_to_table(inputs, draws)
        if is_table(self.donors) or self.donors.shape[1:] != inputs.shape[1:]:
            raise _column_mismatch_error(self, inputs)
        d = math.prod(inputs.shape[1:])
        flat, donors = inputs.reshape(len(inputs), d), self.donors.reshape(len(self.donors), d)
        marks, lenders = draw_swaps(draws, d, len(donors), self.magnitude)
        borrowed = donors[lenders, np.arange(d)]
        return np.where(marks, borrowed, flat).astype(inputs.dtype).reshape(inputs.shape)

    def _apply_to_table(self, inputs: Any, draws: RowStreams) -> Any:
        if not is_table(self.donors) or not set(inputs.column_names) <= set(
            self.donors.column_names
        ):
            raise _column_mismatch_error(self, inputs)
        n, rows = len(inputs), np.arange(len(inputs))
        marks, lenders = draw_swaps(draws, inputs.num_columns, len(self.donors), self.magnitude)
        for at, name in enumerate(inputs.column_names):
            places = np.where(marks[:, at], n + lenders[:, at], rows)
            both = _concat_with_donors(inputs.column(name), self.donors.column(name), name)
            inputs = inputs.set_column(at, inputs.schema.field(at), both.take(places))
        return inputs


def draw_swaps(
    draws: RowStreams, n_columns: int, n_donors: int, magnitude: float
) -> tuple[Bools, Ints]:
    """Which of d columns each row borrows (n, d), and from which donor each would (n, d)."""
    uniforms = draws.uniforms(1 + 2 * n_columns)
    most = max(1, math.floor(magnitude * n_columns + 1e-9))
    counts = (uniforms[:, 0] * most).astype(np.int64)
    order = uniforms[:, 1 : n_columns + 1]
    bounds = np.take_along_axis(np.sort(order, axis=1), counts[:, None], axis=1)
    return order <= bounds, (uniforms[:, n_columns + 1 :] * n_donors).astype(np.int64)


def _concat_with_donors(column: Any, donors: Any, name: str) -> Any:
    """A column and its donors in one, the donors in the column's type."""
    import pyarrow as pa

    try:
        chunks = pa.chunked_array([*column.chunks, *donors.cast(column.type).chunks], column.type)
        return chunks.unify_dictionaries().combine_chunks()
    except pa.ArrowException as error:
        raise InputError(
            f"The column {name!r} holds {column.type} and can't take the {donors.type} that was "
            f"learned: {format_error(error, first_line=True)}. Give tables with columns of one type."
        ) from error


def _standard_deviation(values: Array) -> Floats:
    """The standard deviation over rows; sorted first, so that their order changes no digit."""
    return np.asarray(np.sort(values.astype(np.float64), axis=0).std(axis=0))


def _add_noise(values: Array, noise: Floats) -> Array:
    """Numbers with noise, in their own type; whole ones rounded and held within its range."""
    if values.dtype.kind == "f":
        return (values + noise).astype(values.dtype)
    steps, bounds = np.rint(noise), np.iinfo(values.dtype)
    # The bounds of 64 bits have no float of their own; the next one inwards is safe to turn back.
    high = np.nextafter(float(bounds.max), 0) if bounds.bits == 64 else float(bounds.max)
    moved = np.clip(values.astype(np.float64) + steps, float(bounds.min), high)
    return np.where(steps == 0, values, moved.astype(values.dtype))


def _numeric_columns(table: Any) -> list[str]:
    return [column.name for column in table.schema if frames.type_category(column.type) == "number"]


def _replace_column(table: Any, name: str, values: Array) -> Any:
    import pyarrow as pa

    at = table.schema.get_field_index(name)
    column = table.schema.field(at)
    return table.set_column(at, column, pa.array(values, type=column.type))


def _check_kind(transform: Transform, inputs: Inputs) -> None:
    kind = infer_kind(inputs)
    if kind not in transform.kinds:
        raise InputError(
            f"{transform.name} changes vectors and tables; got {kind}. Give an array of floats "
            "(n, d) or a table."
        )


def _check_learnable(transform: Transform, inputs: Inputs) -> None:
    _check_kind(transform, inputs)
    if not len(inputs):
        raise InputError(
            f"{transform.name} learned from 0 rows; 1 or more were expected. Give source data."
        )


def _check_learned(transform: Transform, learned: Any) -> None:
    if learned is None:
        raise InputError(
            f"{transform.name} has not seen any data yet; it needs the source's columns. Call "
            "learn(inputs) first and use what it returns."
        )


def _column_mismatch_error(transform: Transform, inputs: Inputs) -> InputError:
    what = ", ".join(inputs.column_names[:8]) if is_table(inputs) else str(inputs.shape[1:])
    return InputError(
        f"{transform.name} learned from rows of other columns than these: {what}. Learn from data "
        "of the same columns."
    )
