"""The `oodometer cache` command, which shows the size of the feature cache and clears it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from oodometer.cli._options import AsJson, CacheFolder, Quiet
from oodometer.cli._runtime import console, print_json
from oodometer.report import terminal

if TYPE_CHECKING:
    from oodometer.models.feature_cache import SectionSize


def cache(
    cache_dir: CacheFolder = None,
    clear: Annotated[
        bool, typer.Option("--clear", help="Remove all cached features and exported networks.")
    ] = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Show the size of the cached features of pretrained bodies, or remove them.

    Example:
      oodometer cache --clear
    """
    from oodometer.models.feature_cache import FeatureCache

    store = FeatureCache.default()
    if store is None:
        if as_json:
            print_json({"folder": None, "bytes": 0, "cleared": 0, "sections": []})
        else:
            console().print(terminal.text_line("OODOMETER_CACHE is none: nothing is cached."))
        return
    cleared = store.clear() if clear else 0
    sections, n_bytes = store.section_sizes(), store.n_bytes
    if as_json:
        rows = [section._asdict() for section in sections]
        facts = {"folder": str(store.folder), "bytes": n_bytes, "cleared": cleared}
        print_json({**facts, "sections": rows})
        return
    if sections:
        console().print(_table(sections))
    done = f"Removed {_format_size(cleared)}. " if clear else ""
    console().print(
        terminal.text_line(f"{done}The cache in {store.folder} has {_format_size(n_bytes)}.")
    )


def _table(sections: Sequence[SectionSize]) -> object:
    """Return a table with one row per body and transform."""
    totals: dict[tuple[str, str], tuple[int, int]] = {}
    for section in sections:
        key = (section.body, section.transform.partition("{")[0] or "none")
        rows, n_bytes = totals.get(key, (0, 0))
        totals[key] = (rows + section.rows, n_bytes + section.n_bytes)
    cells = [
        (body, transform, f"{rows:,}", _format_size(n_bytes))
        for (body, transform), (rows, n_bytes) in totals.items()
    ]
    heads = ("body", "transform", "rows", "size")
    return terminal.table("Cached features", heads, cells)


def _format_size(n_bytes: int) -> str:
    """Return a number of bytes as text.

    >>> _format_size(1_260_000), _format_size(3_400_000_000)
    ('1.3 MB', '3.4 GB')
    """
    return f"{n_bytes / 1e9:,.1f} GB" if n_bytes >= 1e9 else f"{n_bytes / 1e6:.1f} MB"
