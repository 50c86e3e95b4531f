"""Where benchmarks put their tables: on the screen and into docs/results/."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from pathlib import Path

import numpy as np

RESULTS = Path(__file__).parent.parent / "docs" / "results"


def data_folder() -> Path | None:
    """The mirrored research data: $OODOMETER_DATA, or beside the project; None where absent."""
    beside = Path(__file__).parent.parent.parent / "shared" / "data"
    folder = Path(os.environ.get("OODOMETER_DATA", beside))
    return folder if folder.is_dir() else None


def machine_facts() -> str:
    return (
        f"Measured with Python {platform.python_version()}, numpy {np.__version__}, "
        f"{os.cpu_count()} cores, {platform.machine()}."
    )


def markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[j]) for row in [head, *rows]) for j in range(len(head))]
    lines = [" | ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)) for row in rows]
    top = " | ".join(cell.ljust(w) for cell, w in zip(head, widths, strict=True))
    return "\n".join(f"| {line} |" for line in [top, " | ".join("-" * w for w in widths), *lines])


def write_results(name: str, text: str) -> None:
    RESULTS.mkdir(parents=True, exist_ok=True)
    title = name.replace("_", " ").capitalize()
    page = (
        f"# {title}\n\nWritten by `benchmarks/{name}.py`; `make bench` makes it anew.\n\n{text}\n"
    )
    (RESULTS / f"{name}.md").write_text(page)
    print(f"{text}\n")
