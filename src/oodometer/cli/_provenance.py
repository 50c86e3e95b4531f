"""What commands that write a page share: how to reproduce it, and saying where it is."""

from __future__ import annotations

import hashlib
import platform
import shlex
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

import oodometer
from oodometer.cli._options import print_note
from oodometer.cli._streaming_options import describe_large_files

if TYPE_CHECKING:
    from oodometer.studies.analysis.evaluation_table import EvaluationTable


def provenance(files: Iterable[Path], *, seed: int | None = None) -> dict[str, str]:
    """The command, versions, the seed and a fingerprint a file, under the names they are shown with."""
    versions = {"oodometer": oodometer.__version__, "Python": platform.python_version()}
    versions["numpy"] = np.__version__
    facts = {
        "Command": shlex.join(["oodometer", *sys.argv[1:]]),
        "Versions": ", ".join(f"{name} {version}" for name, version in versions.items()),
    }
    if seed is not None:
        facts["Seed"] = str(seed)
    # By the whole path, for files of two folders may have one name.
    for path in files:
        facts |= describe_large_files(path) or {f"SHA-256 of {path}": _file_sha256(path)}
    return facts


def write_report_page(page: str, path: Path) -> None:
    """Write a page, and say so."""
    from oodometer import report

    report.write_page(page, path)
    print_note(f"Report written to {path}")


def render_study_page(table: EvaluationTable, path: Path) -> str:
    """The report of a table of evaluations that came from a file or a folder."""
    from oodometer.studies.report import study_page

    title = f"{path.resolve().name}: which measure tells accuracy?"
    return study_page(table, title=title, reproduce=provenance([path] if path.is_file() else []))


def _file_sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
