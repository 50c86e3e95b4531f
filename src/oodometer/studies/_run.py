"""run(): run a study; first compute all predictions, then all values that depend on them."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from oodometer.core.errors import InputError, format_error
from oodometer.core.format import format_duration
from oodometer.core.jsonable import fields_to_jsonable
from oodometer.core.protocols import ProgressCallback
from oodometer.models.timm import TIMM_PREFIX, check_model_name, split_location
from oodometer.parallel.runners import Runner, serial
from oodometer.studies import compute, splits, study_models
from oodometer.studies._toml import prefix_errors
from oodometer.studies.plan import (
    StudyEvaluation,
    StudyPlan,
    StudyTask,
    plan_study,
    prediction_tasks,
    value_tasks,
)
from oodometer.studies.resumable_run import (
    RunLog,
    check_limit,
    run_tasks,
    write_despite_interrupt,
)
from oodometer.studies.spec import Study
from oodometer.studies.store import EvaluationOutcome, FailureRecord, Store
from oodometer.studies.worker import run_task


@dataclass(frozen=True)
class StudyRunResult:
    """Counts of a study run; an evaluation is one model on one test domain.

    Parameters
    ----------
    total : int
        Number of evaluations of the study.
    before : int
        Number of evaluations that were stored before the run.
    done : int
        Number of evaluations that the run has completed.
    failed : mapping of str to str
        Reasons of failures, keyed by the names of the failed evaluations.
    left_out : int
        Number of models that are skipped because they did not converge.
    untrained : int
        Number of models that are not trained yet.
    seconds : float
        Duration of the run in seconds.

    Examples
    --------
    >>> StudyRunResult(total=9, before=4, done=2, seconds=30.0, left_out=3).summary()
    '2 evaluations computed in 30 s; 6 of 9 are stored, 3 remain. 3 models did not converge and are skipped.'
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
        """Number of evaluations that are not stored yet."""
        return self.total - self.before - self.done

    def summary(self) -> str:
        """Return the counts in a few sentences."""
        failed = f", {len(self.failed)} failed" if self.failed else ""
        remaining = f", {self.remaining} remain" if self.remaining else ""
        return (
            f"{self.done} evaluations computed in {format_duration(self.seconds)}{failed}; "
            f"{self.before + self.done} of {self.total} are stored{remaining}."
            f"{format_missing_models(self.left_out, self.untrained)}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {**fields_to_jsonable(self), "left": self.remaining}


def format_missing_models(left_out: int, untrained: int) -> str:
    """Return sentences about the models that are not evaluated; "" if there are none.

    Parameters
    ----------
    left_out : int
        Number of models that did not converge.
    untrained : int
        Number of models that are not trained yet.

    Returns
    -------
    str
        The sentences, each with a leading space.

    Examples
    --------
    >>> format_missing_models(2, 0)
    ' 2 models did not converge and are skipped.'
    """
    text = ""
    if left_out:
        text += f" {left_out} models did not converge and are skipped."
    if untrained:
        text += f" {untrained} models are not trained yet; `oodometer pool run SPEC` trains them."
    return text


def run(
    study: Study,
    folder: str | Path,
    *,
    runner: Runner = serial,
    limit: int | None = None,
    work: Callable[[StudyTask], list[EvaluationOutcome]] = run_task,
    progress: ProgressCallback | None = None,
) -> StudyRunResult:
    """Compute the evaluations of a study that are not stored yet.

    A run may be interrupted at any time; the next run continues where it stopped.

    Parameters
    ----------
    study : Study
        Models, test domains and requested values.
    folder : str or path
        Folder in which results are stored.
    runner : Runner
        Function that runs the tasks in this process, in worker processes, or on a cluster.
    limit : int, optional
        Maximum number of evaluations to compute. Default: all.
    work : callable
        Function that executes one task.
    progress : callable, optional
        Function that is called with the number of finished jobs, the number of all jobs of the
        current stage, and a description.

    Returns
    -------
    StudyRunResult
        Counts of the run, and the reasons of failures.

    Raises
    ------
    InputError
        If `limit` is below 1, if timm does not have a network that the study names, if a model
        cannot be sent to workers, or if the folder cannot be written.
    MissingExtra
        If a package that a task needs is not installed.
    """
    check_limit(limit)
    with prefix_errors(f"the study {study.name!r}"):
        _check_networks(study)
    plan = plan_study(study)
    if runner is not serial:
        _check_sendable(plan)
    try:
        with Store.open(folder, "write") as store:
            state = _StudyRun.start(plan, store, limit, progress)
            _record_inputs(store, state.pending)
            for make_tasks in (prediction_tasks, value_tasks):
                references = store.prediction_references()
                tasks = make_tasks(state.pending, references, store.folder.absolute(), study.seed)
                state.start_stage(tasks, values=make_tasks is value_tasks)
                run_tasks(runner, work, tasks, failed=_failed_outcomes, record=state.record)
            return state.result()
    finally:
        for module in (study_models, splits, compute):
            module.clear_cache()


def _check_networks(study: Study) -> None:
    """Raise if timm does not have the network of one of the user's models."""
    for model in study.models:
        if isinstance(model.path, str) and model.path.startswith(TIMM_PREFIX):
            with prefix_errors(f"the model {model.name!r}: path"):
                check_model_name(split_location(model.path).model)


def _check_sendable(plan: StudyPlan) -> None:
    """Raise if a model object cannot be pickled and therefore cannot be sent to workers."""
    for model in dict.fromkeys(evaluation.unit.model for evaluation in plan.evaluations):
        try:
            pickle.dumps(model.path_or_object)
        except Exception as error:
            raise InputError(
                f"The model {model.name!r} cannot be sent to workers ({format_error(error)}). Use "
                "a function of a module or a file, or run without workers."
            ) from error


def _record_inputs(store: Store, evaluations: Sequence[StudyEvaluation]) -> None:
    units = [unit for evaluation in evaluations for unit in (evaluation.unit, *evaluation.sources)]
    store.add_models_and_datasets(
        [model.record() for model in dict.fromkeys(unit.model for unit in units)],
        [unit.rows.record() for unit in {unit.dataset_key: unit for unit in units}.values()],
    )


def _failed_outcomes(task: StudyTask, reason: str) -> list[EvaluationOutcome]:
    failure = FailureRecord(reason)
    return [EvaluationOutcome(*job.unit.key_pair, failure=failure) for job in task.jobs]


@dataclass
class _StudyRun:
    """State of a study run: the store, the counts, and the predictions that failed."""

    plan: StudyPlan
    store: Store
    pending: list[StudyEvaluation]
    log: RunLog
    failed_predictions: dict[tuple[str, str], str] = field(default_factory=dict)
    # Pending evaluations, keyed by (model key, dataset key); empty until the predictions are done.
    evaluations: dict[tuple[str, str], StudyEvaluation] = field(default_factory=dict)

    @classmethod
    def start(
        cls, plan: StudyPlan, store: Store, limit: int | None, progress: ProgressCallback | None
    ) -> _StudyRun:
        pending = plan.pending(store.result_keys())
        total = len(plan.evaluations)
        log = RunLog("evaluations", total, total - len(pending), progress)
        return cls(plan, store, pending[:limit], log)

    def start_stage(self, tasks: Sequence[StudyTask], *, values: bool) -> None:
        """Start the stage of values if `values` is true, else the stage of predictions."""
        if values:
            self.evaluations = {each.unit.key_pair: each for each in self.pending}
        for evaluation in self.evaluations.values():
            reason = evaluation.failure_reason(self.failed_predictions)
            if reason is not None:
                self.log.failed[evaluation.name] = reason
        n_jobs = sum(len(task.jobs) for task in tasks)
        self.log.start_stage(n_jobs, "" if self.evaluations else "predictions")

    def record(self, outcomes: list[EvaluationOutcome]) -> None:
        """Store the outcomes of a finished task and update the counts."""
        write_despite_interrupt(lambda: self.store.add_outcomes(outcomes))
        for outcome in outcomes:
            self._count(outcome)
        self.log.advance(len(outcomes))

    def _count(self, outcome: EvaluationOutcome) -> None:
        pair = (outcome.model, outcome.dataset)
        evaluation = self.evaluations.get(pair)
        if evaluation is None:
            if outcome.failure is not None:
                self.failed_predictions[pair] = outcome.failure.reason
        elif outcome.failure is not None:
            self.log.failed.setdefault(evaluation.name, outcome.failure.reason)
        elif evaluation.name not in self.log.failed:
            self.log.done += 1

    def result(self) -> StudyRunResult:
        return StudyRunResult(
            total=self.log.total,
            before=self.log.before,
            done=self.log.done,
            failed=self.log.failed,
            left_out=self.plan.left_out,
            untrained=self.plan.untrained,
            seconds=self.log.seconds,
        )
