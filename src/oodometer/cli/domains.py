"""The `oodometer domains` command, which lists domain groups and their missing files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from oodometer.cli._options import AsJson, DataFolder, Quiet
from oodometer.cli._runtime import console, print_json
from oodometer.parallel.pickling import DATA_FOLDER_VARIABLE
from oodometer.report import terminal

# Maximum number of domains that have a row each; above it, domains of equal status share a row.
MAX_DOMAIN_ROWS = 12
# Maximum number of names that are listed in full.
MAX_LISTED_NAMES = 20

if TYPE_CHECKING:
    from oodometer.studies.domains.group import DomainGroup


def _group_names() -> list[str]:
    """Return the names of domain groups for shell completion."""
    from oodometer.studies.domains import group as groups

    return list(groups.available_names())


def domains(
    group: Annotated[
        str | None,
        typer.Option(
            help="List the domains of this group, given by its name or by your own TOML file.",
            autocompletion=_group_names,
        ),
    ] = None,
    data_dir: DataFolder = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """List domain groups, and show which domains are on this machine and which files are missing.

    Files are expected in the data folder under the names of their publishers. With --group, every
    expected file is listed with its path. For example:

    \b
      pacs, vlcs           PACS/photo/, VLCS/LabelMe/
      imagenet             imagenet/train/, imagenet/val/, imagenet-r/
      imagenet-c           imagenet-c/fog/3/
      imagenet-200         the folders of imagenet and imagenet-c
      imagenet-a           imagenet/train/, imagenet/val/, imagenet-a/
      breeds-living-17     the folders of imagenet and imagenet-c
      objectnet            objectnet-1.0/images/, objectnet-1.0/mappings/
      imagenet-vid-robust  imagenet-vid-robust/metadata/labels.json
      ytbb-robust          ytbb-robust/ytbb_videos/, ytbb-robust/metadata/
      camelyon17           camelyon17_v1.0/metadata.csv
      fmow                 fmow_v1.1/rgb_metadata.csv
      iwildcam             iwildcam_v2.0/metadata.csv
      rxrx1                rxrx1_v1.0/metadata.csv
      amazon-wilds         amazon_v2.1/reviews.csv
      civilcomments        civilcomments_v1.0/all_data_with_identities.csv

    Example:
      oodometer domains --group pacs --data-dir ~/data
    """
    groups = _available_groups(data_dir) if group is None else (open_group(group, data_dir),)
    if as_json:
        print_json([_describe_group(one) for one in groups])
    elif group is None:
        _show_groups(groups, data_dir)
    else:
        _show_group(groups[0])


def _available_groups(data: Path | None) -> tuple[DomainGroup, ...]:
    from oodometer.studies.domains import group as groups
    from oodometer.studies.domains.hypersphere_group import hypersphere

    return (*groups.available(root=data), hypersphere())


def open_group(name: str, data: Path | None) -> DomainGroup:
    """Return the group with a name, or the group that a TOML file declares."""
    from oodometer.studies.domains import group as groups
    from oodometer.studies.training.spec import resolve_group

    if name.lower().endswith(".toml"):
        return groups.open_group(name, root=data)
    return resolve_group(name, Path(), data)


def _describe_group(group: DomainGroup) -> dict[str, Any]:
    return {
        "name": group.name,
        "kind": group.kind,
        "about": group.about,
        "classes": list(group.classes),
        "root": None if group.root is None else str(group.root),
        "domains": {name: {"missing": group.missing_reason(name)} for name in group.domains},
        "files": [
            {"path": path, "found": found, "domains": list(domains)}
            for path, found, domains in group.expected_files()
        ],
    }


def _show_groups(groups: tuple[DomainGroup, ...], data: Path | None) -> None:
    rows = []
    for group in groups:
        available = f"{len(group.available_domains)} of {len(group.domains)}"
        rows.append((group.name, group.kind, available, _shorten(group.domains), group.about))
    folder = data or os.environ.get(DATA_FOLDER_VARIABLE)
    title = f"Domain groups, and how many of their domains are in {folder}"
    if not folder:
        title = f"Domain groups; set {DATA_FOLDER_VARIABLE} or give --data-dir to find their files"
    heads = ("group", "kind", "available", "domains", "description")
    console().print(terminal.table(title, heads, rows))
    console().print()
    console().print(
        Text(
            "Every image group has a corrupted version, such as pacs-c. "
            "List the missing files with --group NAME."
        )
    )


def _show_group(group: DomainGroup) -> None:
    classes = f"{len(group.classes)} classes" if group.classes else "classes named by folders"
    rows = [(name, _status(group, name)) for name in group.domains]
    if len(rows) > MAX_DOMAIN_ROWS:
        rows = _merge_rows(rows)
    title = f"{group.name}: {group.about or group.kind}, {classes}"
    console().print(terminal.table(title, ("domain", "on this machine"), rows))
    files = group.expected_files()
    if files:
        folder = group.root or f"the folder {DATA_FOLDER_VARIABLE}, which is not set"
        lines = [
            (path, "found" if found else "missing", _shorten(domains))
            for path, found, domains in files
        ]
        console().print()
        heads = ("file or folder", "status", "domains that need it")
        console().print(terminal.table(f"Files expected in {folder}", heads, lines))


def _status(group: DomainGroup, name: str) -> str:
    reason = group.missing_reason(name)
    return "available" if reason is None else reason.removeprefix(f"{group.name}/{name}: ")


def _merge_rows(rows: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Merge the rows of domains with the same status."""
    names_of: dict[str, list[str]] = {}
    for name, status in rows:
        names_of.setdefault(status, []).append(name)
    return [(_shorten(names), status) for status, names in names_of.items()]


def _shorten(names: Sequence[str]) -> str:
    """Return a list of names as text; of a long list, the first names.

    >>> _shorten([str(number) for number in range(30)])
    '0, 1, 2, 3, 4, 5, … and 24 more'
    """
    if len(names) <= MAX_LISTED_NAMES:
        return ", ".join(names)
    return f"{', '.join(names[:6])}, … and {len(names) - 6} more"
