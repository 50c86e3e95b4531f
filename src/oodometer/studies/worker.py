"""What a worker does with a task: ask models, or make values of what they said.

A model that fails, and a value that can't be made for no reason of its own, are told of; the other
models and values of the task are done nevertheless.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

from oodometer.core.errors import InputError, MissingExtra, format_error
from oodometer.core.inputs import Inputs
from oodometer.core.predictions import Predictions
from oodometer.core.protocols import Dataset, Model
from oodometer.models.inference import (
    DEFAULT_BATCH_ROWS,
    check_consistent_outputs,
    concat_predictions,
    predict_batch,
)
from oodometer.neighborhood import invariance
from oodometer.parallel.runners import limit_to_one_thread
from oodometer.studies import compute
from oodometer.studies import splits as kept_rows
from oodometer.studies.compute import ComputedValue, EvaluationContext
from oodometer.studies.plan import EvaluationJob, StudyTask
from oodometer.studies.requested_values import RequestedValue
from oodometer.studies.store import EvaluationOutcome, FailureRecord, ResultRecord
from oodometer.studies.store.array_store import ArrayStore
from oodometer.studies.store.records import labels_for_model
from oodometer.studies.store.store import ARRAYS_FOLDER

Item = TypeVar("Item")


def run_task(task: StudyTask) -> list[EvaluationOutcome]:
    """What came of every model of a task, in order."""
    dataset = _load_rows(task)
    if not task.jobs[0].evaluation.requests:
        return _classify_rows(task, dataset)
    shelf = ArrayStore(task.store_folder / ARRAYS_FOLDER)
    return _compute_values(
        [
            _EvaluationWorker(job, EvaluationContext(job, shelf, dataset, task.seed))
            for job in task.jobs
        ]
    )


def _load_rows(task: StudyTask) -> Dataset:
    """The rows of a task, which must be here what they are where the study is run."""
    if task.rows.key != task.dataset_key:
        kept_rows.clear_cache()  # this process may have seen others before
    if task.rows.key != task.dataset_key:
        raise InputError(
            f"The rows of {task.rows.name!r} differ from those of the process that runs the study. "
            "Make the same files available to every worker."
        )
    return task.rows.dataset()


@dataclass(eq=False)
class _TaskLog:
    """What came of one model in a task so far."""

    job: EvaluationJob
    results: list[ResultRecord] = field(default_factory=list)
    errors: list[Exception] = field(default_factory=list)

    @contextmanager
    def catch_errors(self) -> Iterator[None]:
        """What goes wrong is written down; but for a package that no other model would find."""
        try:
            yield
        except MissingExtra:
            raise
        except Exception as error:
            self.errors.append(error)

    def outcome(self, predictions: Predictions | None = None) -> EvaluationOutcome:
        """All of it, for the store."""
        failure = None
        if self.errors:
            traces = ["".join(traceback.format_exception(error)) for error in self.errors]
            failure = FailureRecord(format_error(self.errors[0]), "\n".join(traces))
        return EvaluationOutcome(*self.job.unit.key_pair, predictions, tuple(self.results), failure)


# Asking -----------------------------------------------------------------------------------------


def _classify_rows(task: StudyTask, dataset: Dataset) -> list[EvaluationOutcome]:
    """What all models say of the rows, which are read once for all of them."""
    asked = [_PredictionWorker(job) for job in task.jobs]
    for one in asked:
        one.open_model()
    with limit_to_one_thread():
        for inputs in dataset.batches(DEFAULT_BATCH_ROWS):
            for one in asked:
                one.predict(inputs)
    return [one.finish() for one in asked]


class _PredictionWorker(_TaskLog):
    """A model that is shown rows."""

    model: Model | None = None

    def __init__(self, job: EvaluationJob) -> None:
        super().__init__(job)
        self.parts: list[Predictions] = []

    def open_model(self) -> None:
        with self.catch_errors():
            self.model = self.job.unit.model.load()

    def predict(self, inputs: Inputs) -> None:
        if self.model is None or self.errors:
            return
        with self.catch_errors():
            name = self.job.unit.model.name
            self.parts.append(predict_batch(self.model, inputs, name))
            check_consistent_outputs(self.parts[0], self.parts[-1], name)

    def finish(self) -> EvaluationOutcome:
        if not self.errors:
            with self.catch_errors():
                return self.outcome(_check_classes(concat_predictions(self.parts), self.job))
        return self.outcome()


def _check_classes(found: Predictions, job: EvaluationJob) -> Predictions:
    """All that a model said, if it is of the classes of the domain."""
    rows, classes = job.unit.rows, job.unit.rows.domain.group.classes
    if found.scores is None and found.class_names is None and found.k < len(classes):
        # Which classes there are was known from those that it has said alone.
        found = replace(found, k=len(classes))
    if found.k != len(classes):
        raise InputError(
            f"The model {job.unit.model.name!r} tells {found.k} classes apart, and {rows.name!r} "
            f"has {len(classes)}. Give a model of these classes."
        )
    labels_for_model(rows.record().labels, classes, found.class_names)
    return found


# Values -----------------------------------------------------------------------------------------


def _compute_values(desks: Sequence[_EvaluationWorker]) -> list[EvaluationOutcome]:
    able = [desk for desk in desks if desk.open_model()]
    with limit_to_one_thread():
        for desk in desks:
            desk.compute_measures(heavy=desk in able)
            desk.compute_estimates()
        for one in dict.fromkeys(one for desk in able for one in desk.requests_of("invariance")):
            some = [desk for desk in able if one in desk.requests_of("invariance")]
            _run_together(partial(_compute_invariance, one), some, _EvaluationWorker.catch_errors)
    return [desk.outcome() for desk in desks]


def _run_together(
    work: Callable[[Sequence[Item]], None],
    items: Sequence[Item],
    noted: Callable[[Item], AbstractContextManager[None]],
) -> None:
    """Work on all items together; if that fails, on each alone: whose fault it is will show."""
    if len(items) > 1:
        try:
            return work(items)
        except MissingExtra:
            raise
        except Exception:
            pass
    for one in items:
        with noted(one):
            work([one])
    return None


class _Stopwatch:
    """How many seconds passed since it was last asked."""

    def __init__(self) -> None:
        self._last = time.perf_counter()

    def __call__(self) -> float:
        before, self._last = self._last, time.perf_counter()
        return self._last - before


class _EvaluationWorker(_TaskLog):
    """Where values of one model are made."""

    def __init__(self, job: EvaluationJob, case: EvaluationContext) -> None:
        super().__init__(job)
        self.case = case
        self.stopwatch = _Stopwatch()

    def requests_of(self, *families: str) -> list[RequestedValue]:
        """What is wanted of some families."""
        return [one for one in self.job.evaluation.requests if one.family in families]

    def open_model(self) -> bool:
        """Whether the model is at hand, if it is to be asked; opened before threads are counted."""
        if all(one.needs_only_predictions for one in self.job.evaluation.requests):
            return False
        model = None
        with self.catch_errors():
            model = self.case.model
        return model is not None

    def compute_measures(self, *, heavy: bool) -> None:
        """Accuracy, metrics and measures; those that ask the model only if it is at hand."""
        make = {
            "accuracy": lambda case, _: compute.compute_accuracy(case),
            "metric": compute.compute_metric,
            "measure": compute.compute_measure,
        }
        for one in self.requests_of(*make):
            if one.needs_only_predictions or heavy:
                with self.catch_errors():
                    self.stopwatch()
                    self.add_result(one, make[one.family](self.case, one), self.stopwatch())

    def compute_estimates(self) -> None:
        """What estimators say, those of one temperature at once."""
        wanted = self.requests_of("estimator")
        for temperature in dict.fromkeys(one.option for one in wanted):
            some = [one for one in wanted if one.option == temperature]
            _run_together(self._compute_together, some, lambda one: self.catch_errors())

    def _compute_together(self, wanted: Sequence[RequestedValue]) -> None:
        self.stopwatch()
        found = list(compute.compute_estimates(self.case, wanted))
        seconds = self.stopwatch() / len(found)
        for one, value in found:
            self.add_result(one, value, seconds)

    def add_result(
        self,
        request: RequestedValue,
        computed: ComputedValue,
        seconds: float,
        name: str | None = None,
    ) -> None:
        """Write down a value."""
        result = self.case.to_result(request, name or request.names[0], computed, seconds)
        self.results.append(result)


def _compute_invariance(wanted: RequestedValue, desks: Sequence[_EvaluationWorker]) -> None:
    """Neighborhoods that are drawn once and shown to all models."""
    lap, case = _Stopwatch(), desks[0].case
    found = invariance(
        {desk.case.name: desk.case.model for desk in desks},
        case.dataset,
        transform=wanted.component,
        draws=wanted.option,
        seed=case.seed,
    )
    seconds = lap() / (len(desks) * len(wanted.names))
    for desk, one in zip(desks, found, strict=True):
        for name, value in zip(wanted.names, compute.invariance_values(one), strict=True):
            desk.add_result(wanted, value, seconds, name)
