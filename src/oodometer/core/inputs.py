"""Kinds of inputs (images, texts, pairs of texts, vectors, table rows) and hashes of their rows.

A batch has no class of its own. Its kind is determined by its Python type:

images   uint8 array (n, height, width), or (n, height, width, channels) with 1 or 3 channels
text     list of strings
pairs    list of pairs of strings (premise and hypothesis, question and passage)
vectors  array of floats (n, d), or (n, …) of any shape
table    pyarrow.Table of n rows whose columns hold numbers or categories
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, TypeGuard, get_args

import numpy as np
import numpy.typing as npt

from oodometer.core.array_types import Array, Ints
from oodometer.core.errors import InputError

InputKind = Literal["images", "text", "pairs", "vectors", "table"]
INPUT_KINDS: tuple[InputKind, ...] = get_args(InputKind)
Inputs = Any
RowHashes = npt.NDArray[np.uint64]

# Increment and multipliers of SplitMix64 (Steele et al., 2014).
SPLITMIX_INCREMENT = np.uint64(0x9E3779B97F4A7C15)
_SPLITMIX_MULTIPLIER_1 = np.uint64(0xBF58476D1CE4E5B9)
_SPLITMIX_MULTIPLIER_2 = np.uint64(0x94D049BB133111EB)


def infer_kind(inputs: Inputs) -> InputKind:
    """Return the kind of a batch.

    >>> infer_kind(np.zeros((2, 8, 8), dtype=np.uint8)), infer_kind(["a text"])
    ('images', 'text')
    """
    if isinstance(inputs, np.ndarray):
        return _kind_of_array(inputs)
    if is_table(inputs):
        return "table"
    if isinstance(inputs, list):
        return _kind_of_list(inputs)
    raise InputError(
        f"A {type(inputs).__name__} is not a batch of inputs. Pass an array, a list of strings, a "
        "list of pairs of strings, or a table; as_dataset opens files and folders."
    )


def _kind_of_array(inputs: Array) -> InputKind:
    if inputs.dtype == np.uint8 and inputs.ndim in (3, 4):
        if inputs.ndim == 4 and inputs.shape[3] not in (1, 3):
            raise InputError(
                f"Images must be (n, height, width) or (n, height, width, 3); got {inputs.shape}. "
                "If channels come first, move them: np.moveaxis(images, 1, -1)."
            )
        return "images"
    if inputs.dtype.kind == "f" and inputs.ndim >= 2:
        return "vectors"
    raise InputError(
        f"An array of {inputs.dtype} of shape {inputs.shape} is not a batch of inputs. Images are "
        "uint8 (n, height, width) or (n, height, width, 3), vectors are floats (n, d)."
    )


def _kind_of_list(inputs: list[Any]) -> InputKind:
    if all(isinstance(row, str) for row in inputs):
        return "text"
    if all(_is_pair(row) for row in inputs):
        return "pairs"
    expect_pairs = _is_pair(inputs[0])
    odd = next(
        number
        for number, row in enumerate(inputs)
        if not (_is_pair(row) if expect_pairs else isinstance(row, str))
    )
    raise InputError(
        f"A list of inputs must hold strings only, or pairs of strings only; row {odd} is "
        f"{type(inputs[odd]).__name__}. Pass numbers as an array."
    )


def _is_pair(row: Any) -> TypeGuard[tuple[str, str]]:
    return isinstance(row, tuple) and len(row) == 2 and all(isinstance(side, str) for side in row)


def is_table(inputs: Inputs) -> bool:
    """Return whether a batch is a pyarrow table, without importing pyarrow."""
    arrow = sys.modules.get("pyarrow")
    return arrow is not None and isinstance(inputs, arrow.Table)


def take(inputs: Inputs, index: Ints | slice) -> Inputs:
    """Return the selected rows of a batch, in the order of the index.

    >>> take(["a", "b", "c"], np.array([2, 0]))
    ['c', 'a']
    """
    if isinstance(inputs, list):
        return inputs[index] if isinstance(index, slice) else [inputs[int(i)] for i in index]
    if is_table(inputs):
        return inputs.take(np.arange(len(inputs))[index])
    return inputs[index]


def concat_batches(parts: Sequence[Inputs]) -> Inputs:
    """Concatenate several batches of one kind."""
    if isinstance(parts[0], list):
        return [row for part in parts for row in part]
    if is_table(parts[0]):
        import pyarrow as pa

        return pa.concat_tables(parts)
    return np.concatenate(parts)


def batches_equal(first: Inputs, other: Inputs) -> bool:
    """Return whether two batches hold the same rows."""
    if isinstance(first, np.ndarray):
        return isinstance(other, np.ndarray) and np.array_equal(first, other, equal_nan=True)
    return bool(first == other) if isinstance(first, list) else bool(first.equals(other))


def iter_row_bytes(inputs: Inputs) -> Iterator[bytes]:
    """Yield the content of each row as bytes, which are equal for equal rows of a batch."""
    if isinstance(inputs, np.ndarray):
        yield from (row.tobytes() for row in inputs)
    elif isinstance(inputs, list):
        for row in inputs:
            texts = (row,) if isinstance(row, str) else row
            yield b"\xff".join(text.encode("utf-8", "surrogatepass") for text in texts)
    else:
        columns = [column.to_pylist() for column in inputs.columns]
        yield from (repr(row).encode() for row in zip(*columns, strict=True))


def hash_rows(inputs: Inputs) -> RowHashes:
    """Return a hash of each row's content, which seeds the row's random stream.

    >>> bool(hash_rows(["a", "b", "a"])[0] == hash_rows(["c", "a"])[1])
    True
    """
    return _hash_table_rows(inputs) if is_table(inputs) else _hash_bytes(iter_row_bytes(inputs))


def _hash_bytes(rows: Iterable[bytes]) -> RowHashes:
    digests = (hashlib.blake2b(row, digest_size=8).digest() for row in rows)
    return np.frombuffer(b"".join(digests), dtype=np.uint64)


def _hash_table_rows(table: Any) -> RowHashes:
    """Return the hash of each row; each distinct value of a column is hashed only once."""
    row_hashes: RowHashes = np.zeros(len(table), dtype=np.uint64)
    for column in table.combine_chunks().columns:
        coded = _decode_column(column).dictionary_encode(null_encoding="encode")
        hashes = _hash_bytes(repr(value).encode() for value in coded.dictionary.to_pylist())
        row_hashes = splitmix64(row_hashes ^ hashes[coded.indices.to_numpy()])
    return row_hashes


def _decode_column(column: Any) -> Any:
    """Return a column as one Arrow array without chunks and without dictionary encoding."""
    import pyarrow as pa

    array = column.chunk(0) if column.num_chunks else pa.array([], type=column.type)
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array


def splitmix64(values: RowHashes) -> RowHashes:
    """Return the SplitMix64 hash of each value, a bijection of 64 bits that mixes all bits."""
    with np.errstate(over="ignore"):
        values = values + SPLITMIX_INCREMENT
        values = (values ^ (values >> np.uint64(30))) * _SPLITMIX_MULTIPLIER_1
        values = (values ^ (values >> np.uint64(27))) * _SPLITMIX_MULTIPLIER_2
    return values ^ (values >> np.uint64(31))
