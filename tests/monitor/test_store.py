"""Store of a monitor: killed processes, two writers, formats of other versions."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from oodometer import InputError, Monitor, Predictions
from oodometer.monitor.store import STORE_FILE
from tests.monitor.conftest import draw

ADD_FOREVER = """
import sys
from oodometer import Monitor
from tests.monitor.conftest import draw
monitor = Monitor.open(sys.argv[1])
for seed in range(int(sys.argv[2]), 10_000):
    batch = monitor.add(draw(60, seed))
    print(seed, batch.number, flush=True)
"""


@pytest.mark.skipif(os.name != "posix", reason="SIGKILL")
def test_killed_writers_lose_nothing_and_count_nothing_twice(
    source: Predictions, tmp_path: Path
) -> None:
    folder = tmp_path / "monitor"
    Monitor.create(folder, source).close()
    reported = 0
    for delay in (0.0, 0.013, 0.031):
        start = max(reported - 1, 0)  # begin with a batch that may have been added
        process = subprocess.Popen(
            [sys.executable, "-c", ADD_FOREVER, str(folder), str(start)],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(4)]
        time.sleep(delay)
        process.send_signal(signal.SIGKILL)
        lines += process.stdout.readlines()
        process.wait()
        process.stdout.close()
        complete = [line for line in lines if line.endswith("\n")]
        reported = int(complete[-1].split()[0]) + 1
        assert _hashes(folder) >= reported
    # Adding all batches again gives the state of a monitor that was never killed.
    again, whole = Monitor.open(folder), Monitor.create(tmp_path / "whole", source)
    for seed in range(reported + 3):
        again.add(draw(60, seed))
        whole.add(draw(60, seed))
    assert again._store.streams() == whole._store.streams()
    assert [each.number for each in again.batches()] == [each.number for each in whole.batches()]


def _hashes(folder: Path) -> int:
    connection = sqlite3.connect(folder / STORE_FILE)
    count = connection.execute("SELECT count(DISTINCT hash) FROM batches").fetchone()[0]
    connection.close()
    return int(count)


def test_failed_transaction_changes_nothing(
    monitor: Monitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monitor.add(draw(100, 1))
    before = monitor._store.streams()
    monkeypatch.setattr(
        "oodometer.monitor._monitor.write_bet",
        lambda *values: (_ for _ in ()).throw(OSError("full")),
    )
    with pytest.raises(OSError, match="full"):
        monitor.add(draw(100, 2))
    assert monitor.status().n_batches == 1
    assert monitor._store.streams() == before


def test_second_writer_waits(monitor: Monitor) -> None:
    other = Monitor.open(monitor.folder, timeout=20)
    results: list[bool] = []

    def write() -> None:
        inside = Monitor.open(monitor.folder, timeout=20)
        results.append(inside.add(draw(100, 1)).is_new)

    with other._store.transaction():
        thread = threading.Thread(target=write)
        thread.start()
        time.sleep(0.2)
        assert results == []
    thread.join()
    assert results == [True]
    assert monitor.status().n_batches == 1


def test_second_writer_reports_after_the_timeout(monitor: Monitor) -> None:
    other = Monitor.open(monitor.folder, timeout=0.1)
    with (
        monitor._store.transaction(),
        pytest.raises(InputError, match=r"Another process writes .* within 0\.1 seconds"),
    ):
        other.add(draw(100, 1))
    assert other.add(draw(100, 1)).is_new


def test_two_writers_of_the_same_batch_count_it_once(monitor: Monitor) -> None:
    results: list[bool] = []

    def write() -> None:
        results.append(Monitor.open(monitor.folder).add(draw(100, 1)).is_new)

    threads = [threading.Thread(target=write) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == [False, False, False, True]


def test_existing_monitor_is_not_overwritten(monitor: Monitor, source: Predictions) -> None:
    with pytest.raises(InputError, match="already a monitor"):
        Monitor.create(monitor.folder, source)


def test_same_monitor_is_opened_again(monitor: Monitor, source: Predictions) -> None:
    monitor.add(draw(100, 1))
    again = Monitor.create(monitor.folder, source, exist_ok=True)
    assert again.status().n_batches == 1
    with pytest.raises(InputError, match="another source or with other settings"):
        Monitor.create(monitor.folder, source, exist_ok=True, alarm_margin=0.02)
    with pytest.raises(InputError, match="another source or with other settings"):
        Monitor.create(monitor.folder, draw(5000, 2, labelled=True), exist_ok=True)


def test_missing_monitor_names_the_command(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="oodometer monitor init"):
        Monitor.open(tmp_path)
    (tmp_path / STORE_FILE).touch()  # killed before the tables were created
    with pytest.raises(InputError, match="oodometer monitor init"):
        Monitor.open(tmp_path)


def test_other_formats_are_rejected(monitor: Monitor, tmp_path: Path) -> None:
    with monitor._store.transaction() as connection:
        connection.execute("UPDATE meta SET value = '99' WHERE key = 'oodometer monitor'")
    with pytest.raises(InputError, match="format 99"):
        Monitor.open(monitor.folder)
    (tmp_path / STORE_FILE).write_text("not a database" * 100)
    with pytest.raises(InputError, match="Cannot use"):
        Monitor.open(tmp_path)


def test_size_of_a_batch_is_bounded(monitor: Monitor) -> None:
    path = monitor.folder / STORE_FILE
    monitor.add(draw(10_000, 1))
    before = path.stat().st_size
    for seed in range(2, 12):
        monitor.add(draw(10_000, seed))
    # 10,000 batches must stay below 100 MB.
    assert (path.stat().st_size - before) / 10 < 10_000
