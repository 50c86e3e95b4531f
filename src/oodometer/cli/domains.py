"""The `oodometer domains` command, which lists domain groups and their missing files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from oodometer.cli._options import AsJson, DataFolder, Quiet
from oodometer.cli._runtime import console, print_json
from oodometer.parallel.pickling import DATA_FOLDER_VARIABLE
from oodometer.report import terminal

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

    Example:
      oodometer domains --group pacs --data-dir ~/data
    """
    groups = _available_groups(data_dir) if group is None else (_open_group(group, data_dir),)
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


def _open_group(name: str, data: Path | None) -> DomainGroup:
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
    }


def _show_groups(groups: tuple[DomainGroup, ...], data: Path | None) -> None:
    rows = []
    for group in groups:
        available = f"{len(group.available_domains)} of {len(group.domains)}"
        rows.append((group.name, group.kind, available, ", ".join(group.domains), group.about))
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
    rows = []
    for name in group.domains:
        reason = group.missing_reason(name)
        status = "available" if reason is None else reason.removeprefix(f"{group.name}/{name}: ")
        rows.append((name, status))
    title = f"{group.name}: {group.about or group.kind}, {classes}"
    console().print(terminal.table(title, ("domain", "on this machine"), rows))
