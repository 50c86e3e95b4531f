"""Killed pools and workers: nothing is trained twice, half-written or lost."""

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

from oodometer.parallel.runners import Runner, distributed, processes
from oodometer.studies.training import checkpoint
from oodometer.studies.training._run import run
from oodometer.studies.training.spec import PoolSpec
from tests.support import training_tasks

ROOT = Path(__file__).parent.parent.parent.parent
SPEC = PoolSpec.open(training_tasks.SPEC)
IDS = [recipe.id for recipe in SPEC.recipes()]


def lines(log: Path) -> list[str]:
    return log.read_text().split() if log.exists() else []


def started(pool: Path, log: Path, workers: int) -> subprocess.Popen[bytes]:
    """Start a run in another process and wait until it trains."""
    before = len(lines(log))
    command = [sys.executable, "-m", "tests.support.training_tasks", str(pool), str(workers)]
    process = subprocess.Popen(command, cwd=ROOT, env={**os.environ, training_tasks.LOG: str(log)})
    while len(lines(log)) == before and process.poll() is None:
        time.sleep(0.005)
    return process


@pytest.mark.parametrize("workers", [0, 2])
def test_run_killed_at_random_times_resumes_without_repeating(workers: int, tmp_path: Path) -> None:
    pool, log, moments = tmp_path / "pool", tmp_path / "log", random.Random(workers)
    kills, saved = 2 if workers else 10, set[str]()
    for _ in range(kills):
        began = len(lines(log))
        process = started(pool, log, workers)
        time.sleep(moments.uniform(0, 0.3))
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL, "it was done before it was killed"
        assert not saved & set(lines(log)[began:])
        saved = set(checkpoint.finished_models(pool))
        assert saved <= set(lines(log))
    began = len(lines(log))
    assert started(pool, log, workers).wait() == 0
    assert not saved & set(lines(log)[began:])
    training_tasks.assert_pool_complete(pool, SPEC)
    assert set(lines(log)) == set(IDS)
    # Only models in training or being saved at the kill are trained again.
    assert len(lines(log)) <= len(IDS) + kills * 2 * max(1, workers)


def check_deaths(runner: Runner, pool: Path, log: Path) -> None:
    """Four models kill their first worker and are trained by another."""
    fatal = [one.id for one in SPEC.recipes() if one.epochs == 7 and one.batch == 8]
    ran = run(SPEC, pool, runner=runner, work=training_tasks.kill_worker_once)
    assert (len(fatal), ran.failed, ran.remaining) == (4, {}, 0)
    training_tasks.assert_pool_complete(pool, SPEC)
    assert all(lines(log).count(name) >= 2 for name in fatal)


def test_killed_workers_lose_no_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "log").touch()
    monkeypatch.setenv(training_tasks.LOG, str(tmp_path / "log"))
    check_deaths(processes(2), tmp_path / "pool", tmp_path / "log")


def test_killed_cluster_workers_lose_no_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "log").touch()
    monkeypatch.setenv(training_tasks.LOG, str(tmp_path / "log"))
    cluster: Any = importlib.import_module("distributed").LocalCluster
    with cluster(
        n_workers=2,
        threads_per_worker=1,
        dashboard_address=":0",
        silence_logs=logging.CRITICAL,
    ) as found:
        runner = distributed(found.scheduler_address)
        check_deaths(runner, tmp_path / "pool", tmp_path / "log")
