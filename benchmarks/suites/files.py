"""Atomic writes of the work folder: write to a temporary file, then rename."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from oodometer.core.array_types import Array


def write_atomically(path: Path, write: Callable[[Path], Any]) -> None:
    """Create a file by a function that writes to a temporary path in the same folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{os.getpid()}.{path.name}")
    try:
        write(temporary)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def cached_array(path: Path, compute: Callable[[], Array]) -> Array:
    """Return the array in a .npy file; compute and write it if the file does not exist."""
    if not path.exists():
        write_atomically(path, lambda temporary: np.save(temporary, compute()))
    array: Array = np.load(path, allow_pickle=False)
    return array
