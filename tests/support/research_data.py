"""Where the mirrored research data is; tests that need it are skipped where it is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks._results import data_folder


def needs(name: str) -> Path:
    """The path of a data file, or a skipped test."""
    folder = data_folder()
    if folder is None or not (folder / name).is_file():
        pytest.skip(f"the research data ({name}) is not on this machine")
    return folder / name
