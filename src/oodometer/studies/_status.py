"""Status of a study: numbers of finished, failed and pending evaluations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from oodometer.core.jsonable import to_jsonable
from oodometer.studies.plan import plan_study
from oodometer.studies.spec import Study
from oodometer.studies.store import Store
from oodometer.studies.store.sqlite import STORE_FILE

STATE_COLUMNS = ("done", "failed", "pending")


@dataclass(frozen=True)
class StudyStatusRow:
    """Counts for all models that have the same training domains and the same architecture."""

    trained_on: tuple[str, ...]
    architecture: str
    models: int
    done: int
    failed: int
    pending: int


@dataclass(frozen=True)
class StudyStatus:
    """Status of a study; an evaluation is one model on one test domain.

    Parameters
    ----------
    rows : tuple of StudyStatusRow
        Counts for each combination of training domains and architecture.
    failed : mapping of str to str
        Reasons of failures, keyed by the names of the failed evaluations.
    not_applicable : mapping of str to int
        For each requested value, the number of evaluations in which its method was not applicable.
    left_out : int
        Number of models that are skipped because they did not converge.
    untrained : int
        Number of models that are not trained yet.

    Examples
    --------
    >>> StudyStatus((StudyStatusRow(("a",), "mlp", 2, 3, 0, 1),)).total("done")
    3
    """

    rows: tuple[StudyStatusRow, ...]
    failed: Mapping[str, str] = field(default_factory=dict)
    not_applicable: Mapping[str, int] = field(default_factory=dict)
    left_out: int = 0
    untrained: int = 0

    def total(self, column: str) -> int:
        """Return the sum of a column over all rows."""
        return sum(getattr(row, column) for row in self.rows)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            **{column: self.total(column) for column in ("models", *STATE_COLUMNS)},
            "left_out": self.left_out,
            "untrained": self.untrained,
            "rows": to_jsonable(self.rows),
            "reasons": dict(self.failed),
            "no_answers": dict(self.not_applicable),
        }


def status(study: Study, folder: str | Path) -> StudyStatus:
    """Return the status of a study; nothing is written, so this is safe while a run is active.

    Parameters
    ----------
    study : Study
        Models, test domains and requested values.
    folder : str or path
        Folder in which results are stored; it need not exist.

    Returns
    -------
    StudyStatus
        Counts of evaluations, and the reasons of failures.
    """
    plan = plan_study(study)
    pending = plan.evaluations
    failures: Mapping[tuple[str, str], str] = {}
    not_applicable: Counter[str] = Counter()
    if (Path(folder) / STORE_FILE).is_file():
        with Store.open(folder) as store:
            pending = tuple(plan.pending(store.result_keys()))
            failures = store.failures()
            requested = plan.result_keys()
            not_applicable.update(
                key.measure for key in store.missing_reasons() if key in requested
            )
    states = {evaluation.unit.key_pair: "pending" for evaluation in pending}
    reasons = {}
    for evaluation in pending:
        reason = evaluation.failure_reason(failures)
        if reason is not None:
            states[evaluation.unit.key_pair] = "failed"
            reasons[evaluation.name] = reason
    counts: dict[tuple[tuple[str, ...], str], Counter[str]] = {}
    models: dict[tuple[tuple[str, ...], str], set[str]] = {}
    for evaluation in plan.evaluations:
        model = evaluation.unit.model
        row = (model.trained_on, model.architecture)
        counts.setdefault(row, Counter())[states.get(evaluation.unit.key_pair, "done")] += 1
        models.setdefault(row, set()).add(model.key)
    return StudyStatus(
        rows=tuple(
            StudyStatusRow(*row, len(models[row]), *(count[name] for name in STATE_COLUMNS))
            for row, count in counts.items()
        ),
        failed=reasons,
        not_applicable=dict(sorted(not_applicable.items())),
        left_out=plan.left_out,
        untrained=plan.untrained,
    )
