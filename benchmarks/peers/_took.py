"""What a work takes, said in one line of JSON: the same for ours and for theirs.

Imports numpy and the standard library only, as the peers' environment has nothing of ours.
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
WARM_ROWS = 500


def arrays_of(path: str) -> dict[str, Any]:
    """The arrays of an .npz file, read into memory."""
    with np.load(path, allow_pickle=False) as file:
        return {name: file[name] for name in file.files}


def peak() -> float:
    """The most memory that this process has held, in MB.

    ru_maxrss would start from what the parent held when it started this process; the high-water
    mark that Linux keeps for a program's own memory does not.
    """
    status = Path("/proc/self/status")
    if status.exists():
        lines = [one for one in status.read_text().splitlines() if one.startswith("VmHWM:")]
        return int(lines[0].split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def told(work: Work, arrays: Arrays, version: str) -> None:
    """Do a work on a few rows, so that all is loaded, then on all of them; print what that took."""
    work({name: array[:WARM_ROWS] for name, array in arrays.items()})
    began, clock = time.process_time(), time.perf_counter()
    value = work(arrays)
    cpu, wall = time.process_time() - began, time.perf_counter() - clock
    value = np.asarray(value, dtype=np.float64).tolist()
    took = {"value": value, "cpu": cpu, "wall": wall, "memory": peak(), "version": version}
    print(json.dumps(took))
