"""What commands share: options, the console, and checks made before the work."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

AsJson = Annotated[bool, typer.Option("--json", help="Machine-readable output.")]
Seed = Annotated[int, typer.Option(help="Of every random choice.")]
Html = Annotated[Path | None, typer.Option(help="Write a report to this file.")]


def console() -> Console:
    """Where tables go."""
    return Console(highlight=False)


def errors() -> Console:
    """Where progress goes."""
    return Console(stderr=True)


def page_can_be_made(html: Path | None) -> None:
    """Refuse what would fail after the work: a missing package, a folder that is not there."""
    if html is not None:
        from oodometer import report

        report.check_available()
        report.check_writable(html)
