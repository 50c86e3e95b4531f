"""How far a study is: what is there, what failed, what is to be done, by training and network."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from oodometer.studies.plan import StudyEvaluation, plan_study
from oodometer.studies.spec import Study
from oodometer.studies.store import Store
from oodometer.studies.store.sqlite import STORE_FILE

STATE_COLUMNS = ("done", "failed", "pending")


@dataclass(frozen=True)
class StudyStatusRow:
    """The evaluations of the models of one training and one architecture."""

    trained_on: tuple[str, ...]
    architecture: str
    models: int
    done: int
    failed: int
    pending: int


@dataclass(frozen=True)
class StudyStatus:
    """How far a study is.

    failed           the reasons of what is not there, by model and domain
    not_applicable   how many values there are not for a reason of their own, by measure
    left_out         models that did not converge; `untrained`: those that their pool lacks
    """

    rows: tuple[StudyStatusRow, ...]
    failed: Mapping[str, str] = field(default_factory=dict)
    not_applicable: Mapping[str, int] = field(default_factory=dict)
    left_out: int = 0
    untrained: int = 0

    def total(self, column: str) -> int:
        """The sum of a column."""
        return sum(getattr(row, column) for row in self.rows)

    def to_dict(self) -> dict[str, Any]:
        """Plain values with stable keys, for JSON."""
        return {
            **{column: self.total(column) for column in ("models", *STATE_COLUMNS)},
            "left_out": self.left_out,
            "untrained": self.untrained,
            "rows": [asdict(row) for row in self.rows],
            "reasons": dict(self.failed),
            "no_answers": dict(self.not_applicable),
        }


def status(study: Study, folder: str | Path) -> StudyStatus:
    """How far a study is, in its folder; nothing is changed, and a run may go on."""
    plan = plan_study(study)
    pending = plan.evaluations
    failures: Mapping[tuple[str, str], str] = {}
    refused: Counter[str] = Counter()
    if (Path(folder) / STORE_FILE).is_file():
        with Store.open(folder) as store:
            pending, failures = tuple(plan.pending(store.result_keys())), store.failures()
            wanted = plan.result_keys()
            refused.update(key.measure for key in store.missing_reasons() if key in wanted)
    left = {each.unit.key_pair: each for each in pending}
    failed = {pair: why for pair, each in left.items() if (why := _failure_reason(each, failures))}
    counts: dict[tuple[tuple[str, ...], str], Counter[str]] = {}
    models: dict[tuple[tuple[str, ...], str], set[str]] = {}
    for each in plan.evaluations:
        place = each.unit.model.trained_on, each.unit.model.architecture
        state = "failed" if each.unit.key_pair in failed else "pending"
        state = state if each.unit.key_pair in left else "done"
        counts.setdefault(place, Counter())[state] += 1
        models.setdefault(place, set()).add(each.unit.model.key)
    found = [
        StudyStatusRow(*place, len(models[place]), *(some[name] for name in STATE_COLUMNS))
        for place, some in counts.items()
    ]
    reasons = {left[pair].name: why for pair, why in failed.items()}
    return StudyStatus(
        tuple(found), reasons, dict(sorted(refused.items())), plan.left_out, plan.untrained
    )


def _failure_reason(each: StudyEvaluation, failures: Mapping[tuple[str, str], str]) -> str | None:
    return next(
        (
            failures[unit.key_pair]
            for unit in each.required_predictions()
            if unit.key_pair in failures
        ),
        None,
    )
