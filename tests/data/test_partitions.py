"""Finding files and partitioning them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oodometer.core.errors import InputError
from oodometer.data import batch_reader
from oodometer.data.batch_reader import (
    FILE_POSITION_STRIDE,
    find_files,
    is_multi_file,
    make_partitions,
)
from tests.support.partitioned_files import write

TABLE = pa.table({"x": np.arange(100.0)})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("b.parquet", "a.parquet", "deep/c.csv", "_SUCCESS", ".x.parquet", "_t/d.parquet"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        write(TABLE, path) if "." in path.name else path.write_text("")
    (tmp_path / "notes.txt").write_text("no data")
    return tmp_path


def names(found: tuple[Path, ...], folder: Path) -> list[str]:
    return [str(path.relative_to(folder)) for path in found]


def test_files_are_found_by_path_folder_or_pattern(folder: Path) -> None:
    assert names(find_files(folder), folder) == ["a.parquet", "b.parquet", "deep/c.csv"]
    assert names(find_files(folder / "a.parquet"), folder) == ["a.parquet"]
    assert names(find_files(f"{folder}/*.parquet"), folder) == ["a.parquet", "b.parquet"]
    assert names(find_files(f"{folder}/**/*.csv"), folder) == ["deep/c.csv"]
    assert names(find_files(f"{folder}/de*"), folder) == ["deep/c.csv"]
    assert [
        is_multi_file(folder),
        is_multi_file(f"{folder}/*"),
        is_multi_file(folder / "a.parquet"),
    ] == [
        True,
        True,
        False,
    ]


def test_file_name_with_brackets_is_not_a_pattern(tmp_path: Path) -> None:
    path = write(TABLE, tmp_path / "run[1].parquet")
    assert not is_multi_file(path)
    assert find_files(path) == (path,)


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("nothing/*.parquet", "No file matches .*put quotes"),
        ("nowhere.parquet", "There is no file"),
        ("empty", r"The folder .* has no data files. Known extensions: .parquet, .csv"),
        ("z.npz", "z.npz is an .npz file, which cannot be read in batches. Save it as Parquet."),
        ("*.txt", "notes.txt has an extension that cannot be read in batches"),
        ("*.npz", "z.npz is an .npz file"),
    ],
)
def test_unreadable_locations_raise(folder: Path, where: str, message: str) -> None:
    (folder / "empty").mkdir()
    np.savez(folder / "z.npz", x=[1])
    with pytest.raises(InputError, match=message):
        find_files(folder / where)


@given(st.lists(st.integers(0, 40), max_size=12), st.integers(1, 60))
def test_merged_row_groups_cover_each_row_once(rows: list[int], min_rows: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batch_reader, "PARTITION_ROWS", min_rows)
        found = list(batch_reader._merge_row_groups(rows))
    groups = [group for part, _, _ in found for group in part or ()]
    assert groups == list(range(len(rows)))
    start = 0
    for part, first, many in found:
        assert first == start
        assert many == sum(rows[group] for group in part or ())
        start += many
    assert all(many is not None and many >= min_rows for _, _, many in found[:-1])


def test_partitions_have_positions_among_all_rows(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_reader, "PARTITION_ROWS", 30)
    write(TABLE, folder / "a.parquet", group=30)
    parts, total = make_partitions(find_files(f"{folder}/*.parquet"))
    assert total == 200
    assert [
        (part.number, part.row_groups, part.first_position, part.first_row_in_file, part.n_rows)
        for part in parts
    ] == [
        (0, (0,), 0, 0, 30),
        (1, (1,), 30, 30, 30),
        (2, (2,), 60, 60, 30),
        (3, (3,), 90, 90, 10),
        (4, (0,), 100, 0, 100),
    ]


def test_unknown_row_counts_give_strided_positions(folder: Path) -> None:
    parts, total = make_partitions(find_files(folder))
    assert total is None
    assert [(part.first_position, part.n_rows) for part in parts] == [
        (0, 100),
        (FILE_POSITION_STRIDE, 100),
        (2 * FILE_POSITION_STRIDE, None),
    ]
