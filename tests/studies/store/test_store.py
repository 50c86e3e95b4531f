"""Store: one writer, many readers, kills and corrupt files."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

from oodometer.core.errors import InputError
from oodometer.studies.store import EvaluationOutcome, FailureRecord, Store
from oodometer.studies.store import sqlite as database
from oodometer.studies.store.array_store import ArrayStore
from oodometer.studies.store.sqlite import STORE_FILE
from tests.support import store_records

ROOT = Path(__file__).parent.parent.parent.parent


def test_added_outcomes_can_be_read(tmp_path: Path) -> None:
    outcome = store_records.outcome(predictions=store_records.PREDICTIONS)
    with Store.open(tmp_path / "new" / "folder", "write") as store:
        store_records.fill(store, outcome)
        assert store.result_keys() == {result.key for result in outcome.results}
    with Store.open(tmp_path / "new" / "folder") as store:
        assert store.result_keys() == {result.key for result in outcome.results}
        assert set(store.prediction_references()) == {("m", "d")}
        assert store.failures() == {}
        assert store.missing_reasons() == {}


def test_last_result_replaces_earlier_ones(tmp_path: Path) -> None:
    with Store.open(tmp_path, "write") as store:
        store_records.fill(
            store, store_records.outcome(store_records.result(), store_records.result("ac", 0.1))
        )
        store.add_outcomes([store_records.outcome(store_records.result("ac", 0.2))])
        assert store.to_table()["value"].to_pylist() == [0.2]


def test_reasons_of_missing_values_are_stored(tmp_path: Path) -> None:
    none = store_records.result("gde", None, reason="no second model")
    with Store.open(tmp_path, "write") as store:
        store_records.fill(store, store_records.outcome(store_records.result(), none))
        assert store.missing_reasons() == {none.key: "no second model"}
        (row,) = store.to_table().to_pylist()
    assert (row["value"], row["reason"], row["accuracy"]) == (None, "no second model", 0.75)


def test_failure_is_kept_until_it_succeeds(tmp_path: Path) -> None:
    failed = EvaluationOutcome("m", "d", failure=FailureRecord("ValueError: no", "a trace"))
    with Store.open(tmp_path, "write") as store:
        store_records.fill(store, failed)
        assert store.failures() == {("m", "d"): "ValueError: no"}
        store.add_outcomes([EvaluationOutcome("m", "other", failure=FailureRecord("no"))])
        store.add_outcomes([store_records.outcome()])
        assert store.failures() == {("m", "other"): "no"}


# One writer, many readers -----------------------------------------------------------------------


def test_second_writer_raises_with_the_holder(tmp_path: Path) -> None:
    with Store.open(tmp_path, "write"):
        with pytest.raises(InputError) as refused:
            Store.open(tmp_path, "write")
        assert f"is being written by process {os.getpid()} on " in str(refused.value)
        assert "Only one process may write to it" in str(refused.value)
    with Store.open(tmp_path, "write") as again:
        assert again.result_keys() == set()


def test_other_processes_can_read_during_a_transaction(tmp_path: Path) -> None:
    code = f"""
from oodometer.studies.store import Store
with Store.open({str(tmp_path)!r}) as store:
    print(len(store.result_keys()), store.to_table().num_rows, store.predictions("m", "d"))
"""
    with Store.open(tmp_path, "write") as store:
        store_records.fill(store, store_records.outcome(predictions=store_records.PREDICTIONS))
        # An open transaction is neither visible to readers nor blocks them.
        store._database.execute("BEGIN IMMEDIATE")
        store._database.execute("DELETE FROM results")
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        store._database.rollback()
    assert (done.stdout.split(maxsplit=2)[:2], done.stderr) == (["2", "1"], "")
    assert "4 labelled rows" in done.stdout


def test_reader_sees_later_writes(tmp_path: Path) -> None:
    with Store.open(tmp_path, "write") as store, Store.open(tmp_path) as reader:
        assert reader.result_keys() == set()
        store_records.fill(store, store_records.outcome())
        assert len(reader.result_keys()) == 2


def test_reader_cannot_write(tmp_path: Path) -> None:
    Store.open(tmp_path, "write").close()
    with (
        Store.open(tmp_path) as store,
        pytest.raises(InputError, match="readonly database"),
    ):
        store_records.fill(store, store_records.outcome())


def test_unknown_mode_raises(tmp_path: Path) -> None:
    mode: Any = "append"
    with pytest.raises(InputError, match="mode must be 'read' or 'write'; got 'append'"):
        Store.open(tmp_path, mode)


# Kills, full disks, corrupt files ---------------------------------------------------------------


def test_unreferenced_arrays_are_removed_by_the_next_writer(tmp_path: Path) -> None:
    with Store.open(tmp_path, "write") as store:
        store_records.fill(store, store_records.outcome(predictions=store_records.PREDICTIONS))
        named = store.array_store.names()
        store.array_store.put([np.arange(9.0)])  # killed before the transaction
        (store.array_store.folder / "half.partial").write_bytes(b"half")
    with Store.open(tmp_path) as store:
        assert len(store.array_store.names()) == len(named) + 1, "a reader removed arrays"
    with Store.open(tmp_path, "write") as store:
        assert {path.stem for path in store.array_store.folder.iterdir()} == named


def test_predictions_with_a_missing_array_are_forgotten(tmp_path: Path) -> None:
    with Store.open(tmp_path, "write") as store:
        store_records.fill(store, store_records.outcome(predictions=store_records.PREDICTIONS))
        (tmp_path / "arrays" / f"{store.prediction_references()['m', 'd'].array}.npy").unlink()
    with Store.open(tmp_path, "write") as store:
        assert store.prediction_references() == {}
        assert len(store.result_keys()) == 2


def test_results_survive_removal_of_all_arrays(tmp_path: Path) -> None:
    with Store.open(tmp_path, "write") as store:
        store_records.fill(store, store_records.outcome(predictions=store_records.PREDICTIONS))
        before = store.to_table()
    shutil.rmtree(tmp_path / "arrays")
    with Store.open(tmp_path, "write") as store:
        assert store.prediction_references() == {}
        assert store.to_table().num_rows == 1
        assert store.to_table().equals(before)
        store_records.fill(store, store_records.outcome(predictions=store_records.PREDICTIONS))
        assert store.prediction_references()["m", "d"].read(store.array_store).labels is not None


def test_store_on_read_only_medium_can_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Store.open(tmp_path, "write") as store:
        store_records.fill(store, store_records.outcome())
    connected = database._connect

    def refused(path: Path, query: str) -> sqlite3.Connection:
        if query == "mode=ro":  # as SQLite does if it cannot create its side file
            raise sqlite3.OperationalError("unable to open database file")
        return connected(path, query)

    monkeypatch.setattr(database, "_connect", refused)
    with pytest.raises(InputError, match="unable to open database file"):
        Store.open(tmp_path)
    monkeypatch.setattr("os.access", lambda *_: False)
    with Store.open(tmp_path) as store:
        assert store.to_table().num_rows == 1
        assert not list(tmp_path.glob("*-shm"))


def test_arrays_are_written_before_rows(tmp_path: Path) -> None:
    with Store.open(tmp_path, "write") as store:
        with (
            mock.patch.object(ArrayStore, "put", side_effect=InputError("full")),
            pytest.raises(InputError, match="full"),
        ):
            store.add_outcomes([store_records.outcome(predictions=store_records.PREDICTIONS)])
        assert store.result_keys() == set()


def test_task_is_written_atomically(tmp_path: Path) -> None:
    bad = store_records.result("nll", 0.5, facts={"what": object()})
    with Store.open(tmp_path, "write") as store:
        store_records.fill(store)
        with pytest.raises(TypeError):
            store.add_outcomes(
                [
                    store_records.outcome(predictions=store_records.PREDICTIONS),
                    store_records.outcome(bad),
                ]
            )
        assert store.result_keys() == set()
        assert store.prediction_references() == {}


def test_full_disk_raises_and_keeps_stored_results(tmp_path: Path) -> None:
    with Store.open(tmp_path, "write") as store:
        store_records.fill(store, store_records.outcome())
        pages = store._database.execute("PRAGMA page_count").fetchone()[0]
        store._database.execute(f"PRAGMA max_page_count = {pages}")
        many = [store_records.result("ac", 0.5, settings="x" * 5000 + str(j)) for j in range(9)]
        with pytest.raises(InputError, match=r"disk is full\. Free .* stored results are kept"):
            store.add_outcomes([store_records.outcome(*many)])
        assert len(store.result_keys()) == 2
        store._database.execute("PRAGMA max_page_count = 100000")
        store.add_outcomes([store_records.outcome(*many)])
        assert len(store.result_keys()) == 11


def test_folder_without_store_raises(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"There is no store in .* Run the study first"):
        Store.open(tmp_path)
    sqlite3.connect(tmp_path / STORE_FILE).close()  # killed before its tables were created
    with pytest.raises(InputError, match="There is no store in"):
        Store.open(tmp_path)
    Store.open(tmp_path, "write").close()
    Store.open(tmp_path).close()


@pytest.mark.parametrize("mode", ["read", "write"])
@pytest.mark.parametrize("content", [b"not a database, but long enough to be one" * 99, b"SQLite"])
def test_non_database_files_raise_and_stay_unchanged(
    mode: Any, content: bytes, tmp_path: Path
) -> None:
    (tmp_path / STORE_FILE).write_bytes(content)
    with pytest.raises(InputError, match=r"not a database\. It is corrupt or not a store"):
        Store.open(tmp_path, mode)
    assert (tmp_path / STORE_FILE).read_bytes() == content


@pytest.mark.parametrize("mode", ["read", "write"])
@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ("CREATE TABLE birds (name TEXT)", "is a database of another program"),
        ("CREATE TABLE meta (key TEXT, value TEXT)", "is a database of another program"),
        ("CREATE TABLE meta (name TEXT)", "no such column.*It is corrupt or not a store"),
    ],
)
def test_other_databases_raise_and_stay_unchanged(
    mode: Any, tables: str, message: str, tmp_path: Path
) -> None:
    with sqlite3.connect(tmp_path / STORE_FILE) as database:
        database.execute(tables)
    database.close()
    before = (tmp_path / STORE_FILE).read_bytes()
    with pytest.raises(InputError, match=message):
        Store.open(tmp_path, mode)
    assert (tmp_path / STORE_FILE).read_bytes() == before


def test_store_of_another_format_raises(tmp_path: Path) -> None:
    with Store.open(tmp_path, "write") as store, store._database:
        store._database.execute("UPDATE meta SET value = '99'")
    with pytest.raises(InputError, match="has format 99; expected 1"):
        Store.open(tmp_path)


def test_corrupt_store_raises(tmp_path: Path) -> None:
    with Store.open(tmp_path, "write") as store:
        store_records.fill(
            store,
            *(
                store_records.outcome(store_records.result("ac", 0.5, settings=f"{j}" * 99))
                for j in range(99)
            ),
        )
    content = bytearray((tmp_path / STORE_FILE).read_bytes())
    content[8192:] = b"\xff" * (len(content) - 8192)
    (tmp_path / STORE_FILE).write_bytes(content)
    with pytest.raises(InputError, match="It is corrupt or not a store"):
        Store.open(tmp_path).to_table()
