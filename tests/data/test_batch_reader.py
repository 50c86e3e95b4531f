"""Reading files in batches: rows, columns, types, errors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from oodometer.core.errors import InputError
from oodometer.data import batch_reader
from oodometer.data.batch_reader import BatchReadSpec
from tests.support.partitioned_files import write

KINDS = ("a.parquet", "a.csv", "a.csv.gz", "a.feather", "a.arrow")


@pytest.fixture
def table() -> pa.Table:
    rng = np.random.default_rng(0)
    return pa.table(
        {"x": rng.normal(size=500), "name": [f"n {j}\nof" for j in range(500)], "y": np.arange(500)}
    )


@pytest.mark.parametrize("rows", [7, 100, 1000])
@pytest.mark.parametrize("name", KINDS)
def test_batches_have_all_rows_in_order_and_selected_columns(
    name: str, rows: int, table: pa.Table, tmp_path: Path
) -> None:
    path = write(table, tmp_path / name, group=60)
    found = list(batch_reader.read_batches(path, None, BatchReadSpec(("y", "x"), rows)))
    assert max(batch.num_rows for batch in found) <= rows
    whole = pa.Table.from_batches(found)
    assert sorted(whole.column_names) == ["x", "y"]
    assert whole.column("y").to_pylist() == list(range(500))
    np.testing.assert_allclose(whole.column("x").to_numpy(), table.column("x").to_numpy())
    assert batch_reader.read_schema(path).names == ["x", "name", "y"]


def test_row_counts_are_known_for_parquet_and_feather(table: pa.Table, tmp_path: Path) -> None:
    paths = {name: write(table, tmp_path / name, group=200) for name in KINDS}
    assert batch_reader.row_group_sizes(paths["a.parquet"]) == (200, 200, 100)
    assert batch_reader.row_group_sizes(paths["a.feather"]) == (500,)
    assert [
        batch_reader.row_group_sizes(paths[name]) for name in ("a.csv", "a.csv.gz", "a.arrow")
    ] == ([None] * 3)


def test_selected_row_groups_are_read(table: pa.Table, tmp_path: Path) -> None:
    path = write(table, tmp_path / "a.parquet", group=200)
    (only,) = batch_reader.read_batches(path, (1,), BatchReadSpec(("y",), 1000))
    assert only.column(0).to_pylist() == list(range(200, 400))


def test_large_row_group_is_read_in_bounded_memory(tmp_path: Path) -> None:
    n = 2_000_000
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"x": np.random.default_rng(0).random(n)}), path, row_group_size=n)
    pa.default_memory_pool().release_unused()
    before, most = pa.total_allocated_bytes(), 0
    for _ in batch_reader.read_batches(path, None, BatchReadSpec(("x",), 10_000)):
        most = max(most, pa.total_allocated_bytes() - before)
    assert most < 8 * n / 4


def test_csv_columns_have_the_requested_types(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("x\n0\n1\n0.5\n")
    (found,) = batch_reader.read_batches(
        path, None, BatchReadSpec(("x",), 9, column_types=(("x", pa.float64()),))
    )
    assert found.column(0).to_pylist() == [0.0, 1.0, 0.5]


@pytest.mark.parametrize("name", KINDS)
def test_broken_file_raises_one_line_with_its_name(
    name: str, table: pa.Table, tmp_path: Path
) -> None:
    path = write(table, tmp_path / name)
    path.write_bytes(b"")
    with pytest.raises(InputError, match=rf"^{name} cannot be read as \w+: .*\?$"):
        batch_reader.read_schema(path)
    path.unlink()
    with pytest.raises(InputError, match="There is no file"):
        batch_reader.read_schema(path)


def test_csv_text_among_numbers_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("x\n0.25\nmaybe\n")
    spec = BatchReadSpec(("x",), 9, column_types=(("x", pa.float64()),))
    with pytest.raises(InputError, match=r"^a.csv cannot be read as CSV: .*'maybe'"):
        list(batch_reader.read_batches(path, None, spec))
