"""How far a pool is: what is there, what failed, what is to be trained, by domain and network."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from oodometer.studies.training import checkpoint
from oodometer.studies.training.spec import PoolSpec


@dataclass(frozen=True)
class PoolStatusRow:
    """The models of one set of training domains and one architecture."""

    domains: tuple[str, ...]
    architecture: str
    done: int
    converged: int
    failed: int
    pending: int


@dataclass(frozen=True)
class PoolStatus:
    """How far a pool is; `seconds` is what its models took, all together.

    `failed` has the reasons of those that are not there, by id.
    """

    rows: tuple[PoolStatusRow, ...]
    seconds: float
    failed: Mapping[str, str]

    def total(self, column: str) -> int:
        """The sum of a column."""
        return sum(getattr(row, column) for row in self.rows)

    @property
    def seconds_left(self) -> float | None:
        """What one worker needs for the rest; None before the first model is there."""
        done, rest = self.total("done"), self.total("pending") + self.total("failed")
        return rest * self.seconds / done if done else None

    def to_dict(self) -> dict[str, Any]:
        """Plain values with stable keys, for JSON."""
        columns = ("done", "converged", "failed", "pending")
        return {
            **{column: self.total(column) for column in columns},
            "seconds": self.seconds,
            "seconds_left": self.seconds_left,
            "rows": [asdict(row) for row in self.rows],
            "reasons": dict(self.failed),
        }


def status(spec: PoolSpec, folder: str | Path) -> PoolStatus:
    """How far the pool of a spec is, in its folder; nothing is changed, and a run may go on."""
    pool = Path(folder)
    there, reasons = checkpoint.finished_models(pool), checkpoint.read_reasons(pool)
    rows: dict[tuple[tuple[str, ...], str], Counter[str]] = {}
    seconds, failed = 0.0, {}
    for recipe in spec.recipes():
        counts = rows.setdefault((recipe.domains, recipe.architecture), Counter())
        name = recipe.id
        if name in there:
            facts = checkpoint.load_facts(there[name])
            counts.update(done=1, converged=int(facts["converged"]))
            seconds += facts.get("seconds", 0.0)
        elif name in reasons:
            failed[name] = reasons[name]
            counts["failed"] += 1
        else:
            counts["pending"] += 1
    return PoolStatus(
        tuple(_status_row(*key, counts) for key, counts in rows.items()), seconds, failed
    )


def _status_row(domains: tuple[str, ...], architecture: str, counts: Counter[str]) -> PoolStatusRow:
    names = ("done", "converged", "failed", "pending")
    return PoolStatusRow(domains, architecture, *(counts[name] for name in names))
