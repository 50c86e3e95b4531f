"""Settings that all tests share."""

import os

# Two workers with two threads each would fight over two cores. It is read when torch is imported.
os.environ.setdefault("OMP_NUM_THREADS", "1")

from hypothesis import settings

# A machine that does other work as well is no reason to fail (speed is measured in benchmarks/),
# and a run that decides whether a change lands tries the same examples every time.
settings.register_profile("oodometer", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("oodometer")
