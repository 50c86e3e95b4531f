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

from oodometer.core.errors import InputError, MissingExtra, reason_of
from oodometer.core.inputs import Inputs
from oodometer.core.predictions import Predictions
from oodometer.core.protocols import Dataset, Model
from oodometer.models.inference import ROWS, check_alike, joined, said
from oodometer.neighborhood import invariance
from oodometer.parallel._thread_limits import one_thread
from oodometer.studies import compute
from oodometer.studies import splits as kept_rows
from oodometer.studies.compute import Case, Found
from oodometer.studies.plan import Job, Task
from oodometer.studies.requested_values import Wanted
from oodometer.studies.store import Failure, Outcome, Result
from oodometer.studies.store.array_store import Shelf
from oodometer.studies.store.records import labels_of
from oodometer.studies.store.store import ARRAYS

Item = TypeVar("Item")


def do_task(task: Task) -> list[Outcome]:
    """What came of every model of a task, in order."""
    dataset = _same_rows(task)
    if not task.jobs[0].evaluation.wanted:
        return _classified(task, dataset)
    shelf = Shelf(task.folder / ARRAYS)
    return _valued([_Desk(job, Case(job, shelf, dataset, task.seed)) for job in task.jobs])


def _same_rows(task: Task) -> Dataset:
    """The rows of a task, which must be here what they are where the study is run."""
    if task.rows.key != task.dataset:
        kept_rows.forget()  # this process may have seen others before
    if task.rows.key != task.dataset:
        raise InputError(
            f"The rows of {task.rows.name!r} are not the same here as where the study is run. Give "
            "every worker the same files."
        )
    return task.rows.dataset()


@dataclass(eq=False)
class _Log:
    """What came of one model in a task so far."""

    job: Job
    results: list[Result] = field(default_factory=list)
    errors: list[Exception] = field(default_factory=list)

    @contextmanager
    def noted(self) -> Iterator[None]:
        """What goes wrong is written down; but for a package that no other model would find."""
        try:
            yield
        except MissingExtra:
            raise
        except Exception as error:
            self.errors.append(error)

    def outcome(self, predictions: Predictions | None = None) -> Outcome:
        """All of it, for the store."""
        failure = None
        if self.errors:
            traces = ["".join(traceback.format_exception(error)) for error in self.errors]
            failure = Failure(reason_of(self.errors[0]), "\n".join(traces))
        return Outcome(*self.job.unit.pair, predictions, tuple(self.results), failure)


# Asking -----------------------------------------------------------------------------------------


def _classified(task: Task, dataset: Dataset) -> list[Outcome]:
    """What all models say of the rows, which are read once for all of them."""
    asked = [_Asked(job) for job in task.jobs]
    for one in asked:
        one.open()
    with one_thread():
        for inputs in dataset.batches(ROWS):
            for one in asked:
                one.show(inputs)
    return [one.finished() for one in asked]


class _Asked(_Log):
    """A model that is shown rows."""

    model: Model | None = None

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        self.parts: list[Predictions] = []

    def open(self) -> None:
        with self.noted():
            self.model = self.job.unit.member.opened()

    def show(self, inputs: Inputs) -> None:
        if self.model is None or self.errors:
            return
        with self.noted():
            name = self.job.unit.member.name
            self.parts.append(said(self.model, inputs, name))
            check_alike(self.parts[0], self.parts[-1], name)

    def finished(self) -> Outcome:
        if not self.errors:
            with self.noted():
                return self.outcome(_fit(joined(self.parts), self.job))
        return self.outcome()


def _fit(found: Predictions, job: Job) -> Predictions:
    """All that a model said, if it is of the classes of the domain."""
    rows, classes = job.unit.rows, job.unit.rows.domain.group.classes
    if found.scores is None and found.class_names is None and found.k < len(classes):
        # Which classes there are was known from those that it has said alone.
        found = replace(found, k=len(classes))
    if found.k != len(classes):
        raise InputError(
            f"The model {job.unit.member.name!r} tells {found.k} classes apart, and {rows.name!r} "
            f"has {len(classes)}. Give a model of these classes."
        )
    labels_of(rows.record().labels, classes, found.class_names)
    return found


# Values -----------------------------------------------------------------------------------------


def _valued(desks: Sequence[_Desk]) -> list[Outcome]:
    able = [desk for desk in desks if desk.opened()]
    with one_thread():
        for desk in desks:
            desk.measure(heavy=desk in able)
            desk.estimate()
        for one in dict.fromkeys(one for desk in able for one in desk.wanted("invariance")):
            some = [desk for desk in able if one in desk.wanted("invariance")]
            _at_once(partial(_stir, one), some, _Desk.noted)
    return [desk.outcome() for desk in desks]


def _at_once(
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


class _Desk(_Log):
    """Where values of one model are made."""

    def __init__(self, job: Job, case: Case) -> None:
        super().__init__(job)
        self.case = case
        self.lap = _Stopwatch()

    def wanted(self, *families: str) -> list[Wanted]:
        """What is wanted of some families."""
        return [one for one in self.job.evaluation.wanted if one.family in families]

    def opened(self) -> bool:
        """Whether the model is at hand, if it is to be asked; opened before threads are counted."""
        if all(one.light for one in self.job.evaluation.wanted):
            return False
        model = None
        with self.noted():
            model = self.case.model
        return model is not None

    def measure(self, *, heavy: bool) -> None:
        """Accuracy, metrics and measures; those that ask the model only if it is at hand."""
        make = {
            "accuracy": lambda case, _: compute.accuracy(case),
            "metric": compute.metric,
            "measure": compute.measured,
        }
        for one in self.wanted(*make):
            if one.light or heavy:
                with self.noted():
                    self.lap()
                    self.keep(one, make[one.family](self.case, one), self.lap())

    def estimate(self) -> None:
        """What estimators say, those of one temperature at once."""
        wanted = self.wanted("estimator")
        for temperature in dict.fromkeys(one.option for one in wanted):
            some = [one for one in wanted if one.option == temperature]
            _at_once(self._estimate, some, lambda one: self.noted())

    def _estimate(self, wanted: Sequence[Wanted]) -> None:
        self.lap()
        found = list(compute.estimated(self.case, wanted))
        seconds = self.lap() / len(found)
        for one, value in found:
            self.keep(one, value, seconds)

    def keep(self, wanted: Wanted, found: Found, seconds: float, name: str | None = None) -> None:
        """Write down a value."""
        result = self.case.result(wanted, name or wanted.names[0], found, seconds)
        self.results.append(result)


def _stir(wanted: Wanted, desks: Sequence[_Desk]) -> None:
    """Neighborhoods that are drawn once and shown to all models."""
    lap, case = _Stopwatch(), desks[0].case
    found = invariance(
        {desk.case.name: desk.case.model for desk in desks},
        case.dataset,
        wanted.thing,
        draws=wanted.option,
        seed=case.seed,
    )
    seconds = lap() / (len(desks) * len(wanted.names))
    for desk, one in zip(desks, found, strict=True):
        for name, value in zip(wanted.names, compute.readings(one), strict=True):
            desk.keep(wanted, value, seconds, name)
