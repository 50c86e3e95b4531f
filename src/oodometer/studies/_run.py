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

from oodometer.core.errors import InputError, MissingExtra, format_error
from oodometer.core.format import format_duration
from oodometer.core.protocols import ProgressCallback
from oodometer.parallel.runners import Runner, serial
from oodometer.studies import compute as values
from oodometer.studies import splits, study_models
from oodometer.studies.plan import (
    StudyEvaluation,
    StudyPlan,
    StudyTask,
    plan_study,
    prediction_tasks,
    value_tasks,
)
from oodometer.studies.spec import Study
from oodometer.studies.store import EvaluationOutcome, FailureRecord, Store
from oodometer.studies.worker import run_task


@dataclass(frozen=True)
class StudyRunResult:
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
    def remaining(self) -> int:
        """Evaluations that are not there yet."""
        return self.total - self.before - self.done

    def summary(self) -> str:
        """What was done, in a few sentences.

        >>> StudyRunResult(total=9, before=4, done=2, seconds=30.0, left_out=3).summary()
        '2 evaluations done in 30 s; 6 of 9 are there, 3 are left. 3 models did not converge and are left out.'
        """
        failed = f", {len(self.failed)} failed" if self.failed else ""
        rest = f", {self.remaining} are left" if self.remaining else ""
        return (
            f"{self.done} evaluations done in {format_duration(self.seconds)}{failed}; "
            f"{self.before + self.done} of {self.total} are there{rest}."
            f"{format_missing_models(self.left_out, self.untrained)}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values with stable keys, for JSON."""
        return {**asdict(self), "left": self.remaining}


def format_missing_models(left_out: int, untrained: int) -> str:
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
    work: Callable[[StudyTask], list[EvaluationOutcome]] = run_task,
    progress: ProgressCallback | None = None,
) -> StudyRunResult:
    """Do the evaluations of a study that the store in a folder lacks, at most `limit` of them.

    It may be killed at any moment: the next run goes on where it stopped. `work` does a task.
    """
    if limit is not None and limit < 1:
        raise InputError(f"limit must be 1 or more; got {limit}. Leave it out to do all.")
    plan = plan_study(study)
    if runner is not serial:
        _check_sendable(plan)
    try:
        with Store.open(folder, "write") as store:
            log = _StudyRunState.start(plan, store, limit, progress)
            _record_inputs(store, log.pending)
            for stage in (prediction_tasks, value_tasks):
                tasks = stage(
                    log.pending, store.prediction_references(), store.folder.absolute(), study.seed
                )
                log.start_stage(tasks, values=stage is value_tasks)
                _run_tasks(runner, work, tasks, log)
            return log.result()
    finally:
        for kept in (study_models, splits, values):
            kept.clear_cache()


def _check_sendable(plan: StudyPlan) -> None:
    """Models that are objects must be such that workers can be sent them."""
    for member in dict.fromkeys(each.unit.model for each in plan.evaluations):
        try:
            pickle.dumps(member.path_or_object)
        except Exception as error:
            raise InputError(
                f"The model {member.name!r} can't be sent to workers ({format_error(error)}). Give a "
                "function of a module, or a file; or run without workers."
            ) from error


def _record_inputs(store: Store, evaluations: Sequence[StudyEvaluation]) -> None:
    units = [unit for each in evaluations for unit in (each.unit, *each.sources)]
    store.add_models_and_datasets(
        [member.record() for member in dict.fromkeys(unit.model for unit in units)],
        [unit.rows.record() for unit in {unit.dataset_key: unit for unit in units}.values()],
    )


def _run_tasks(
    runner: Runner,
    work: Callable[[StudyTask], list[EvaluationOutcome]],
    tasks: Sequence[StudyTask],
    log: _StudyRunState,
) -> None:
    if not tasks:
        return
    with closing(runner(work, tasks)) as outcomes:
        for task, found in outcomes:
            log.record(_task_outcomes(task, found))


def _task_outcomes(
    task: StudyTask, found: list[EvaluationOutcome] | Exception
) -> list[EvaluationOutcome]:
    if isinstance(found, MissingExtra):
        raise found  # no other model would fare better
    if isinstance(found, Exception):
        failure = FailureRecord(format_error(found))
        return [EvaluationOutcome(*job.unit.key_pair, failure=failure) for job in task.jobs]
    return found


@dataclass
class _StudyRunState:
    """What has been done, in the store and in numbers."""

    plan: StudyPlan
    store: Store
    pending: list[StudyEvaluation]
    before: int
    progress: ProgressCallback | None
    started: float = field(default_factory=time.monotonic)
    done: int = 0
    failed: dict[str, str] = field(default_factory=dict)
    failed_predictions: dict[tuple[str, str], str] = field(default_factory=dict)
    n_jobs: int = 0
    n_jobs_done: int = 0
    evaluations: dict[tuple[str, str], StudyEvaluation] = field(default_factory=dict)
    stage_started: float = 0.0

    @classmethod
    def start(
        cls, plan: StudyPlan, store: Store, limit: int | None, progress: ProgressCallback | None
    ) -> _StudyRunState:
        pending = plan.pending(store.result_keys())
        return cls(plan, store, pending[:limit], len(plan.evaluations) - len(pending), progress)

    def start_stage(self, tasks: Sequence[StudyTask], *, values: bool) -> None:
        """The next stage, in which models are asked, or values are made."""
        self.n_jobs, self.n_jobs_done = sum(len(task.jobs) for task in tasks), 0
        self.evaluations = {each.unit.key_pair: each for each in self.pending} if values else {}
        for each in self.evaluations.values():
            why = next(
                (
                    self.failed_predictions[u.key_pair]
                    for u in each.required_predictions()
                    if u.key_pair in self.failed_predictions
                ),
                None,
            )
            if why is not None:
                self.failed[each.name] = why
        self.stage_started = time.monotonic()
        self.report_progress()

    def record(self, outcomes: Sequence[EvaluationOutcome]) -> None:
        """Write down what came of a task."""
        try:
            self.store.add_outcomes(outcomes)
        except KeyboardInterrupt:
            # It has been done: it is not lost for an impatient user.
            self.store.add_outcomes(outcomes)
            raise
        for one in outcomes:
            self._count(one)
        self.n_jobs_done += len(outcomes)
        self.report_progress()

    def _count(self, one: EvaluationOutcome) -> None:
        pair = one.model, one.dataset
        each = self.evaluations.get(pair)
        if each is None:
            if one.failure is not None:
                self.failed_predictions[pair] = one.failure.reason
        elif one.failure is not None:
            self.failed.setdefault(each.name, one.failure.reason)
        elif each.name not in self.failed:
            self.done += 1

    def report_progress(self) -> None:
        if self.progress is None:
            return
        there = self.before + self.done
        words = [f"{there} of {len(self.plan.evaluations)} evaluations"]
        words += [f"{len(self.failed)} failed"] if self.failed else []
        words += [] if self.evaluations else [f"asking models, {self.n_jobs_done} of {self.n_jobs}"]
        if 0 < self.n_jobs_done < self.n_jobs:
            each = (time.monotonic() - self.stage_started) / self.n_jobs_done
            words.append(f"about {format_duration((self.n_jobs - self.n_jobs_done) * each)} left")
        self.progress(self.n_jobs_done, self.n_jobs, ", ".join(words))

    def result(self) -> StudyRunResult:
        return StudyRunResult(
            total=len(self.plan.evaluations),
            before=self.before,
            done=self.done,
            failed=self.failed,
            left_out=self.plan.left_out,
            untrained=self.plan.untrained,
            seconds=time.monotonic() - self.started,
        )
