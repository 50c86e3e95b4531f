"""Pages of reproduced experiments in docs/results/studies/.

<name>.md        what was done, its scale, our figures next to the paper's, and verdicts on claims
<name>.json      scale, reliability and verdicts, which the summary page reads
<name>.parquet   all numbers behind the page, with commit and seed in the metadata
<name>.png       the picture
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._results import RESULTS, machine_facts, markdown_table
from benchmarks.studies._claims import ClaimResult, get_claim, results_to_json
from oodometer.core.errors import InputError, NotApplicable
from oodometer.studies.analysis.evaluation_table import EvaluationTable
from oodometer.studies.analysis.model_bootstrap import BootstrapReplicates
from oodometer.studies.analysis.model_resampling import model_clusters
from oodometer.studies.analysis.reliability import TruthReliability, truth_reliability

PAGES = RESULTS / "studies"
ROOT = Path(__file__).parent.parent.parent
SEED = 0
# Option of scripts that reads the rows of the last run instead of measuring.
STORED_OPTION = "--stored"
# Metadata of the Parquet file: the commit at which the rows were measured.
ROWS_COMMIT_KEY = b"rows_commit"
Table = tuple[Sequence[str], Sequence[Sequence[str]]]


@dataclass(frozen=True, kw_only=True)
class Scale:
    """Numbers of models, configurations, seeds and evaluations, and of test rows per evaluation.

    `kind` tells what the models are, for instance "heads on frozen pretrained bodies".
    """

    models: int
    evaluations: int
    configurations: int | None = None
    seeds: int | None = None
    domains: int | None = None
    rows: str = ""
    kind: str = "models"

    @classmethod
    def of_table(cls, table: EvaluationTable, *, kind: str = "models") -> Scale:
        """Count what a table of evaluations holds."""
        clusters = model_clusters(table)
        used = np.unique(table.model)
        seeds = {cell for cell in table.columns.get("seed", ()) if cell}
        counts = [int(float(cell)) for cell in table.columns.get("n", ()) if cell]
        rows = ""
        if counts:
            low, high = min(counts), max(counts)
            rows = f"{low:,}" if low == high else f"{low:,} to {high:,}"
        return cls(
            models=len(used),
            evaluations=int((~np.isnan(table.accuracy)).sum()),
            configurations=len(np.unique(clusters[used])),
            seeds=len(seeds) or None,
            domains=len(np.unique(table.tested_on)),
            rows=rows,
            kind=kind,
        )

    def describe(self) -> str:
        parts = [f"{self.models:,} {self.kind}"]
        if self.configurations is not None and self.seeds:
            parts.append(f"{self.configurations:,} configurations × {self.seeds} seeds")
        if self.domains is not None:
            parts.append(f"{self.domains} test domains")
        parts.append(f"{self.evaluations:,} evaluations")
        if self.rows:
            parts.append(f"true accuracies on {self.rows} rows each")
        return f"**Scale:** {'; '.join(parts)}."


def reliability_of(table: EvaluationTable) -> TruthReliability | None:
    """Return the reliability of the true accuracies; None if it is not known or not defined."""
    try:
        return truth_reliability(table)
    except (InputError, NotApplicable):
        return None


def describe_reliability(reliability: TruthReliability | None) -> str:
    if reliability is None:
        return (
            "**Reliability of the true accuracies:** not defined here (no groups of models with known "
            "numbers of rows)."
        )
    return (
        "**Reliability of the true accuracies** within a group of models (1 − sampling variance / "
        f"variance): {reliability.median:.2f} in the median and {reliability.mean:.2f} in the mean "
        f"of {len(reliability.groups)} groups."
    )


@dataclass(frozen=True)
class Page:
    """Reproduced experiment: what was done, scale, tables, verdicts, and why it differs.

    `results` are the verdicts on the claims of claims.toml that this page tests.
    """

    name: str
    title: str
    done: str
    tables: Mapping[str, Table]
    differs: str
    results: Sequence[ClaimResult] = ()
    scale: Scale | None = None
    reliability: TruthReliability | None = None
    seed: int = SEED
    notes: Sequence[str] = field(default_factory=tuple)

    def text(self) -> str:
        parts = [f"# {self.title}", f"Written by `python -m benchmarks.studies.{self.name}`.",
                 self.done]  # fmt: skip
        if self.scale is not None:
            parts += [self.scale.describe(), describe_reliability(self.reliability)]
        if self.results:
            parts += ["## Claims of the papers", CLAIMS_NOTE, claims_table(self.results)]
        parts.append(f"![{self.title}]({self.name}.png)")
        for caption, (head, rows) in self.tables.items():
            parts += [f"## {caption}", markdown_table(head, rows)]
        parts += ["## Why the figures differ from the paper's", self.differs, *self.notes]
        parts.append(f"Commit {commit()}, seed {self.seed}. {machine_facts()}")
        return "\n\n".join(parts) + "\n"

    def facts(self) -> dict[str, Any]:
        """Return title, scale and reliability, for the JSON file."""
        reliability = self.reliability
        return {
            "name": self.name,
            "title": self.title,
            "scale": None if self.scale is None else asdict(self.scale),
            "reliability": None
            if reliability is None
            else {
                "median": reliability.median,
                "mean": reliability.mean,
                "groups": len(reliability.groups),
            },
            "commit": commit(),
        }


CLAIMS_NOTE = (
    "Held: the 95 % interval lies on the paper's side of 0; refuted: it lies on the other side; "
    "otherwise undecided. Intervals are bootstrap intervals over models (all seeds of a configuration "
    "are drawn together) and, where there are at least eight, over test domains; they are signed so "
    "that positive values agree with the paper. The number of configurations that would decide is "
    "extrapolated: the half-width of an interval shrinks with the square root of their number."
)


def claims_table(results: Sequence[ClaimResult]) -> str:
    """Return the table of verdicts."""
    head = ("verdict", "claim", "place", "here", "95 % interval", "in the paper", "models")
    rows = []
    for result in results:
        claim = get_claim(result.id)
        needed = f"; to decide: {result.needed}" if result.needed else ""
        models = "" if result.models is None else f"{result.models:,}"
        rows.append((f"**{result.verdict}**{needed}", claim.words, f"{claim.paper} {claim.place}",
                     result.figures, result.interval, claim.published, models))  # fmt: skip
    return markdown_table(head, [tuple(cell.replace("|", "\\|") for cell in row) for row in rows])


def write(page: Page, rows: Any, picture: Any) -> None:
    """Write page, verdicts, Parquet file and picture; print the page."""
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
    (PAGES / f"{page.name}.json").write_text(results_to_json(page.results, page.facts()))
    print(page.text())


def stored_rows(name: str) -> Any:
    """Return the rows of the committed Parquet file of a page, to write the page again.

    Their metadata keep the commit at which they were measured.
    """
    import pyarrow.parquet as pq

    rows = pq.read_table(PAGES / f"{name}.parquet")
    facts = rows.schema.metadata
    measured = facts.get(ROWS_COMMIT_KEY, facts[b"commit"])
    return rows.replace_schema_metadata({**facts, ROWS_COMMIT_KEY: measured})


def rows_note(rows: Any) -> tuple[str, ...]:
    """Return a sentence on the commit at which stored rows were measured; none for new rows."""
    measured = (rows.schema.metadata or {}).get(ROWS_COMMIT_KEY)
    if measured is None:
        return ()
    return (f"The rows were measured at commit {measured.decode()}; only the analysis is newer.",)


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


def with_interval(found: BootstrapReplicates, measure: str, *, signed: bool = True) -> str:
    """Format the value of a measure with its 95 % interval; a dash if it is undefined."""
    value = found.value(measure)
    try:
        low, high = found.interval(measure)
    except NotApplicable:
        low = high = np.nan
    if np.isnan([value, low, high]).any():
        return "–"
    sign = "+" if signed else ""
    return f"{value:{sign}.2f} ({low:{sign}.2f} to {high:{sign}.2f})"
