"""Settings of all tests, and a fixture with a Dask cluster."""

import importlib
import logging
import os
import signal
from collections.abc import Iterator
from typing import Any

# Two workers with two threads each would compete for two cores. Torch reads this when imported.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
from hypothesis import settings

# Where torchvision's compiled operators do not load, timm is importable only after this module was
# imported, in this process and in its children.
OPERATORS_FOLDER = os.path.join(os.path.dirname(__file__), "support", "torchvision_operators")
_PATHS = [OPERATORS_FOLDER, *filter(None, [os.environ.get("PYTHONPATH")])]
os.environ["PYTHONPATH"] = os.pathsep.join(_PATHS)
importlib.import_module("tests.support.torchvision_operators.sitecustomize")

# A shell that starts the tests in the background makes them, and their child processes, ignore
# interrupts, which some tests send.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# No deadline: a busy machine must not fail tests (benchmarks/ measures speed). In CI, examples are
# the same in every run.
settings.register_profile("oodometer", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("oodometer")


@pytest.fixture(scope="session", autouse=True)
def _cache_of_tests(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Keep features that tests cache out of the user's cache folder."""
    os.environ["OODOMETER_CACHE"] = str(tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="module")
def two_workers() -> Iterator[str]:
    """Yield the address of a scheduler with two worker processes that do not log their deaths."""
    cluster: Any = importlib.import_module("distributed").LocalCluster
    options = {"dashboard_address": ":0", "silence_logs": logging.CRITICAL}
    with cluster(n_workers=2, threads_per_worker=1, **options) as local:
        yield local.scheduler_address
