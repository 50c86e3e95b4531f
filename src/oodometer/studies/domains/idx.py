"""Reader of IDX files, the format of MNIST.

An IDX file contains a magic number, the size of each dimension and the values, all big-endian.
"""

from __future__ import annotations

import gzip
import math
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from oodometer.core.array_types import Array
from oodometer.core.errors import InputError
from oodometer.core.inputs import InputKind
from oodometer.core.protocols import Dataset
from oodometer.data.input_rows import read_array
from oodometer.studies.domains._reader import ImageSize, check_row_counts, require_file

# Type of the values, keyed by the third byte of the magic number.
IDX_DTYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}


@dataclass(frozen=True)
class IdxReader:
    """Reader of two IDX files, one with images and one with labels.

    Files that are compressed with gzip (.gz) are decompressed. If the labels have several columns,
    as in QMNIST, the first column is used.
    """

    kind: ClassVar[InputKind] = "images"

    path: str
    labels: str

    @property
    def files(self) -> tuple[str, ...]:
        return self.path, self.labels

    def read(self, root: Path, size: ImageSize) -> Dataset:
        """Read all images and labels into memory."""
        images, labels = (read_idx(require_file(root, name)) for name in self.files)
        labels = labels if labels.ndim == 1 else labels[:, 0]
        check_row_counts(images, labels, self.path)
        return read_array(images, labels.astype(np.int64)).to_dataset(self.path, skip_bad=False)


def read_idx(path: Path) -> Array:
    """Read an IDX file; return its array in native byte order."""
    content = _read_content(path)
    head = 4 + 4 * content[3] if len(content) > 3 else 4
    if len(content) < head or content[:2] != b"\0\0" or content[2] not in IDX_DTYPES:
        raise InputError(
            f"{path.name} is not an IDX file: it starts with {content[:4].hex(' ') or 'nothing'}; "
            "expected two zeros, the type and the number of dimensions. Is it the right file?"
        )
    dtype = np.dtype(IDX_DTYPES[content[2]])
    shape = tuple(np.frombuffer(content[4:head], dtype=">u4").tolist())
    n_expected = math.prod(shape) * dtype.itemsize
    n_bytes = len(content) - head
    if n_bytes != n_expected:
        raise InputError(
            f"{path.name} declares {' × '.join(map(str, shape))} values, {n_expected} bytes, but "
            f"has {n_bytes}. Download it again."
        )
    values = np.frombuffer(content, dtype=dtype, offset=head).reshape(shape)
    return values.astype(dtype.newbyteorder("="), copy=False)


def _read_content(path: Path) -> bytes:
    content = path.read_bytes()
    if path.suffix != ".gz":
        return content
    try:
        return gzip.decompress(content)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InputError(f"Cannot decompress {path.name}: {error}. Download it again.") from error
