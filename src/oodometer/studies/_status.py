"""How far a study is: what is there, what failed, what is to be done, by training and network."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from oodometer.studies.plan import Evaluation, planned
from oodometer.studies.spec import Study
from oodometer.studies.store import Store
from oodometer.studies.store.sqlite import FILE

COLUMNS = ("done", "failed", "pending")


@dataclass(frozen=True)
class Row:
    """The evaluations of the models of one training and one architecture."""

    trained_on: tuple[str, ...]
    architecture: str
    models: int
    done: int
    failed: int
    pending: int


@dataclass(frozen=True)
class Standing:
    """How far a study is.

    failed     the reasons of what is not there, by model and domain
    refused    how many values there are not for a reason of their own, by measure
    left_out   models that did not converge; `untrained`: those that their pool lacks
    """

    rows: tuple[Row, ...]
    failed: Mapping[str, str] = field(default_factory=dict)
    refused: Mapping[str, int] = field(default_factory=dict)
    left_out: int = 0
    untrained: int = 0

    def total(self, column: str) -> int:
        """The sum of a column."""
        return sum(getattr(row, column) for row in self.rows)

    def to_dict(self) -> dict[str, Any]:
        """Plain values with stable keys, for JSON."""
        return {
            **{column: self.total(column) for column in ("models", *COLUMNS)},
            "left_out": self.left_out,
            "untrained": self.untrained,
            "rows": [asdict(row) for row in self.rows],
            "reasons": dict(self.failed),
            "no_answers": dict(self.refused),
        }


def status(study: Study, folder: str | Path) -> Standing:
    """How far a study is, in its folder; nothing is changed, and a run may go on."""
    plan = planned(study)
    pending = plan.evaluations
    failures: Mapping[tuple[str, str], str] = {}
    refused: Counter[str] = Counter()
    if (Path(folder) / FILE).is_file():
        with Store.open(folder) as store:
            pending, failures = tuple(plan.pending(store.known())), store.failures()
            wanted = plan.keys()
            refused.update(key.measure for key in store.reasons() if key in wanted)
    left = {each.unit.pair: each for each in pending}
    failed = {pair: why for pair, each in left.items() if (why := _failure(each, failures))}
    counts: dict[tuple[tuple[str, ...], str], Counter[str]] = {}
    models: dict[tuple[tuple[str, ...], str], set[str]] = {}
    for each in plan.evaluations:
        place = each.unit.member.trained_on, each.unit.member.architecture
        state = "failed" if each.unit.pair in failed else "pending"
        state = state if each.unit.pair in left else "done"
        counts.setdefault(place, Counter())[state] += 1
        models.setdefault(place, set()).add(each.unit.member.key)
    found = [
        Row(*place, len(models[place]), *(some[name] for name in COLUMNS))
        for place, some in counts.items()
    ]
    reasons = {left[pair].name: why for pair, why in failed.items()}
    return Standing(
        tuple(found), reasons, dict(sorted(refused.items())), plan.left_out, plan.untrained
    )


def _failure(each: Evaluation, failures: Mapping[tuple[str, str], str]) -> str | None:
    return next((failures[unit.pair] for unit in each.units() if unit.pair in failures), None)
