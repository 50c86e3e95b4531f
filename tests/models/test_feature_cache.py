"""Disk cache of features: completeness, concurrency and damaged files."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from oodometer.core.array_types import Floats, Ints
from oodometer.core.errors import InputError
from oodometer.core.inputs import RowHashes
from oodometer.models.feature_cache import (
    BLOCK_SUFFIX,
    CacheSection,
    FeatureCache,
    open_block,
    user_cache_folder,
)
from oodometer.parallel.pickling import CACHE_FOLDER_VARIABLE

WIDTH = 5
# Writes blocks of 50 rows until it is killed; row k has the key k and the features k, k, ….
WRITER = """
import sys
from pathlib import Path
import numpy as np
from oodometer.models.feature_cache import FeatureCache
section = FeatureCache(Path(sys.argv[1])).section("body", "key", form="vectors", width=5)
first, last = int(sys.argv[2]), int(sys.argv[3])
for start in range(first, last, 50):
    keys = np.arange(start, start + 50, dtype=np.uint64)
    values = np.repeat(keys[:, None], 5, axis=1).astype(np.float32)
    section.commit(keys, np.zeros(50, dtype=np.int64), values)
    print(start, flush=True)
"""


def section(
    folder: Path, *, body: str = "key", transform: str = "", width: int = WIDTH
) -> CacheSection:
    return FeatureCache(folder).section(
        "body", body, form="vectors", width=width, transform=transform
    )


def entries(*keys: int, draw: int = 0) -> tuple[RowHashes, Ints, Floats]:
    """Return keys, draws, and features that are equal to the keys."""
    rows = np.array(keys, dtype=np.uint64)
    values = np.repeat(rows[:, None], WIDTH, axis=1).astype(np.float32)
    return rows, np.full(len(rows), draw), values


def blocks(folder: Path) -> list[Path]:
    return sorted(folder.rglob(f"*{BLOCK_SUFFIX}"))


def start_writer(folder: Path, first: int, last: int) -> subprocess.Popen[str]:
    words = [sys.executable, "-c", WRITER, str(folder), str(first), str(last)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, text=True)


def test_features_are_read_back_in_any_order_from_several_blocks(tmp_path: Path) -> None:
    stored = section(tmp_path)
    stored.commit(*entries(3, 1, 2))
    stored.commit(*entries(9, 8))
    keys, draws, expected = entries(8, 2, 7, 3, 8)
    values, found = section(tmp_path).read(keys, draws)
    assert found.tolist() == [True, True, False, True, True]
    assert np.array_equal(values[found], expected[found])
    assert not values[2].any()


def test_draws_transforms_and_bodies_never_collide(tmp_path: Path) -> None:
    keys, draws, values = entries(1, 2)
    section(tmp_path).commit(keys, draws, values)
    section(tmp_path).commit(keys, draws + 1, values + 10)
    section(tmp_path, transform="blur").commit(keys, draws, values + 20)
    section(tmp_path, body="other").commit(keys, draws, values + 30)
    found = [
        section(tmp_path).read(keys, draws),
        section(tmp_path).read(keys, draws + 1),
        section(tmp_path, transform="blur").read(keys, draws),
        section(tmp_path, body="other").read(keys, draws),
    ]
    for at, (read, complete) in enumerate(found):
        assert complete.all()
        assert np.array_equal(read, values + 10 * at)
    assert not section(tmp_path, transform="blur").read(keys, draws + 1)[1].any()


def test_rows_are_stored_once(tmp_path: Path) -> None:
    stored = section(tmp_path)
    stored.commit(*entries(1, 2, 1))
    stored.commit(*entries(2, 1))
    assert [len(block.keys) for path in blocks(tmp_path) if (block := open_block(path))] == [2]


def test_blocks_are_mapped_not_copied(tmp_path: Path) -> None:
    section(tmp_path).commit(*entries(1, 2))
    block = open_block(blocks(tmp_path)[0])
    assert block is not None
    base: object = block.values
    while isinstance(base, np.ndarray) and not isinstance(base, np.memmap):
        base = base.base
    assert isinstance(base, np.memmap)
    assert not block.values.flags.writeable


@pytest.mark.parametrize("damage", ["truncated", "one bit", "empty", "another format"])
def test_damaged_block_is_removed_and_its_rows_are_missing(tmp_path: Path, damage: str) -> None:
    # A new folder per test, because the process keeps the checksums of known blocks.
    section(tmp_path).commit(*entries(1, 2))
    section(tmp_path).commit(*entries(5))
    damaged = next(path for path in blocks(tmp_path) if len(path.read_bytes()) > 150)
    content = bytearray(damaged.read_bytes())
    content[-3] ^= 4
    new = {"truncated": bytes(content[:-8]), "one bit": bytes(content), "empty": b""}
    damaged.write_bytes(new.get(damage, b"PNG" + bytes(content)[3:]))
    reader = CacheSection(damaged.parent, {}, WIDTH)
    values, found = reader.read(*entries(1, 2, 5)[:2])
    assert found.tolist() == [False, False, True]
    assert values[2, 0] == 5
    assert not damaged.exists()
    reader.commit(*entries(1, 2))
    assert reader.read(*entries(1, 2, 5)[:2])[1].all()


def test_killed_writer_leaves_a_readable_cache(tmp_path: Path) -> None:
    writer = start_writer(tmp_path, 0, 10**6)
    assert writer.stdout is not None
    for _ in range(4):
        last = int(writer.stdout.readline())
    os.kill(writer.pid, signal.SIGKILL)
    writer.wait()
    writer.stdout.close()
    keys, draws, expected = entries(*range(last + 50))
    values, found = section(tmp_path).read(keys, draws)
    assert found.all()
    assert np.array_equal(values, expected)
    again = start_writer(tmp_path, last, last + 200)
    again.communicate()
    assert again.returncode == 0
    assert section(tmp_path).read(*entries(*range(last + 200))[:2])[1].all()


def test_two_processes_write_and_a_third_reads(tmp_path: Path) -> None:
    writers = [start_writer(tmp_path, first, first + 500) for first in (0, 250)]
    reader = section(tmp_path)
    keys, draws, expected = entries(*range(750))
    while any(writer.poll() is None for writer in writers):
        values, found = reader.read(keys, draws)
        assert np.array_equal(values[found], expected[found])
    for writer in writers:
        writer.communicate()
    values, found = reader.read(keys, draws)
    assert found.all()
    assert np.array_equal(values, expected)


def test_temporary_file_of_a_killed_process_is_removed_after_an_hour(tmp_path: Path) -> None:
    stored = section(tmp_path)
    stored.commit(*entries(1))
    old, new = (stored.folder / f".oodometer-{name}.partial" for name in ("old", "new"))
    for path in (old, new):
        path.write_bytes(b"half of a block")
    long_ago = time.time() - 7200
    os.utime(old, (long_ago, long_ago))
    stored.commit(*entries(2))
    CacheSection(stored.folder, {}, WIDTH).read(*entries(1)[:2])
    assert not old.exists()
    assert new.exists()


def test_sizes_are_reported_and_clearing_keeps_other_files(tmp_path: Path) -> None:
    section(tmp_path).commit(*entries(1, 2))
    section(tmp_path, transform="blur{magnitude=1}").commit(*entries(1, 2, 3))
    for own in (tmp_path / "notes.txt", tmp_path / "features" / "mine.csv"):
        own.write_text("mine")
    cache = FeatureCache(tmp_path)
    assert [(size.body, size.transform, size.rows) for size in cache.section_sizes()] == [
        ("body", "blur{magnitude=1}", 3),
        ("body", "", 2),
    ]
    total = sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file())
    assert cache.n_bytes == total - 8
    assert cache.clear() == total - 8
    assert cache.n_bytes == 0
    kept = sorted(path.name for path in tmp_path.rglob("*") if path.is_file())
    assert kept == ["mine.csv", "notes.txt"]
    assert [path.name for path in (tmp_path / "features").iterdir()] == ["mine.csv"]
    assert not section(tmp_path).read(*entries(1)[:2])[1].any()


def test_variable_selects_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CACHE_FOLDER_VARIABLE, str(tmp_path))
    assert FeatureCache.default() == FeatureCache(tmp_path)
    monkeypatch.setenv(CACHE_FOLDER_VARIABLE, "none")
    assert FeatureCache.default() is None
    monkeypatch.delenv(CACHE_FOLDER_VARIABLE)
    assert FeatureCache.default() == FeatureCache(user_cache_folder())


def test_folder_that_cannot_be_written_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"Cannot write .* set OODOMETER_CACHE to another folder"):
        section(tmp_path / "file").commit(*entries(1))


def test_features_of_another_width_are_rejected(tmp_path: Path) -> None:
    keys, draws, values = entries(1)
    with pytest.raises(InputError, match=r"\(1, 5\)"):
        section(tmp_path).commit(keys, draws, values[:, :2])
