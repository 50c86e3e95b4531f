"""Runners: every task runs once, whatever happens to the workers."""

from __future__ import annotations

import importlib
import logging
import os
import signal
import socketserver
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oodometer.core.errors import InputError, MissingExtra, OodometerError, UnknownName
from oodometer.parallel import worker_pool
from oodometer.parallel.runners import (
    Runner,
    _check_workers,
    distributed,
    processes,
    serial,
    threads,
)
from tests.support import runner_tasks

ROOT = Path(__file__).parent.parent.parent


def is_alive(process: int) -> bool:
    """Return whether a process is running, not a zombie."""
    try:
        state = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state != "Z"


def becomes_true(holds: Callable[[], bool], seconds: float = 20.0) -> bool:
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


@given(st.lists(st.integers()))
def test_serial_runs_tasks_in_order(tasks: list[int]) -> None:
    assert list(serial(runner_tasks.double, tasks)) == [(task, 2 * task) for task in tasks]


def test_serial_returns_exceptions() -> None:
    ((_, found),) = serial(runner_tasks.fail, ["named"])
    assert isinstance(found, UnknownName)


def test_serial_propagates_keyboard_interrupt() -> None:
    def interrupted(task: int) -> int:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(serial(interrupted, [1]))


@pytest.mark.parametrize("workers", [1, 2])
def test_processes_match_serial(workers: int) -> None:
    tasks = list(range(20))
    found = list(processes(workers)(runner_tasks.double, tasks))
    assert sorted(found) == list(serial(runner_tasks.double, tasks))


@given(st.lists(st.integers(), unique=True), st.integers(1, 4))
def test_threads_match_serial(tasks: list[int], count: int) -> None:
    assert dict(threads(count)(abs, tasks)) == dict(serial(abs, tasks))


def test_threads_return_exceptions() -> None:
    found = dict(threads(2)(int, ["1", "one"]))
    assert found["1"] == 1
    assert isinstance(found["one"], ValueError)


def test_closed_threads_start_no_more_tasks() -> None:
    started: list[int] = []

    def work(task: int) -> None:
        started.append(task)
        time.sleep(0.01)

    going = threads(1)(work, list(range(1000)))
    next(going)
    going.close()
    time.sleep(0.1)
    assert len(started) < 20


def test_no_tasks_need_no_workers() -> None:
    assert list(processes(4)(runner_tasks.double, [])) == []


def test_workers_have_one_thread_and_parent_settings_are_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    monkeypatch.delenv("MKL_NUM_THREADS", raising=False)
    names = ["OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"]
    assert dict(processes(1)(runner_tasks.threads, names)) == dict.fromkeys(names, "1")
    assert os.environ["OMP_NUM_THREADS"] == "7"
    assert "MKL_NUM_THREADS" not in os.environ


def test_processes_return_exceptions_of_all_kinds() -> None:
    tasks = ["plain", "named", "unreadable", "a result that cannot be sent"]
    found = dict(processes(1)(runner_tasks.fail, tasks))
    assert (type(found["plain"]), str(found["plain"])) == (ValueError, "no such luck")
    assert isinstance(found["named"], UnknownName)
    assert str(found["unreadable"]) == "Unreadable: this and that"
    last = found["a result that cannot be sent"]
    assert isinstance(last, OodometerError)
    assert "pickle" in str(last)


def test_task_of_a_dead_worker_is_run_again(tmp_path: Path) -> None:
    tasks = [str(tmp_path / name) for name in "abc"]
    found = dict(processes(2)(runner_tasks.die, tasks))
    assert found == {task: f"{Path(task).name} was done after all" for task in tasks}


def test_task_that_kills_every_worker_fails_alone() -> None:
    found = dict(processes(2)(runner_tasks.die_always, [0, 1, 2]))
    assert (found[1], found[2]) == (1, 2)
    assert str(found[0]).startswith("Its worker died 3 times, last with exit code -9 (")


def test_workers_that_cannot_start_raise_once() -> None:
    with (
        mock.patch("oodometer.parallel.worker_pool._worker_main", new=os.abort),
        closing(processes(1)(runner_tasks.double, list(range(50)))) as outcomes,
        pytest.raises(OodometerError, match=r"Workers die before they receive a task \(exit code"),
    ):
        next(outcomes)


def test_interrupt_ends_the_workers(tmp_path: Path) -> None:
    notes = [tmp_path / "first", tmp_path / "second"]
    found = processes(2)(runner_tasks.write_pid_and_sleep, [str(note) for note in notes])

    def consume() -> None:
        with mock.patch(
            "oodometer.parallel.worker_pool.connection.wait", side_effect=interrupting(notes)
        ):
            next(found)

    with pytest.raises(KeyboardInterrupt):
        consume()
    assert not any(is_alive(int(note.read_text())) for note in notes)


def interrupting(notes: list[Path]) -> Callable[[Any], Any]:
    """Raise KeyboardInterrupt as soon as all workers are busy."""
    from multiprocessing.connection import wait

    def wait_or_interrupt(pipes: Any) -> Any:
        ready = wait(pipes, timeout=0.05)
        if all(note.exists() and note.read_text() for note in notes):
            raise KeyboardInterrupt
        return ready

    return wait_or_interrupt


@pytest.mark.skipif(sys.platform != "linux", reason="looks at processes as Linux shows them")
def test_workers_end_with_the_parent(tmp_path: Path) -> None:
    notes = [tmp_path / "first", tmp_path / "second"]
    command = [sys.executable, "-m", "tests.support.runner_tasks", *map(str, notes)]
    parent = subprocess.Popen(command, cwd=ROOT)
    try:
        assert becomes_true(lambda: all(note.exists() and note.read_text() for note in notes))
        workers = [int(note.read_text()) for note in notes]
        assert all(map(is_alive, workers))
    finally:
        parent.send_signal(signal.SIGKILL)
        parent.wait()
    assert becomes_true(lambda: not any(map(is_alive, workers)))


@pytest.mark.parametrize("workers", [0, -2])
def test_worker_count_below_1_raises(workers: int) -> None:
    with pytest.raises(InputError, match=f"workers must be at least 1; got {workers}"):
        processes(workers)


# A cluster --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    """Yield the address of a scheduler with two silent worker processes."""
    cluster: Any = importlib.import_module("distributed").LocalCluster
    with cluster(
        n_workers=2,
        threads_per_worker=2,
        dashboard_address=":0",
        silence_logs=logging.CRITICAL,
    ) as found:
        yield found.scheduler_address


def test_cluster_matches_serial(cluster: str) -> None:
    tasks = list(range(20))
    found = list(distributed(cluster)(runner_tasks.double, tasks))
    assert sorted(found) == list(serial(runner_tasks.double, tasks))


def test_cluster_returns_exceptions(cluster: str) -> None:
    found = dict(distributed(cluster)(runner_tasks.fail, ["plain", "named"]))
    assert (type(found["plain"]), str(found["plain"])) == (ValueError, "no such luck")
    assert isinstance(found["named"], UnknownName)


def test_task_of_a_killed_dask_worker_is_run_again(cluster: str, tmp_path: Path) -> None:
    tasks = [str(tmp_path / name) for name in "ab"]
    found = dict(distributed(cluster)(runner_tasks.die, tasks))
    assert found == {task: f"{Path(task).name} was done after all" for task in tasks}


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:9", "nonsense", "tcp://127.0.0.1:none"])
def test_missing_scheduler_is_reported(address: str) -> None:
    runner: Runner = distributed(address)
    with pytest.raises(InputError, match="There is no Dask scheduler at") as refused:
        next(runner(runner_tasks.double, [1]))
    assert repr(address) in str(refused.value)
    assert "tcp://host:8786" in str(refused.value)


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n"])
def test_other_server_is_reported(answer: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("oodometer.parallel.runners.CONNECT_TIMEOUT_SECONDS", 1.0)

    class Answering(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(100)
            self.request.sendall(answer)
            self.request.recv(100)

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True

    with Server(("127.0.0.1", 0), Answering) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        runner: Runner = distributed(f"tcp://127.0.0.1:{server.server_address[1]}")
        with pytest.raises(InputError, match=r"There is no Dask scheduler at .*not a Dask server"):
            next(runner(runner_tasks.double, [1]))
        server.shutdown()


def test_lost_scheduler_is_reported_in_one_line(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("oodometer.parallel.runners.CONNECT_TIMEOUT_SECONDS", 1.0)
    cluster: Any = importlib.import_module("distributed").LocalCluster
    given = {"dashboard_address": ":0", "silence_logs": logging.CRITICAL}
    with cluster(n_workers=1, threads_per_worker=1, **given) as found:
        outcomes = distributed(found.scheduler_address)(runner_tasks.slow, [0.0, 2.0])
        assert next(outcomes) == (0.0, 0.0)
    with pytest.raises(
        OodometerError, match=r"Lost the connection to the Dask scheduler at 'tcp://.*'"
    ):
        list(outcomes)
    assert not [record for record in caplog.records if record.name == "distributed.client"]


def test_address_of_a_worker_is_reported(cluster: str) -> None:
    dask: Any = importlib.import_module("distributed")
    with dask.Client(cluster, set_as_default=False) as client:
        worker = next(iter(client.scheduler_info()["workers"]))
    with pytest.raises(InputError, match="the server there is Worker"):
        next(distributed(worker)(runner_tasks.double, [1]))


def test_scheduler_without_workers_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    client = mock.Mock()
    client.wait_for_workers.side_effect = TimeoutError
    with pytest.raises(InputError, match=r"has no worker.*: dask worker tcp://a:1"):
        _check_workers(client, "tcp://a:1")


@pytest.mark.parametrize("theirs", [None, "0.0.1"])
def test_worker_with_another_version_is_reported(theirs: str | None) -> None:
    client = mock.Mock()
    client.get_versions.return_value = {
        "client": {"packages": {"oodometer": "0.1.0"}},
        "workers": {"tcp://w:1": {"packages": {"oodometer": theirs}}},
    }
    with pytest.raises(
        InputError, match=f"The worker tcp://w:1 has oodometer {theirs}, this process"
    ):
        _check_workers(client, "tcp://a:1")


def test_missing_dask_names_the_extra() -> None:
    with (
        mock.patch.dict(sys.modules, {"distributed": None}),
        pytest.raises(MissingExtra, match=r'pip install "oodometer\[scale\]"'),
    ):
        distributed("tcp://host:8786")


@pytest.mark.skipif(sys.platform == "win32", reason="there Ctrl-C is no signal")
def test_interrupt_is_deferred_until_a_process_has_started() -> None:
    done = threading.Event()
    other = threading.Thread(target=done.wait)  # does not block the signal
    other.start()
    finished = False

    def start() -> None:
        nonlocal finished
        with worker_pool._block_interrupts():
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.05)
            finished = True

    with pytest.raises(KeyboardInterrupt):
        start()
    done.set()
    assert finished
    assert signal.getsignal(signal.SIGINT) is not None
