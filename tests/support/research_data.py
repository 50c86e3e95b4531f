"""Mirrored research data; tests that need it are skipped if it is missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks._results import data_folder


def require_data(name: str) -> Path:
    """Return the path of a data file, or skip the test."""
    folder = data_folder()
    if folder is None or not (folder / name).is_file():
        pytest.skip(f"the research data ({name}) is not on this machine")
    return folder / name
