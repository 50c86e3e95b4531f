"""HTML reports of commands: check the path, record versions, file hashes and seed, write it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from oodometer.cli._runtime import command_line, print_note
from oodometer.core.errors import InputError

if TYPE_CHECKING:
    from oodometer.neighborhood.results import InvarianceResult
    from oodometer.studies.analysis.evaluation_table import EvaluationTable
    from oodometer.studies.analysis.factors import Rotation

# Maximum length of the shown settings; the settings of a fitted transform can be long.
MAX_SETTINGS_CHARS = 500


def check_report_path(html: Path | None) -> None:
    """Raise if the report could not be written or would replace a file that is not a report."""
    if html is None:
        return
    from oodometer import report

    report.check_available()
    report.check_writable(html)
    if html.exists() and not _is_report(html):
        raise InputError(
            f"{html} exists and is not an HTML report. Choose another name, such as "
            f"{html.with_suffix('.html').name}, or remove the file first."
        )


def _is_report(path: Path) -> bool:
    """Return whether a file is empty or starts like an HTML report."""
    with path.open("rb") as stream:
        start = stream.read(64).lstrip().lower()
    return not start or start.startswith(b"<!doctype html")


def write_report_page(page: str, path: Path) -> None:
    """Write a report and print its path."""
    from oodometer import report

    report.write_page(page, path)
    print_note(f"Report written to {path}")


def provenance(files: Iterable[Path], *, seed: int | None = None) -> dict[str, str]:
    """Return the command, versions, seed and file hashes, by the names shown in the report."""
    from oodometer.report.page import versions_text

    facts = {"Command": command_line(), "Versions": versions_text()}
    if seed is not None:
        facts["Seed"] = str(seed)
    for path in files:  # shown with their folders, because two files can have the same name
        facts |= _describe_file(path)
    return facts


def _describe_file(path: Path) -> dict[str, str]:
    """Return the hash of a file; for files that are too large to hash, their number and size."""
    from oodometer.data.batch_reader import find_files, is_read_in_batches

    if not is_read_in_batches(path):
        with path.open("rb") as stream:
            return {f"SHA-256 of {path}": hashlib.file_digest(stream, "sha256").hexdigest()}

    files = find_files(path)
    size = sum(file.stat().st_size for file in files)
    return {f"Files of {path}": f"{len(files):,}, {size / 1e6:,.1f} MB in total"}


def invariance_provenance(
    models: Iterable[str], seed: int, result: InvarianceResult | None
) -> dict[str, str]:
    """Return the provenance of a report on neighborhoods, with model files, transform and data."""
    paths = [Path(model) for model in models]
    facts = provenance([path for path in paths if path.is_file()], seed=seed)
    for folder in paths:
        if folder.is_dir():
            facts[f"SHA-256 of the files in {folder}"] = _folder_sha256(folder)
    if result is None:
        return facts
    settings = result.settings
    if len(settings) > MAX_SETTINGS_CHARS:
        settings = f"{settings[:MAX_SETTINGS_CHARS]}…"
    return facts | {"Transform": settings, f"Fingerprint of {result.data}": result.fingerprint}


def _folder_sha256(folder: Path) -> str:
    """Return one hash over all files of a folder, read in the order of their paths."""
    digest = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        with path.open("rb") as stream:
            while block := stream.read(2**20):
                digest.update(block)
    return digest.hexdigest()


def render_study_page(
    table: EvaluationTable,
    path: Path,
    *,
    rotation: Rotation = "equamax",
    title: str | None = None,
    date: str | None = None,
) -> str:
    """Return the HTML report on a table of evaluations that was read from a file or folder."""
    from oodometer.studies.report import study_page

    return study_page(
        table,
        title=title or f"{path.resolve().name}: which measures predict accuracy?",
        date=date,
        reproduce=provenance([path] if path.is_file() else []),
        rotation=rotation,
    )
