"""Pages of benchmark results: printed and written to docs/results/."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

RESULTS = Path(__file__).parent.parent / "docs" / "results"


def data_folder() -> Path | None:
    """Return the folder of the research data, $OODOMETER_DATA by default; None if missing."""
    default = Path(__file__).parent.parent.parent / "shared" / "data"
    folder = Path(os.environ.get("OODOMETER_DATA", default))
    return folder if folder.is_dir() else None


@dataclass(frozen=True)
class Bound:
    """Measured value with its bound: a lower bound, or an upper one if `least` is False."""

    what: str
    value: float
    bound: float
    least: bool = True

    @property
    def kept(self) -> bool:
        return self.value >= self.bound if self.least else self.value <= self.bound

    @property
    def row(self) -> tuple[str, str, str, str]:
        sign = "≥" if self.least else "≤"
        return (
            self.what,
            f"{self.value:.3g}",
            f"{sign} {self.bound:g}",
            "yes" if self.kept else "NO",
        )


@dataclass(frozen=True)
class Section:
    """Section of a page: title, bounds, and text."""

    title: str
    bounds: Sequence[Bound]
    text: str

    @property
    def page(self) -> str:
        held = [f"{bounds_table(self.bounds)}\n\n"] if self.bounds else []
        return "".join([f"## {self.title}\n\n", *held, self.text])


def bounds_table(bounds: Sequence[Bound]) -> str:
    head = ("quantity", "measured", "bound", "kept")
    return markdown_table(head, [bound.row for bound in bounds])


def machine_facts() -> str:
    return (
        f"Measured with Python {platform.python_version()}, numpy {np.__version__}, "
        f"{os.cpu_count()} cores, {platform.machine()}."
    )


def all_machine_facts() -> str:
    """Return the machine facts with processor, memory and package versions."""
    from importlib.metadata import version

    about = Path("/proc/cpuinfo")
    lines = about.read_text().splitlines() if about.exists() else []
    named = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    parts = ", ".join(f"{name} {version(name)}" for name in ("pyarrow", "scipy", "scikit-learn"))
    processor = f", {named[0]}" if named else ""
    return f"{machine_facts()[:-1]}{processor}, {memory:.0f} GB of memory, {parts}."


def markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[j]) for row in [head, *rows]) for j in range(len(head))]
    lines = [" | ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)) for row in rows]
    top = " | ".join(cell.ljust(w) for cell, w in zip(head, widths, strict=True))
    return "\n".join(f"| {line} |" for line in [top, " | ".join("-" * w for w in widths), *lines])


def write_results(name: str, text: str, *, target: str = "bench") -> None:
    """Print a page and write it; `target` is the target of make that recomputes it."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    title = name.replace("_", " ").capitalize()
    page = f"# {title}\n\nWritten by `benchmarks/{name}.py`; `make {target}` recomputes it.\n\n{text}\n"
    (RESULTS / f"{name}.md").write_text(page)
    print(f"{text}\n")
