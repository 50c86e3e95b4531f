"""The list of domain groups, and what of them is on this machine."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from oodometer.cli._options import AsJson, DataFolder, console, print_json
from oodometer.parallel.pickling import DATA_FOLDER_VARIABLE
from oodometer.report import terminal

if TYPE_CHECKING:
    from oodometer.studies.domains.group import DomainGroup


def domains(
    group: Annotated[
        str | None,
        typer.Option(
            help="The domains of this group: its name, or a TOML file of your own.",
            autocompletion=lambda: _group_names(),
        ),
    ] = None,
    data_dir: DataFolder = None,
    as_json: AsJson = False,
) -> None:
    """List domain groups, what of them is found on this machine, and which file is missing.

    Example: oodometer domains --group pacs --data-dir ~/data
    """
    found = _available_groups(data_dir) if group is None else (_open_group(group, data_dir),)
    if as_json:
        print_json([_describe_group(one) for one in found])
    elif group is None:
        _show_groups(found, data_dir)
    else:
        _show_group(found[0])


def _group_names() -> list[str]:
    from oodometer.studies.domains import group as groups

    return list(groups.available_names())


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
    rows = [
        (one.name, one.kind, f"{len(one.available_domains)} of {len(one.domains)}", ", ".join(one.domains), one.about)
        for one in groups
    ]  # fmt: skip
    place = data or os.environ.get(DATA_FOLDER_VARIABLE)
    title = f"Domain groups, and how many of their domains are in {place}" if place else (
        f"Domain groups; set {DATA_FOLDER_VARIABLE}, or give --data-dir, to look for their files"
    )  # fmt: skip
    console().print(terminal.table(title, ("group", "kind", "found", "domains", "about"), rows))
    console().print()
    last = (
        "Of images, every group has a corrupted one (pacs-c). Files that are missing: --group NAME."
    )
    console().print(Text(last))


def _show_group(group: DomainGroup) -> None:
    classes = f"{len(group.classes)} classes" if group.classes else "classes as the folders say"
    title = f"{group.name}: {group.about or group.kind}, {classes}"
    prefix = f"{group.name}/"
    rows = []
    for name in group.domains:
        why = group.missing_reason(name)
        rows.append((name, "found" if why is None else why.removeprefix(f"{prefix}{name}: ")))
    console().print(terminal.table(title, ("domain", "on this machine"), rows))
