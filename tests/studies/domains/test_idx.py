"""IDX files: all value types, compression, and broken files."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import numpy as np
import pytest

from oodometer.core.array_types import Array
from oodometer.core.errors import InputError
from oodometer.studies.domains.idx import IDX_DTYPES, IdxReader, read_idx


def idx(array: Array) -> bytes:
    """Return the bytes of an IDX file by its definition, value by value."""
    code = next(code for code, name in IDX_DTYPES.items() if np.dtype(name) == array.dtype.newbyteorder(">"))  # fmt: skip
    letter = {0x08: "B", 0x09: "b", 0x0B: "h", 0x0C: "i", 0x0D: "f", 0x0E: "d"}[code]
    sizes = b"".join(struct.pack(">I", n) for n in array.shape)
    values = b"".join(struct.pack(f">{letter}", value) for value in array.ravel().tolist())
    return bytes([0, 0, code, array.ndim]) + sizes + values


def pictures(n: int = 3) -> Array:
    return np.random.default_rng(0).integers(0, 256, (n, 4, 5), dtype=np.uint8)


@pytest.mark.parametrize("kind", ["u1", "i1", "i2", "i4", "f4", "f8"])
def test_values_of_every_type_are_read(tmp_path: Path, kind: str) -> None:
    array = np.array([[1, 2, -3 if kind != "u1" else 3]], dtype=kind)
    (tmp_path / "a").write_bytes(idx(array))
    found = read_idx(tmp_path / "a")
    assert (found.dtype, found.tolist()) == (array.dtype, array.tolist())


@pytest.mark.parametrize("ending", ["", ".gz"])
def test_images_and_labels(tmp_path: Path, ending: str) -> None:
    pack = gzip.compress if ending else bytes
    (tmp_path / f"images{ending}").write_bytes(pack(idx(pictures())))
    (tmp_path / f"labels{ending}").write_bytes(pack(idx(np.array([7, 0, 9], dtype=np.uint8))))
    data = IdxReader("images", "labels").read(tmp_path, None)
    assert data.kind == "images"
    assert np.array_equal(data.take(slice(None)), pictures())
    assert data.labels is not None
    assert data.labels.tolist() == [7, 0, 9]


def test_first_column_of_labels_is_read(tmp_path: Path) -> None:
    (tmp_path / "images").write_bytes(idx(pictures(2)))
    (tmp_path / "labels").write_bytes(idx(np.array([[5, 1000], [2, 70000]], dtype=np.int32)))
    labels = IdxReader("images", "labels").read(tmp_path, None).labels
    assert labels is not None
    assert labels.tolist() == [5, 2]


def test_different_numbers_of_images_and_labels_are_rejected(tmp_path: Path) -> None:
    (tmp_path / "images").write_bytes(idx(pictures(3)))
    (tmp_path / "labels").write_bytes(idx(np.array([7, 0], dtype=np.uint8)))
    with pytest.raises(InputError, match="images: there are 3 inputs and 2 labels"):
        IdxReader("images", "labels").read(tmp_path, None)


@pytest.mark.parametrize("cut", [-1, -20])
def test_truncated_file_is_rejected(tmp_path: Path, cut: int) -> None:
    (tmp_path / "images").write_bytes(idx(pictures())[:cut])
    with pytest.raises(InputError, match=r"declares 3 × 4 × 5 values, 60 bytes, but has \d+"):
        read_idx(tmp_path / "images")


def test_file_with_trailing_bytes_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "images").write_bytes(idx(pictures()) + b"more")
    with pytest.raises(InputError, match="60 bytes, but has 64"):
        read_idx(tmp_path / "images")


@pytest.mark.parametrize(
    "content", [b"", b"\0\0", b"\x89PNG....", b"\0\0\x08\x03\0\0", b"\0\0\x07\x01\0\0\0\0"]
)
def test_other_files_are_rejected(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "images").write_bytes(content)
    with pytest.raises(InputError, match=r"is not an IDX file: it starts with"):
        read_idx(tmp_path / "images")


@pytest.mark.parametrize(
    "content", [gzip.compress(idx(pictures()), mtime=0)[:-12], b"no gzip"], ids=["cut", "other"]
)
def test_broken_compression_is_rejected(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "images.gz").write_bytes(content)
    with pytest.raises(InputError, match="Cannot decompress"):
        read_idx(tmp_path / "images.gz")
