"""Functions that a study's worker processes call: predict with models, or call compute.py.

If one model or one value fails, the failure is recorded, and the other models and values of the
task are still computed.
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
    group_by_rows,
    predict_batch,
)
from oodometer.neighborhood import invariance
from oodometer.parallel.runners import limit_to_one_thread
from oodometer.studies import compute, splits
from oodometer.studies.compute import ComputedValue, EvaluationContext
from oodometer.studies.plan import EvaluationJob, StudyTask
from oodometer.studies.requested_values import RequestedValue
from oodometer.studies.store import EvaluationOutcome, FailureRecord, ResultRecord
from oodometer.studies.store.array_store import ArrayStore
from oodometer.studies.store.records import labels_for_model
from oodometer.studies.store.store import ARRAYS_FOLDER

Item = TypeVar("Item")


def run_task(task: StudyTask) -> list[EvaluationOutcome]:
    """Execute a task; return one outcome per model, in the order of the jobs."""
    dataset = _load_rows(task)
    if not task.jobs[0].evaluation.requests:
        return _classify_rows(task, dataset)
    array_store = ArrayStore(task.store_folder / ARRAYS_FOLDER)
    return _compute_values(
        [
            _EvaluationWorker(job, EvaluationContext(job, array_store, dataset, task.seed))
            for job in task.jobs
        ]
    )


def _load_rows(task: StudyTask) -> Dataset:
    """Load the rows of a task; raise if their key differs from the key in the task."""
    if task.rows.key != task.dataset_key:
        splits.clear_cache()  # the files may have changed since this process read them
    if task.rows.key != task.dataset_key:
        raise InputError(
            f"The rows of {task.rows.name!r} differ from those of the process that runs the study. "
            "Make the same files available to every worker."
        )
    return task.rows.dataset()


@dataclass(eq=False)
class _TaskLog:
    """Results and errors that are collected for one model in a task."""

    job: EvaluationJob
    results: list[ResultRecord] = field(default_factory=list)
    errors: list[Exception] = field(default_factory=list)

    @contextmanager
    def catch_errors(self) -> Iterator[None]:
        """Record errors instead of raising them.

        A missing package is still raised, because all other models would fail for the same reason.
        """
        try:
            yield
        except MissingExtra:
            raise
        except Exception as error:
            self.errors.append(error)

    def outcome(self, predictions: Predictions | None = None) -> EvaluationOutcome:
        """Return the outcome that is stored for the model."""
        failure = None
        if self.errors:
            traces = ["".join(traceback.format_exception(error)) for error in self.errors]
            failure = FailureRecord(format_error(self.errors[0]), "\n".join(traces))
        return EvaluationOutcome(*self.job.unit.key_pair, predictions, tuple(self.results), failure)


# Predictions ------------------------------------------------------------------------------------


def _classify_rows(task: StudyTask, dataset: Dataset) -> list[EvaluationOutcome]:
    """Compute the predictions of all models; each batch of rows is read once for all models."""
    workers = [_PredictionWorker(job, dataset) for job in task.jobs]
    for worker in workers:
        worker.open_model()
    by_model = {str(at): worker for at, worker in enumerate(workers)}
    models = {at: worker.model for at, worker in by_model.items() if worker.model is not None}
    with limit_to_one_thread():
        for rows, group in group_by_rows(models, dataset):
            for inputs in rows.batches(DEFAULT_BATCH_ROWS):
                for at in group:
                    by_model[at].predict(inputs)
    return [worker.finish() for worker in workers]


class _PredictionWorker(_TaskLog):
    """Computation of the predictions of one model, batch by batch."""

    model: Model | None = None

    def __init__(self, job: EvaluationJob, dataset: Dataset) -> None:
        super().__init__(job)
        self.dataset = dataset
        self.parts: list[Predictions] = []

    def open_model(self) -> None:
        with self.catch_errors():
            self.model = self.job.load_model(self.dataset)

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


def _check_classes(predictions: Predictions, job: EvaluationJob) -> Predictions:
    """Return the predictions; raise if the classes of model and domain differ."""
    rows = job.unit.rows
    classes = rows.domain.group.classes
    only_classes = predictions.scores is None and predictions.class_names is None
    if only_classes and predictions.k < len(classes):
        # The model returns class numbers only, so the number of classes was inferred from the
        # predicted classes and can be too low.
        predictions = replace(predictions, k=len(classes))
    if predictions.k != len(classes):
        raise InputError(
            f"The model {job.unit.model.name!r} has {predictions.k} classes, and {rows.name!r} has "
            f"{len(classes)}. Use a model with these classes."
        )
    labels_for_model(rows.record().labels, classes, predictions.class_names)
    return predictions


# Values -----------------------------------------------------------------------------------------


def _compute_values(workers: Sequence[_EvaluationWorker]) -> list[EvaluationOutcome]:
    with_model = [worker for worker in workers if worker.open_model()]
    with limit_to_one_thread():
        for worker in workers:
            worker.compute_measures(has_model=worker in with_model)
            worker.compute_estimates()
        requests = [request for each in with_model for request in each.requests_of("invariance")]
        for request in dict.fromkeys(requests):
            _run_together(
                partial(_compute_invariance, request),
                [worker for worker in with_model if request in worker.requests_of("invariance")],
                _EvaluationWorker.catch_errors,
            )
    return [worker.outcome() for worker in workers]


def _run_together(
    work: Callable[[Sequence[Item]], None],
    items: Sequence[Item],
    catch_errors: Callable[[Item], AbstractContextManager[None]],
) -> None:
    """Process all items together; if this fails, process them one by one to find the cause."""
    if len(items) > 1:
        try:
            return work(items)
        except MissingExtra:
            raise
        except Exception:
            pass
    for item in items:
        with catch_errors(item):
            work([item])
    return None


class _Stopwatch:
    """Timer that returns the seconds since its previous call."""

    def __init__(self) -> None:
        self._last = time.perf_counter()

    def __call__(self) -> float:
        before, self._last = self._last, time.perf_counter()
        return self._last - before


class _EvaluationWorker(_TaskLog):
    """Computation of the requested values of one model."""

    def __init__(self, job: EvaluationJob, case: EvaluationContext) -> None:
        super().__init__(job)
        self.case = case
        self.stopwatch = _Stopwatch()

    def requests_of(self, *families: str) -> list[RequestedValue]:
        """Return the requests whose family (metric, estimator, …) is one of the given ones."""
        requests = self.job.evaluation.requests
        return [request for request in requests if request.family in families]

    def open_model(self) -> bool:
        """Load the model if a request needs it; return whether the model is available.

        Call this before the number of threads is limited.
        """
        if all(request.needs_only_predictions for request in self.job.evaluation.requests):
            return False
        model = None
        with self.catch_errors():
            model = self.case.model
        return model is not None

    def compute_measures(self, *, has_model: bool) -> None:
        """Compute accuracy, metrics and measures; without a model, skip those that need it."""
        for request in self.requests_of("accuracy", "metric", "measure"):
            if request.needs_only_predictions or has_model:
                with self.catch_errors():
                    self.stopwatch()
                    self.add_result(request, self._compute_measure(request), self.stopwatch())

    def _compute_measure(self, request: RequestedValue) -> ComputedValue:
        if request.family == "accuracy":
            return compute.compute_accuracy(self.case)
        if request.family == "metric":
            return compute.compute_metric(self.case, request)
        return compute.compute_measure(self.case, request)

    def compute_estimates(self) -> None:
        """Compute all estimates; those with the same options are computed together."""
        requests = self.requests_of("estimator")
        for option in dict.fromkeys(request.option for request in requests):
            same_option = [request for request in requests if request.option == option]
            _run_together(self._compute_together, same_option, lambda _: self.catch_errors())

    def _compute_together(self, requests: Sequence[RequestedValue]) -> None:
        self.stopwatch()
        values = list(compute.compute_estimates(self.case, requests))
        seconds = self.stopwatch() / len(values)
        for request, value in values:
            self.add_result(request, value, seconds)

    def add_result(
        self,
        request: RequestedValue,
        computed: ComputedValue,
        seconds: float,
        name: str | None = None,
    ) -> None:
        """Append the record of a computed value to the results."""
        result = self.case.to_result(request, name or request.names[0], computed, seconds)
        self.results.append(result)


def _compute_invariance(request: RequestedValue, workers: Sequence[_EvaluationWorker]) -> None:
    """Compute neighborhood measures; the samples are drawn once and used for all models.

    On a subsample of the rows, a transform still learns from all rows of the domain. The draws of a
    row are then the same for all models, which need not share the other rows of the subsample.
    """
    stopwatch = _Stopwatch()
    case = workers[0].case
    dataset, learned_from = case.dataset, None
    if request.option.rows is not None:
        dataset = dataset.rows(splits.sample_rows(dataset.keys, request.option.rows, case.seed))
        learned_from = case.job.unit.rows.whole_domain()
    results = invariance(
        {worker.case.name: worker.case.model for worker in workers},
        dataset,
        transform=request.component,
        draws=request.option.draws,
        identity=request.option.identity,
        transform_data=learned_from,
        seed=case.seed,
    )
    seconds = stopwatch() / (len(workers) * len(request.names))
    for worker, result in zip(workers, results, strict=True):
        for name, value in zip(request.names, compute.invariance_values(result), strict=True):
            worker.add_result(request, value, seconds, name)
