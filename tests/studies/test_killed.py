"""Killed studies and workers: nothing is computed twice, half-written or lost."""

from __future__ import annotations

import importlib
import logging
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from oodometer.parallel.runners import distributed
from oodometer.studies import run
from oodometer.studies.store import Store
from oodometer.studies.store.sqlite import STORE_FILE
from tests.support import study_tasks
from tests.support.study_tasks import export_rows, study

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    folder = tmp_path_factory.mktemp("undisturbed")
    assert run(study(), folder).remaining == 0
    return export_rows(folder)


def lines(log: Path) -> list[str]:
    return log.read_text().splitlines() if log.exists() else []


def committed(folder: Path) -> set[str]:
    """Return the content of the store in the format of the log."""
    if not (folder / STORE_FILE).exists():
        return set()
    with Store.open(folder) as store:
        said = {"\t".join(("said", *pair)) for pair in store.prediction_references()}
        return said | {"\t".join(key) for key in store.result_keys()}


def started(folder: Path, log: Path, workers: int) -> subprocess.Popen[bytes]:
    """Start a run in another process and wait until it has begun."""
    before = len(lines(log))
    command = [sys.executable, "-m", "tests.support.study_tasks", str(folder), str(workers)]
    process = subprocess.Popen(command, cwd=ROOT, env={**os.environ, study_tasks.LOG: str(log)})
    while len(lines(log)) == before and process.poll() is None:
        time.sleep(0.005)
    return process


@pytest.mark.parametrize("workers", [0, 2])
def test_run_killed_at_random_times_resumes_without_repeating(
    workers: int, undisturbed: bytes, tmp_path: Path
) -> None:
    folder, log, moments = tmp_path / "study", tmp_path / "log", random.Random(workers)
    kills, stored = 2 if workers else 6, set[str]()
    for _ in range(kills):
        began = len(lines(log))
        process = started(folder, log, workers)
        time.sleep(moments.uniform(0, 0.3))
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL, "it was done before it was killed"
        assert not stored & set(lines(log)[began:])
        now = committed(folder)
        assert stored <= now <= set(lines(log))
        stored = now
    began = len(lines(log))
    assert started(folder, log, workers).wait() == 0
    assert not stored & set(lines(log)[began:])
    assert committed(folder) == set(lines(log))
    assert export_rows(folder) == undisturbed
    with Store.open(folder, "write") as store:
        named = {one.array for one in store.prediction_references().values()}
        assert named <= store.array_store.names()


def test_cluster_gives_the_same_results(undisturbed: bytes, tmp_path: Path) -> None:
    cluster: Any = importlib.import_module("distributed").LocalCluster
    with cluster(
        n_workers=2,
        threads_per_worker=1,
        dashboard_address=":0",
        silence_logs=logging.CRITICAL,
    ) as found:
        ran = run(study(), tmp_path, runner=distributed(found.scheduler_address))
    assert (ran.done, ran.failed, ran.remaining) == (12, {}, 0)
    assert export_rows(tmp_path) == undisturbed
