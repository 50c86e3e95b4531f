"""Settings that all tests share, and a cluster for those that need one."""

import importlib
import logging
import os
from collections.abc import Iterator
from typing import Any

# Two workers with two threads each would fight over two cores. It is read when torch is imported.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
from hypothesis import settings

# A machine that does other work as well is no reason to fail (speed is measured in benchmarks/),
# and a run that decides whether a change lands tries the same examples every time.
settings.register_profile("oodometer", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("oodometer")


@pytest.fixture(scope="module")
def two_workers() -> Iterator[str]:
    """The address of a scheduler with two worker processes, which are quiet about their deaths."""
    cluster: Any = importlib.import_module("distributed").LocalCluster
    given = {"dashboard_address": ":0", "silence_logs": logging.CRITICAL}
    with cluster(n_workers=2, threads_per_worker=1, **given) as found:
        yield found.scheduler_address
