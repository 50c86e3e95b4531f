"""Disk cache of features: memory-mapped blocks of rows that are written atomically.

<folder>/features/<body>/<section>/about.json      body, transform and form of the rows
<folder>/features/<body>/<section>/<token>.block   row keys, draws, features and a checksum
<folder>/row_keys/<dataset>.npy                    hashes of the rows of a dataset that is not in memory
<folder>/networks/<body>.onnx                      bodies that were exported for onnxruntime

A section holds the features of one body for one transform and one form of inputs. A row of a section
is found by its key, the hash of the row's content before the transform, and by the number of the
draw; draw 0 is the row itself. A block is written to a temporary file, flushed to disk and renamed,
so it is complete or absent, and a killed process loses at most the block that it was writing. Each
block has a name of its own. Therefore any number of processes can read and write at the same time;
two processes that compute the same rows both store them, which wastes only space. A block whose size
or checksum is wrong is removed, and its rows are computed again.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import struct
import sys
import threading
import time
import zlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np

from oodometer.core.array_types import Bools, Floats, Ints
from oodometer.core.errors import InputError, wrong_shape
from oodometer.core.inputs import RowHashes, splitmix64
from oodometer.data.atomic import PARTIAL_SUFFIX, atomic_write, fsync_folder
from oodometer.parallel.pickling import CACHE_FOLDER_VARIABLE

# Value of the environment variable that stands for no cache.
NO_CACHE = "none"
FEATURES_FOLDER, ROW_KEYS_FOLDER, NETWORKS_FOLDER = "features", "row_keys", "networks"
ABOUT_FILE = "about.json"
BLOCK_SUFFIX = ".block"
# Magic number with the version of the format, width, checksum and number of rows.
BLOCK_HEADER = struct.Struct("<8sIIQ")
BLOCK_MAGIC = b"OODFEAT1"
# Keys and features start at multiples of this number of bytes, the size of a cache line.
BLOCK_ALIGNMENT = 64
# Patterns of the files that the cache writes, for `FeatureCache.clear`.
OWN_FILES = (
    f"{FEATURES_FOLDER}/*/*/{ABOUT_FILE}",
    f"{FEATURES_FOLDER}/*/*/*{BLOCK_SUFFIX}",
    f"{FEATURES_FOLDER}/*/*/.*{PARTIAL_SUFFIX}",
    f"{ROW_KEYS_FOLDER}/*.npy",
    f"{NETWORKS_FOLDER}/*.onnx",
    f"{NETWORKS_FOLDER}/*.onnx.data",
)
# Temporary files of this age in seconds were left behind by a killed process.
MAX_PARTIAL_AGE = 3600.0


# Blocks -----------------------------------------------------------------------------------------


class BlockLayout(NamedTuple):
    """Positions in a block of `n_rows` rows of `width` float32 features."""

    n_rows: int
    width: int

    @property
    def keys_start(self) -> int:
        return _align(BLOCK_HEADER.size)

    @property
    def values_start(self) -> int:
        return _align(self.keys_start + 16 * self.n_rows)

    @property
    def n_bytes(self) -> int:
        return self.values_start + 4 * self.n_rows * self.width


def _align(position: int) -> int:
    return position + -position % BLOCK_ALIGNMENT


class FeatureBlock(NamedTuple):
    """Memory-mapped block: row key and draw of each row (n, 2), and its features (n, width)."""

    path: Path
    keys: RowHashes
    values: Floats
    checksum: int

    def is_intact(self) -> bool:
        """Return whether the content has the checksum that was stored with it."""
        return _checksum(self.keys, self.values) == self.checksum


def _checksum(keys: RowHashes, values: Floats) -> int:
    # A memoryview of an array needs no copy of its bytes.
    return zlib.crc32(values.data.cast("B"), zlib.crc32(keys.data.cast("B")))


def write_block(path: Path, keys: RowHashes, values: Floats) -> None:
    """Write a block to a temporary file, flush it to disk, and rename it."""
    layout = BlockLayout(*values.shape)
    checksum = _checksum(keys, values)
    header = BLOCK_HEADER.pack(BLOCK_MAGIC, layout.width, checksum, layout.n_rows)
    with atomic_write(path) as partial, partial.open("xb") as file:
        file.write(header.ljust(layout.keys_start, b"\0"))
        file.write(keys.tobytes().ljust(layout.values_start - layout.keys_start, b"\0"))
        file.write(values.tobytes())
        file.flush()
        os.fsync(file.fileno())
    fsync_folder(path.parent)


def open_block(path: Path) -> FeatureBlock | None:
    """Map a block into memory; return None if it is missing, truncated or of another format."""
    try:
        with path.open("rb") as file:
            header = file.read(BLOCK_HEADER.size)
            n_bytes = os.fstat(file.fileno()).st_size
        magic, width, checksum, n_rows = BLOCK_HEADER.unpack(header)
        layout = BlockLayout(n_rows, width)
        if magic != BLOCK_MAGIC or n_bytes != layout.n_bytes:
            return None
        mapped = np.memmap(path, dtype=np.uint8, mode="r")
    except (OSError, ValueError, struct.error):
        return None
    keys = mapped[layout.keys_start : layout.keys_start + 16 * n_rows].view(np.uint64)
    values = mapped[layout.values_start :].view(np.float32)
    # np.asarray removes the subclass memmap, whose indexing is slower; the pages stay on disk.
    return FeatureBlock(
        path,
        np.asarray(keys).reshape(n_rows, 2),
        np.asarray(values).reshape(n_rows, width),
        checksum,
    )


# Sections ---------------------------------------------------------------------------------------


class _SectionIndex(NamedTuple):
    """Sorted hashes of the entries of all blocks, and the block and row of each entry."""

    blocks: tuple[FeatureBlock, ...]
    hashes: RowHashes
    block: Ints
    row: Ints

    @classmethod
    def build(cls, blocks: tuple[FeatureBlock, ...]) -> _SectionIndex:
        keys = np.concatenate([np.empty((0, 2), np.uint64), *(block.keys for block in blocks)])
        sizes = [len(block.keys) for block in blocks]
        hashes = entry_hashes(keys[:, 0], keys[:, 1])
        order = np.argsort(hashes, kind="stable")
        number = np.repeat(np.arange(len(blocks)), sizes)
        row = np.concatenate([np.empty(0, np.int64), *(np.arange(size) for size in sizes)])
        return cls(blocks, hashes[order], number[order], row[order])

    def find(self, keys: RowHashes, draws: Ints) -> tuple[Bools, Ints, Ints]:
        """Return whether each entry exists, and its block and row."""
        if not len(self.hashes):
            nothing = np.zeros(len(keys), dtype=np.int64)
            return nothing > 0, nothing, nothing
        wanted = entry_hashes(keys, draws.astype(np.uint64))
        place = np.minimum(np.searchsorted(self.hashes, wanted), len(self.hashes) - 1)
        return self.hashes[place] == wanted, self.block[place], self.row[place]


def entry_hashes(keys: RowHashes, draws: RowHashes) -> RowHashes:
    """Return one hash per pair of a row key and the number of a draw."""
    return splitmix64(keys ^ splitmix64(draws))


@dataclass(eq=False)
class CacheSection:
    """Cached features of one body for one transform and one form of inputs.

    folder   folder of the blocks
    about    description of the section, which is written into its folder
    width    number of features per row
    """

    folder: Path
    about: Mapping[str, str]
    width: int
    _index: _SectionIndex = field(default_factory=lambda: _SectionIndex.build(()), init=False)
    _checked: set[Path] = field(default_factory=set, init=False)
    _stamp: int = field(default=-1, init=False)
    _lock: threading.RLock = field(default_factory=threading.RLock, init=False)

    def read(self, keys: RowHashes, draws: Ints) -> tuple[Floats, Bools]:
        """Return the features of entries, and whether each entry is cached; other rows are 0.

        An entry is a row key and the number of a draw.
        """
        with self._lock:
            self._refresh()
            index = self._index
            found, block, row = index.find(keys, draws)
            values = np.zeros((len(keys), self.width), dtype=np.float32)
            for number in np.unique(block[found]):
                mapped = index.blocks[number]
                if not self._check_block(mapped):
                    self._remove_block(mapped)
                    return self.read(keys, draws)
                at = np.flatnonzero(found & (block == number))
                # Different entries can have the same hash.
                same = (mapped.keys[row[at], 0] == keys[at]) & (
                    mapped.keys[row[at], 1] == draws[at].astype(np.uint64)
                )
                found[at[~same]] = False
                values[at[same]] = mapped.values[row[at[same]]]
        return values, found

    def commit(self, keys: RowHashes, draws: Ints, values: Floats) -> None:
        """Store the features of entries that are not cached yet as one block."""
        if values.shape != (len(keys), self.width):
            raise wrong_shape("Features", f"({len(keys)}, {self.width})", values.shape)
        pairs = np.stack([keys, draws.astype(np.uint64)], axis=1)
        with self._lock:
            self._refresh()
            _, first = np.unique(entry_hashes(*pairs.T), return_index=True)
            found, _, _ = self._index.find(keys[first], draws[first])
            new = np.sort(first[~found])
            if len(new):
                self._write(pairs[new], np.ascontiguousarray(values[new], dtype=np.float32))

    def _write(self, keys: RowHashes, values: Floats) -> None:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            if not (self.folder / ABOUT_FILE).is_file():
                with atomic_write(self.folder / ABOUT_FILE) as partial:
                    partial.write_text(json.dumps(dict(self.about)), encoding="utf-8")
            write_block(self.folder / f"{secrets.token_hex(8)}{BLOCK_SUFFIX}", keys, values)
        except OSError as error:
            raise InputError(
                f"Cannot write {values.nbytes / 2**20:.1f} MB of features to "
                f"{str(self.folder)!r}: {error.strerror or error}. Free space, or set "
                f"{CACHE_FOLDER_VARIABLE} to another folder, or to {NO_CACHE!r} for no cache."
            ) from error

    def _refresh(self) -> None:
        """Read the list of blocks again if a block was added or removed by any process."""
        try:
            stamp = self.folder.stat().st_mtime_ns
        except OSError:
            self._index, self._stamp = _SectionIndex.build(()), -1
            return
        if stamp == self._stamp:
            return
        known = {block.path: block for block in self._index.blocks}
        blocks = []
        for path in sorted(self.folder.glob(f"*{BLOCK_SUFFIX}")):
            block = known.get(path) or open_block(path)
            if block is None or block.values.shape[1] != self.width:
                with suppress(OSError):
                    path.unlink()
            else:
                blocks.append(block)
        _remove_old_partials(self.folder)
        self._index, self._stamp = _SectionIndex.build(tuple(blocks)), stamp

    def _check_block(self, block: FeatureBlock) -> bool:
        """Return whether the block is intact; its checksum is computed once per process."""
        if block.path not in self._checked and block.is_intact():
            self._checked.add(block.path)
        return block.path in self._checked

    def _remove_block(self, block: FeatureBlock) -> None:
        with suppress(OSError):
            block.path.unlink()
        others = tuple(other for other in self._index.blocks if other is not block)
        self._index = _SectionIndex.build(others)


def _remove_old_partials(folder: Path) -> None:
    """Remove temporary files that killed processes left behind."""
    for leftover in folder.glob(f".*{PARTIAL_SUFFIX}"):
        with suppress(OSError):
            if time.time() - leftover.stat().st_mtime > MAX_PARTIAL_AGE:
                leftover.unlink()


# Cache ------------------------------------------------------------------------------------------


class SectionSize(NamedTuple):
    """Size of a section: body, transform, number of rows and bytes on disk."""

    body: str
    transform: str
    rows: int
    n_bytes: int


@dataclass(frozen=True)
class FeatureCache:
    """Disk cache of the features of pretrained bodies.

    Parameters
    ----------
    folder : Path
        Folder of the cache; it is created when something is stored.

    Examples
    --------
    >>> import tempfile
    >>> cache = FeatureCache(Path(tempfile.mkdtemp()))
    >>> section = cache.section("tiny body", "1234", form="vectors", width=2)
    >>> keys, draws = np.array([7, 8], dtype=np.uint64), np.zeros(2, dtype=np.int64)
    >>> section.commit(keys, draws, np.array([[1, 2], [3, 4]], dtype=np.float32))
    >>> section.read(keys[::-1], draws)[0].tolist()
    [[3.0, 4.0], [1.0, 2.0]]
    >>> cache.clear() > 0, cache.n_bytes
    (True, 0)
    """

    folder: Path

    @classmethod
    def default(cls) -> Self | None:
        """Return the cache in $OODOMETER_CACHE or in the user's cache folder; None for no cache."""
        chosen = os.environ.get(CACHE_FOLDER_VARIABLE, "")
        if chosen == NO_CACHE:
            return None
        return cls(Path(chosen) if chosen else user_cache_folder())

    def section(
        self, body: str, body_key: str, *, form: str, width: int, transform: str = ""
    ) -> CacheSection:
        """Return the section of a body, a transform and a form of inputs.

        `body` is the name of the body, and `body_key` a hash of everything that determines its
        features. `transform` describes everything except row and draw that determines a
        transformed row; it is empty for rows that are not transformed. `form` describes the type
        and shape of the rows.
        """
        about = (("body", body), ("body_key", body_key), ("transform", transform), ("form", form))
        digest = hashlib.blake2b(json.dumps([transform, form, width]).encode(), digest_size=8)
        place = self.folder / FEATURES_FOLDER / body_key / digest.hexdigest()
        return _open_section(place, about, width)

    def section_sizes(self) -> list[SectionSize]:
        """Return the size of each section, the largest first."""
        sizes = [_section_size(about.parent) for about in self._files(FEATURES_FOLDER, ABOUT_FILE)]
        return sorted(sizes, key=lambda size: -size.n_bytes)

    @property
    def n_bytes(self) -> int:
        """Size of all files of the cache in bytes."""
        return sum(_file_size(file) for file in self._own_files())

    def clear(self) -> int:
        """Remove everything that is cached; return the number of bytes that were removed.

        Files that the cache has not written are kept, also those in its folders.
        """
        before = self.n_bytes
        for file in list(self._own_files()):
            try:
                file.unlink(missing_ok=True)
            except OSError as error:
                raise InputError(
                    f"Cannot remove {str(file)!r}: {error.strerror or error}. Allow writing "
                    "there, and try again."
                ) from error
            _remove_empty_folders(file.parent, self.folder)
        return before - self.n_bytes

    def _own_files(self) -> Iterator[Path]:
        """Yield the files that the cache has written."""
        for pattern in OWN_FILES:
            yield from self.folder.glob(pattern)

    def _files(self, name: str, pattern: str) -> Iterator[Path]:
        return (self.folder / name).rglob(pattern)


def _remove_empty_folders(folder: Path, top: Path) -> None:
    """Remove a folder and its parents below `top`, as far as they are empty."""
    with suppress(OSError):
        while folder != top:
            folder.rmdir()
            folder = folder.parent


@lru_cache(maxsize=256)
def _open_section(folder: Path, about: tuple[tuple[str, str], ...], width: int) -> CacheSection:
    return CacheSection(folder, dict(about), width)


def _section_size(folder: Path) -> SectionSize:
    try:
        about = json.loads((folder / ABOUT_FILE).read_bytes())
    except (OSError, ValueError):
        about = {}
    blocks = [open_block(path) for path in folder.glob(f"*{BLOCK_SUFFIX}")]
    rows = sum(len(block.keys) for block in blocks if block is not None)
    n_bytes = sum(_file_size(file) for file in folder.iterdir())
    return SectionSize(
        str(about.get("body", "unknown")), str(about.get("transform", "")), rows, n_bytes
    )


def _file_size(file: Path) -> int:
    try:
        return file.stat().st_size if file.is_file() else 0
    except OSError:  # removed by another process
        return 0


def user_cache_folder() -> Path:
    """Return the platform's folder for cached files of this package."""
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local"), "oodometer")
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "oodometer"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "oodometer")
