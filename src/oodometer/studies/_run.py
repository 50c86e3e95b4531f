"""Running a study: what is not known yet, by any runner, every task written down as it comes.

Only this process writes. Models are asked first, and what they say is kept; then values are made of
it, and of what the models must be asked besides. What is stored is never done again; what failed is
written down with the reason, and is tried again in the next run.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from oodometer.core.errors import InputError, MissingExtra, reason_of
from oodometer.core.format import span
from oodometer.core.protocols import Progress
from oodometer.parallel.runners import Runner, serial
from oodometer.studies import compute as values
from oodometer.studies import splits, study_models
from oodometer.studies.plan import Evaluation, Plan, Task, planned, to_classify, to_value
from oodometer.studies.spec import Study
from oodometer.studies.store import Failure, Outcome, Store
from oodometer.studies.worker import do_task


@dataclass(frozen=True)
class Ran:
    """What a run has done: evaluations that were there before, new ones, and those that failed.

    An evaluation is one model on one test domain. `left_out` are models that did not converge,
    `untrained` those that their pool lacks.
    """

    total: int
    before: int
    done: int = 0
    failed: Mapping[str, str] = field(default_factory=dict)
    left_out: int = 0
    untrained: int = 0
    seconds: float = 0.0

    @property
    def left(self) -> int:
        """Evaluations that are not there yet."""
        return self.total - self.before - self.done

    def told(self) -> str:
        """What was done, in a few sentences.

        >>> Ran(total=9, before=4, done=2, seconds=30.0, left_out=3).told()
        '2 evaluations done in 30 s; 6 of 9 are there, 3 are left. 3 models did not converge and are left out.'
        """
        failed = f", {len(self.failed)} failed" if self.failed else ""
        rest = f", {self.left} are left" if self.left else ""
        return (
            f"{self.done} evaluations done in {span(self.seconds)}{failed}; "
            f"{self.before + self.done} of {self.total} are there{rest}."
            f"{missing_models(self.left_out, self.untrained)}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values with stable keys, for JSON."""
        return {**asdict(self), "left": self.left}


def missing_models(left_out: int, untrained: int) -> str:
    """How many models are not looked at, and why."""
    told = ""
    if left_out:
        told += f" {left_out} models did not converge and are left out."
    if untrained:
        told += f" {untrained} models are not trained yet: oodometer pool run."
    return told


def run(
    study: Study,
    folder: str | Path,
    *,
    runner: Runner = serial,
    limit: int | None = None,
    work: Callable[[Task], list[Outcome]] = do_task,
    progress: Progress | None = None,
) -> Ran:
    """Do the evaluations of a study that the store in a folder lacks, at most `limit` of them.

    It may be killed at any moment: the next run goes on where it stopped. `work` does a task.
    """
    if limit is not None and limit < 1:
        raise InputError(f"limit must be 1 or more; got {limit}. Leave it out to do all.")
    plan = planned(study)
    if runner is not serial:
        _check_sendable(plan)
    try:
        with Store.open(folder, "write") as store:
            log = _Log.of(plan, store, limit, progress)
            _describe(store, log.pending)
            for stage in (to_classify, to_value):
                tasks = stage(log.pending, store.references(), store.folder.absolute(), study.seed)
                log.begin(tasks, values=stage is to_value)
                _work_off(runner, work, tasks, log)
            return log.ran()
    finally:
        for kept in (study_models, splits, values):
            kept.forget()


def _check_sendable(plan: Plan) -> None:
    """Models that are objects must be such that workers can be sent them."""
    for member in dict.fromkeys(each.unit.member for each in plan.evaluations):
        try:
            pickle.dumps(member.thing)
        except Exception as error:
            raise InputError(
                f"The model {member.name!r} can't be sent to workers ({reason_of(error)}). Give a "
                "function of a module, or a file; or run without workers."
            ) from error


def _describe(store: Store, evaluations: Sequence[Evaluation]) -> None:
    units = [unit for each in evaluations for unit in (each.unit, *each.sources)]
    store.describe(
        [member.record() for member in dict.fromkeys(unit.member for unit in units)],
        [unit.rows.record() for unit in {unit.dataset: unit for unit in units}.values()],
    )


def _work_off(
    runner: Runner, work: Callable[[Task], list[Outcome]], tasks: Sequence[Task], log: _Log
) -> None:
    if not tasks:
        return
    with closing(runner(work, tasks)) as outcomes:
        for task, found in outcomes:
            log.add(_each(task, found))


def _each(task: Task, found: list[Outcome] | Exception) -> list[Outcome]:
    if isinstance(found, MissingExtra):
        raise found  # no other model would fare better
    if isinstance(found, Exception):
        failure = Failure(reason_of(found))
        return [Outcome(*job.unit.pair, failure=failure) for job in task.jobs]
    return found


@dataclass
class _Log:
    """What has been done, in the store and in numbers."""

    plan: Plan
    store: Store
    pending: list[Evaluation]
    before: int
    progress: Progress | None
    began: float = field(default_factory=time.monotonic)
    done: int = 0
    failed: dict[str, str] = field(default_factory=dict)
    broken: dict[tuple[str, str], str] = field(default_factory=dict)
    jobs: int = 0
    worked: int = 0
    whole: dict[tuple[str, str], Evaluation] = field(default_factory=dict)
    stage: float = 0.0

    @classmethod
    def of(cls, plan: Plan, store: Store, limit: int | None, progress: Progress | None) -> _Log:
        pending = plan.pending(store.known())
        return cls(plan, store, pending[:limit], len(plan.evaluations) - len(pending), progress)

    def begin(self, tasks: Sequence[Task], *, values: bool) -> None:
        """The next stage, in which models are asked, or values are made."""
        self.jobs, self.worked = sum(len(task.jobs) for task in tasks), 0
        self.whole = {each.unit.pair: each for each in self.pending} if values else {}
        for each in self.whole.values():
            why = next((self.broken[u.pair] for u in each.units() if u.pair in self.broken), None)
            if why is not None:
                self.failed[each.name] = why
        self.stage = time.monotonic()
        self.report()

    def add(self, outcomes: Sequence[Outcome]) -> None:
        """Write down what came of a task."""
        try:
            self.store.add(outcomes)
        except KeyboardInterrupt:
            # It has been done: it is not lost for an impatient user.
            self.store.add(outcomes)
            raise
        for one in outcomes:
            self._count(one)
        self.worked += len(outcomes)
        self.report()

    def _count(self, one: Outcome) -> None:
        pair = one.model, one.dataset
        each = self.whole.get(pair)
        if each is None:
            if one.failure is not None:
                self.broken[pair] = one.failure.reason
        elif one.failure is not None:
            self.failed.setdefault(each.name, one.failure.reason)
        elif each.name not in self.failed:
            self.done += 1

    def report(self) -> None:
        if self.progress is None:
            return
        there = self.before + self.done
        words = [f"{there} of {len(self.plan.evaluations)} evaluations"]
        words += [f"{len(self.failed)} failed"] if self.failed else []
        words += [] if self.whole else [f"asking models, {self.worked} of {self.jobs}"]
        if 0 < self.worked < self.jobs:
            each = (time.monotonic() - self.stage) / self.worked
            words.append(f"about {span((self.jobs - self.worked) * each)} left")
        self.progress(self.worked, self.jobs, ", ".join(words))

    def ran(self) -> Ran:
        return Ran(
            total=len(self.plan.evaluations),
            before=self.before,
            done=self.done,
            failed=self.failed,
            left_out=self.plan.left_out,
            untrained=self.plan.untrained,
            seconds=time.monotonic() - self.began,
        )
