"""Pages of reproduced experiments in docs/results/studies/.

<name>.md        what was done, our figures next to the paper's, and why they differ
<name>.parquet   all numbers behind the page, with commit and seed in the metadata
<name>.png       the picture
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks._results import RESULTS, machine_facts, markdown_table

PAGES = RESULTS / "studies"
ROOT = Path(__file__).parent.parent.parent
SEED = 0


@dataclass(frozen=True)
class Claim:
    """Claim of a paper, whether it holds here (None: undecided), and the figures."""

    words: str
    holds: bool | None
    figures: str

    def describe(self) -> str:
        verdict = {True: "Holds", False: "Does not hold", None: "Undecided"}[self.holds]
        return f"- {verdict}: {self.words}. {self.figures}"


@dataclass(frozen=True)
class Page:
    """Reproduced experiment: what was done, tables, claims, and why it differs from the paper."""

    name: str
    title: str
    done: str
    tables: Mapping[str, tuple[Sequence[str], Sequence[Sequence[str]]]]
    differs: str
    claims: Sequence[Claim] = ()
    seed: int = SEED
    notes: Sequence[str] = field(default_factory=tuple)

    def text(self) -> str:
        parts = [f"# {self.title}", f"Written by `python -m benchmarks.studies.{self.name}`.",
                 self.done, f"![{self.title}]({self.name}.png)"]  # fmt: skip
        for caption, (head, rows) in self.tables.items():
            parts += [f"## {caption}", markdown_table(head, rows)]
        if self.claims:
            parts += [
                "## Claims of the paper",
                "\n".join(claim.describe() for claim in self.claims),
            ]
        parts += ["## Why the figures differ from the paper's", self.differs, *self.notes]
        parts.append(f"Commit {commit()}, seed {self.seed}. {machine_facts()}")
        return "\n\n".join(parts) + "\n"


def write(page: Page, rows: Any, picture: Any) -> None:
    """Write the page, the Parquet file and the picture; print the page."""
    import pyarrow.parquet as pq

    PAGES.mkdir(parents=True, exist_ok=True)
    made = {
        "commit": commit(),
        "seed": str(page.seed),
        "made_by": f"benchmarks.studies.{page.name}",
    }
    kept = {
        **(rows.schema.metadata or {}),
        **{key.encode(): one.encode() for key, one in made.items()},
    }
    pq.write_table(
        rows.replace_schema_metadata(kept), PAGES / f"{page.name}.parquet", compression="zstd"
    )
    picture.save(PAGES / f"{page.name}.png", scale_factor=1.5)
    (PAGES / f"{page.name}.md").write_text(page.text())
    print(page.text())


def commit() -> str:
    """Return the commit of the code, with a plus sign if it was changed since."""
    head = _git("rev-parse", "--short=12", "HEAD")
    changed = _git("status", "--porcelain", "--", "src", "benchmarks")
    return f"{head}+" if changed else head


def _git(*words: str) -> str:
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def points(share: float | None, *, signed: bool = False) -> str:
    """Format a fraction in points, or a dash for None.

    >>> points(0.0311), points(-0.02, signed=True), points(None)
    ('3.11', '-2.00', '–')
    """
    if share is None:
        return "–"
    return f"{100 * share:+.2f}" if signed else f"{100 * share:.2f}"
