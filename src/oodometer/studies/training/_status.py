"""Status of a pool: numbers of trained, failed and pending models."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from oodometer.core.jsonable import to_jsonable
from oodometer.studies._toml import prefix_errors
from oodometer.studies.training import checkpoint
from oodometer.studies.training._run import missing_weights
from oodometer.studies.training.spec import PoolSpec

COUNT_COLUMNS = ("done", "converged", "failed", "pending")


@dataclass(frozen=True)
class PoolStatusRow:
    """Counts for all models that have the same training domains and the same architecture."""

    domains: tuple[str, ...]
    architecture: str
    done: int
    converged: int
    failed: int
    pending: int


@dataclass(frozen=True)
class PoolStatus:
    """Status of a pool.

    Parameters
    ----------
    rows : tuple of PoolStatusRow
        Counts for each combination of training domains and architecture.
    seconds : float
        Total training time of all finished models in seconds.
    failed : mapping of str to str
        Reasons of failures, keyed by the ids of the models whose training failed.
    missing : tuple of str
        Names of the networks to evaluate whose pretrained weights are missing.

    Examples
    --------
    >>> status = PoolStatus((PoolStatusRow(("a",), "mlp", 2, 1, 0, 3),), 20.0, {})
    >>> status.total("pending"), status.seconds_left
    (3, 30.0)
    """

    rows: tuple[PoolStatusRow, ...]
    seconds: float
    failed: Mapping[str, str]
    missing: tuple[str, ...] = ()

    def total(self, column: str) -> int:
        """Return the sum of a column over all rows."""
        return sum(getattr(row, column) for row in self.rows)

    @property
    def seconds_left(self) -> float | None:
        """Estimated seconds until one worker has trained the remaining models.

        It is None if no model is finished yet.
        """
        n_done = self.total("done")
        n_left = self.total("pending") + self.total("failed")
        return n_left * self.seconds / n_done if n_done else None

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            **{column: self.total(column) for column in COUNT_COLUMNS},
            "seconds": self.seconds,
            "seconds_left": self.seconds_left,
            "rows": to_jsonable(self.rows),
            "reasons": dict(self.failed),
            "missing": list(self.missing),
        }


def status(spec: PoolSpec, folder: str | Path) -> PoolStatus:
    """Return the status of a pool; nothing is written, so this is safe while a run is active.

    Parameters
    ----------
    spec : PoolSpec
        Models of the pool.
    folder : str or path
        Folder of the pool; it need not exist.

    Returns
    -------
    PoolStatus
        Counts of models, the training time, and the reasons of failures.
    """
    pool = Path(folder)
    finished = checkpoint.finished_models(pool)
    reasons = checkpoint.read_reasons(pool)
    counts: dict[tuple[tuple[str, ...], str], Counter[str]] = {}
    seconds = 0.0
    failed = {}
    configs = spec.recipes()
    pretrained = [each for each in configs if each.part == "none" and each.id not in finished]
    with prefix_errors(spec.place):
        missing = dict.fromkeys(missing_weights(pretrained).values())
    for config in configs:
        row = counts.setdefault((config.domains, config.architecture), Counter())
        if config.id in finished:
            facts = checkpoint.load_facts(finished[config.id])
            row.update(done=1, converged=int(facts["converged"]))
            seconds += facts.get("seconds", 0.0)
        elif config.id in reasons:
            failed[config.id] = reasons[config.id]
            row["failed"] += 1
        else:
            row["pending"] += 1
    rows = [
        PoolStatusRow(*key, *(row[name] for name in COUNT_COLUMNS)) for key, row in counts.items()
    ]
    return PoolStatus(tuple(rows), seconds, failed, tuple(missing))
