"""What commands that write a page share: how to reproduce it, and saying where it is."""

from __future__ import annotations

import hashlib
import platform
import shlex
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

import oodometer
from oodometer.cli._options import print_note
from oodometer.cli._streaming_options import describe_large_files
from oodometer.core.errors import UnknownName

if TYPE_CHECKING:
    from oodometer.core.protocols import Dataset, Transform
    from oodometer.neighborhood.results import InvarianceResult
    from oodometer.neighborhood.sampling import NeighborhoodSampler
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


ExamplesModelName = Annotated[
    str | None,
    typer.Option(
        metavar="MODEL", help="Model whose examples the report shows. [default: the first]"
    ),
]
# Settings of a transform that has learned can be long.
MAX_SETTINGS_CHARS = 500


def validate_model_name(name: str | None, models: Mapping[str, Any]) -> str | None:
    """The name that was given; one that no model has is refused."""
    if name is not None and name not in models:
        raise UnknownName("model", name, models)
    return name


def recreate_sampler(
    dataset: Dataset, transform: Transform, seed: int, reference: Dataset | None = None
) -> NeighborhoodSampler:
    """What draws the same neighborhoods once more."""
    from oodometer.neighborhood import prepare_transform
    from oodometer.neighborhood.sampling import NeighborhoodSampler

    known = dataset if reference is None else reference
    return NeighborhoodSampler(dataset, prepare_transform(transform, dataset, known, seed), seed)


def invariance_provenance(
    models: Iterable[str], seed: int, result: InvarianceResult | None
) -> dict[str, str]:
    """What is needed to get the same numbers again."""
    places = [Path(one) for one in models]
    facts = provenance([one for one in places if one.is_file()], seed=seed)
    facts |= {
        f"SHA-256 of the files in {one}": _folder_sha256(one) for one in places if one.is_dir()
    }
    if result is None:
        return facts
    settings = result.settings
    cut = settings if len(settings) <= MAX_SETTINGS_CHARS else f"{settings[:MAX_SETTINGS_CHARS]}…"
    return facts | {"Transform": cut, f"Fingerprint of {result.data}": result.fingerprint}


def _folder_sha256(folder: Path) -> str:
    """Of all files of a folder, one after another in the order of their names."""
    whole = hashlib.sha256()
    for path in sorted(one for one in folder.rglob("*") if one.is_file()):
        with path.open("rb") as stream:
            while block := stream.read(2**20):
                whole.update(block)
    return whole.hexdigest()
