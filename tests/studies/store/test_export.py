"""Long table of a store: latest values, readable by studies.analysis."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv, parquet

from oodometer.core.errors import InputError
from oodometer.studies.analysis.evaluation_table import EvaluationTable
from oodometer.studies.store import EvaluationOutcome, ResultRecord, Store
from oodometer.studies.store.export import _uniform_column
from tests.support import store_records


@pytest.fixture
def store(tmp_path: Path) -> Any:
    with Store.open(tmp_path / "store", "write") as opened:
        yield opened


def test_row_has_all_columns(store: Store) -> None:
    value = store_records.result("ni-x", 0.5, low=0.4, high=0.6, facts={"rise": 0.1})
    store_records.fill(store, store_records.outcome(store_records.result(), value))
    (row,) = store.to_table().to_pylist()
    assert row == {
        "model": "model m", "architecture": "mlp", "trained_on": "a + b", "tested_on": "b",
        "accuracy": 0.75, "measure": "ni-x", "value": 0.5, "low": 0.4, "high": 0.6, "reason": None,
        "n": 4, "group": "toy", "seed": 3, "converged": True, "facts": '{"rise": 0.1}',
        "recipe.lr": 0.5, "recipe.settings.width": 8,
    }  # fmt: skip


def test_accuracy_has_a_row_only_without_other_measures(store: Store) -> None:
    alone = store_records.outcome(store_records.result(dataset="e", tested_on="c"))
    store_records.fill(store, store_records.outcome(), alone)
    rows = store.to_table().to_pylist()
    assert [(row["tested_on"], row["measure"]) for row in rows] == [("b", "ac"), ("c", "accuracy")]


def test_evaluation_table_reads_exports(store: Store, tmp_path: Path) -> None:
    for name in ("m", "n"):
        results = [
            store_records.result("accuracy", 0.75, model=name),
            store_records.result("ac", 0.7, model=name),
            store_records.result("gde", None, model=name, reason='no, there is\n"none"'),
        ]
        store_records.fill(store, store_records.outcome(*results))
    for ending in ("parquet", "csv"):
        store.export(tmp_path / f"rows.{ending}")
        table = EvaluationTable.read(tmp_path / f"rows.{ending}")
        assert table.models == ("model m", "model n")
        assert table.trainings == (("a", "b"),)
        assert table.in_distribution.tolist() == [True, True]
        assert table.accuracy.tolist() == [0.75, 0.75]
        assert table.measures["ac"].tolist() == [0.7, 0.7]
        assert np.isnan(table.measures["gde"]).all()


def naive_latest(results: list[ResultRecord]) -> dict[tuple[str, str, str], float | None]:
    """Return the last value per measure on the last dataset of every model and domain."""
    latest: dict[tuple[str, str, str], float | None] = {}
    for result in results:
        last = [
            other
            for other in results
            if (other.model, other.tested_on) == (result.model, result.tested_on)
        ][-1]
        if result.dataset == last.dataset:
            latest[result.model, result.tested_on, result.measure] = result.value
    return latest


def test_last_written_values_are_exported(store: Store) -> None:
    rng = np.random.default_rng(0)
    results = [
        store_records.result(
            str(rng.choice(["ac", "doc"])), float(j), model=str(rng.choice(["m", "n"])),
            dataset=str(rng.choice(["d", "e"])), tested_on=str(rng.choice(["a", "b"])),
            settings=f"setting {j}",
        )
        for j in range(40)
    ]  # fmt: skip
    for result in results:
        outcome = EvaluationOutcome(result.model, result.dataset, results=(result,))
        store_records.fill(store, outcome)
    rows = store.to_table().to_pylist()
    found = {(row["model"][-1], row["tested_on"], row["measure"]): row["value"] for row in rows}
    assert found == naive_latest(results)
    assert [tuple(row[n] for n in ("model", "tested_on", "measure")) for row in rows] == sorted(
        tuple(row[n] for n in ("model", "tested_on", "measure")) for row in rows
    )


def test_rows_can_be_selected_by_key(store: Store) -> None:
    old = store_records.result("ac", 0.1, settings="ten draws")
    store_records.fill(store, store_records.outcome(store_records.result(), old))
    store.add_outcomes(
        [store_records.outcome(store_records.result("ac", 0.2, settings="twenty draws"))]
    )
    assert store.to_table()["value"].to_pylist() == [0.2]
    keys = {old.key, store_records.result().key}
    assert store.to_table(keys)["value"].to_pylist() == [0.1]
    assert store.to_table(keys)["accuracy"].to_pylist() == [0.75]


def test_export_does_not_depend_on_writing_order(tmp_path: Path) -> None:
    results = [
        store_records.result(name, 0.5, model=model)
        for name in ("accuracy", "ac", "doc")
        for model in "mn"
    ]
    for number, ordered in enumerate((results, results[::-1])):
        with Store.open(tmp_path / str(number), "write") as store:
            for result in ordered:
                outcome = EvaluationOutcome(result.model, result.dataset, results=(result,))
                store_records.fill(store, outcome)
            for ending in ("parquet", "csv"):
                store.export(tmp_path / f"{number}.{ending}")
    for ending in ("parquet", "csv"):
        first, second = (tmp_path / f"{n}.{ending}" for n in (0, 1))
        assert first.read_bytes() == second.read_bytes()


def test_exported_files_equal_the_table(store: Store, tmp_path: Path) -> None:
    store_records.fill(store, store_records.outcome())
    store.export(tmp_path / "rows.PARQUET")
    assert parquet.read_table(tmp_path / "rows.PARQUET").equals(store.to_table())
    store.export(tmp_path / "rows.csv")
    assert csv.read_csv(tmp_path / "rows.csv").column_names == store.to_table().column_names
    assert sorted(path.name for path in tmp_path.iterdir()) == ["rows.PARQUET", "rows.csv", "store"]


def test_empty_store_gives_an_empty_table(store: Store) -> None:
    assert store.to_table().num_rows == 0
    assert "accuracy" in store.to_table().column_names


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("rows.xlsx", r"Cannot write rows to 'rows\.xlsx'. Use a name that ends in \.parquet or"),
        ("nowhere/rows.csv", "No such file or directory. Free disk space or change"),
    ],
)
def test_unwritable_files_raise(store: Store, tmp_path: Path, name: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        store.export(tmp_path / name)
    assert not list(tmp_path.glob("**/*.partial*"))


def test_mixed_recipe_values_share_a_column() -> None:
    cases: list[tuple[list[Any], Any, list[Any]]] = [
        ([1, 2, None], pa.int64(), [1, 2, None]),
        ([1, 0.5], pa.float64(), [1.0, 0.5]),
        (["a", 1], pa.string(), ["a", "1"]),
        ([[1, 2], None], pa.string(), ["[1, 2]", None]),
        ([None], pa.string(), [None]),
        ([True, None], pa.bool_(), [True, None]),
    ]
    for cells, kind, expected in cases:
        found = _uniform_column(cells)
        assert (found.type, found.to_pylist()) == (kind, expected)
