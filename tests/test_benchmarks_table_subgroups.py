"""Subgroups of a table as domains."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks._table_subgroups import group_by_column
from oodometer.core.errors import InputError


def people(folder: Path, labels: list[Any]) -> Path:
    rows: dict[str, list[Any]] = {
        "age": list(range(60)),
        "sex": ["f", "m", "f"] * 20,
        "rich": labels * 20,
    }
    rows["sex"][0] = "x"
    pq.write_table(pa.table(rows), folder / "people.parquet")
    return folder / "people.parquet"


@pytest.mark.parametrize(("labels", "names"), [(["no", "yes", "no"], ("no", "yes")), ([2, 1, 2], ("1", "2"))])  # fmt: skip
def test_every_value_of_a_column_is_a_domain(
    tmp_path: Path, labels: list[Any], names: tuple[str, ...]
) -> None:
    group = group_by_column(people(tmp_path, labels), "sex", label="rich")
    assert (group.name, group.kind, group.domains) == ("people-sex", "table", ("f", "m", "x"))
    assert group.classes == names
    train, test = (group.domain("f", split) for split in ("train", "test"))
    assert len(train) + len(test) == 39
    assert train.take(slice(None)).column_names == ["age"]
    assert train.labels is not None
    assert set(train.labels.tolist()) == {names.index(str(labels[0]))}


def test_rare_values_are_excluded(tmp_path: Path) -> None:
    path = people(tmp_path, ["no", "yes", "no"])
    assert group_by_column(path, "sex", label="rich", min_rows=2).domains == ("f", "m")
    group = group_by_column(path, "rich", label="rich", inputs=["age", "sex"])
    assert group.domain("yes", "train").take(slice(0, 1)).column_names == ["age", "sex"]


def test_continuous_column_is_rejected(tmp_path: Path) -> None:
    path = people(tmp_path, ["no", "yes", "no"])
    with pytest.raises(InputError, match="The column 'age' has 0 values with at least 2 rows"):
        group_by_column(path, "age", label="rich", min_rows=2)
    with pytest.raises(InputError, match="There is no column 'race'"):
        group_by_column(path, "race", label="rich")
