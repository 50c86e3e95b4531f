"""Time and memory of a computation, printed as one line of JSON.

Imports only numpy and the standard library, because the peers' environment lacks this package.
"""

from __future__ import annotations

import json
import resource
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

Arrays = Mapping[str, Any]
Work = Callable[[Arrays], Any]
WARM_UP_ROWS = 500


def load_arrays(path: str) -> dict[str, Any]:
    """Read the arrays of an .npz file into memory."""
    with np.load(path, allow_pickle=False) as file:
        return {name: file[name] for name in file.files}


def peak_memory_mb() -> float:
    """Return the peak memory of this process in MB.

    `ru_maxrss` includes the memory of the parent at the time of the fork; VmHWM on Linux does not.
    """
    status = Path("/proc/self/status")
    if status.exists():
        lines = [line for line in status.read_text().splitlines() if line.startswith("VmHWM:")]
        return int(lines[0].split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def report_run(work: Work, arrays: Arrays, version: str) -> None:
    """Compute on a few rows as a warm-up, then on all rows; print value, time and memory."""
    work({name: array[:WARM_UP_ROWS] for name, array in arrays.items()})
    cpu_start = time.process_time()
    wall_start = time.perf_counter()
    value = work(arrays)
    result = {
        "value": np.asarray(value, dtype=np.float64).tolist(),
        "cpu": time.process_time() - cpu_start,
        "wall": time.perf_counter() - wall_start,
        "memory": peak_memory_mb(),
        "version": version,
    }
    print(json.dumps(result))
