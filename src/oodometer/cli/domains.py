"""The list of domain groups, and what of them is on this machine."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from oodometer.cli._options import AsJson, console, show_json
from oodometer.parallel.pickling import VARIABLE
from oodometer.report import terminal

if TYPE_CHECKING:
    from oodometer.studies.domains.group import Group


def domains(
    group: Annotated[
        str | None,
        typer.Option(
            help="The domains of this group: its name, or a TOML file of your own.",
            autocompletion=lambda: _names(),
        ),
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help=f"Where files are looked for; else ${VARIABLE}.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List domain groups, what of them is found on this machine, and which file is missing.

    Example: oodometer domains --group pacs --data ~/data
    """
    found = _every(data) if group is None else (_opened(group, data),)
    if as_json:
        show_json([_described(one) for one in found])
    elif group is None:
        _show_all(found, data)
    else:
        _show_one(found[0])


def _names() -> list[str]:
    from oodometer.studies.domains import group as groups

    return list(groups.names())


def _every(data: Path | None) -> tuple[Group, ...]:
    from oodometer.studies.domains import group as groups
    from oodometer.studies.domains.hypersphere_group import hypersphere

    return (*groups.every(root=data), hypersphere())


def _opened(name: str, data: Path | None) -> Group:
    from oodometer.studies.domains import group as groups
    from oodometer.studies.training.spec import group_of

    if name.lower().endswith(".toml"):
        return groups.opened(name, root=data)
    return group_of(name, Path(), data)


def _described(group: Group) -> dict[str, Any]:
    return {
        "name": group.name,
        "kind": group.kind,
        "about": group.about,
        "classes": list(group.classes),
        "root": None if group.root is None else str(group.root),
        "domains": {name: {"missing": group.missing(name)} for name in group.domains},
    }


def _show_all(found: tuple[Group, ...], data: Path | None) -> None:
    rows = [
        (one.name, one.kind, f"{len(one.found)} of {len(one.domains)}", ", ".join(one.domains), one.about)
        for one in found
    ]  # fmt: skip
    place = data or os.environ.get(VARIABLE)
    title = f"Domain groups, and how many of their domains are in {place}" if place else (
        f"Domain groups; set {VARIABLE}, or say --data, to look for their files"
    )  # fmt: skip
    console().print(terminal.table(title, ("group", "kind", "found", "domains", "about"), rows))
    console().print()
    last = (
        "Of images, every group has a corrupted one (pacs-c). Files that are missing: --group NAME."
    )
    console().print(Text(last))


def _show_one(group: Group) -> None:
    classes = f"{len(group.classes)} classes" if group.classes else "classes as the folders say"
    title = f"{group.name}: {group.about or group.kind}, {classes}"
    prefix = f"{group.name}/"
    rows = []
    for name in group.domains:
        why = group.missing(name)
        rows.append((name, "found" if why is None else why.removeprefix(f"{prefix}{name}: ")))
    console().print(terminal.table(title, ("domain", "on this machine"), rows))
