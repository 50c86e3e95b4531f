"""How values are made of what a model says: accuracy, metrics, estimates, measures, invariance."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from oodometer.assessment import estimates
from oodometer.core.errors import NoAnswer
from oodometer.core.predictions import Predictions
from oodometer.core.protocols import Dataset, Estimate, Model, Score
from oodometer.core.softmax_kernels import Array
from oodometer.core.stats import wilson
from oodometer.data._concat_dataset import Joined
from oodometer.measures.subject import Subject, scored
from oodometer.metrics import scored as metric_scored
from oodometer.models.inference import ROWS, joined, said
from oodometer.models.model_view import Given, View
from oodometer.neighborhood.results import MEASURES, Invariance
from oodometer.studies.plan import Job, Unit
from oodometer.studies.requested_values import Wanted
from oodometer.studies.splits import training_rows
from oodometer.studies.store import Result
from oodometer.studies.store.array_store import Shelf
from oodometer.studies.store.records import labels_of
from oodometer.studies.study_models import OPEN

# What a measure of the training data is given of them.
LEARNED = 5000
NO_PEER = "no model of the study differs from it in the seed alone"


@dataclass(frozen=True)
class Found:
    """A value with its interval, or the reason why there is none."""

    value: float | None
    low: float | None = None
    high: float | None = None
    reason: str | None = None
    facts: Mapping[str, Any] | None = None

    @classmethod
    def of(cls, one: Estimate | Score, facts: Mapping[str, Any] | None = None) -> Found:
        """What an estimator, a metric or a measure gave, and other facts of it."""
        told: dict[str, Any] = {**(facts or {}), **one.facts}
        by_class = getattr(one, "by_class", {})
        told |= {"notes": list(one.notes)} if one.notes else {}
        told |= {"by_class": dict(by_class)} if by_class else {}
        return cls(one.value, one.low, one.high, facts=told)


@dataclass(frozen=True, eq=False)
class Case:
    """One model on the rows of a task, and all that is known of both; made as it is asked for."""

    job: Job
    shelf: Shelf
    dataset: Dataset
    seed: int

    @property
    def name(self) -> str:
        """The model's."""
        return self.job.unit.member.name

    @property
    def model(self) -> Model:
        """The model itself."""
        return self.job.unit.member.opened()

    @cached_property
    def outputs(self) -> Predictions:
        """What it says of the rows, labelled."""
        return self._read(self.job.unit)

    @cached_property
    def source(self) -> Predictions:
        """What it says of its source, labelled."""
        parts = [self._read(unit) for unit in self.job.evaluation.sources]
        labels: list[Array] = [part.labels for part in parts if part.labels is not None]
        return joined(parts, np.concatenate(labels))

    @property
    def peer(self) -> Predictions | None:
        """What the second model says of the rows, if there is one."""
        second = self.job.evaluation.peer
        return None if second is None else self._read(second)

    @cached_property
    def outer(self) -> Subject:
        """It with its source and its target as outputs alone; the target's labels can't be read."""
        source = Given("source", outputs=self.source, domains=self.domains, seed=self.seed)
        target = self.outputs.without_labels()
        new = Given(self.job.unit.rows.name, outputs=target, labelled=False, seed=self.seed)
        return Subject(View(source), View(new), None, self.seed)

    @cached_property
    def inner(self) -> Subject:
        """The same, to be looked into."""
        new = replace(self.outer.target.given, dataset=self.dataset, model=self.model)
        return Subject(_source_view(_Looked.of(self)), View(new), None, self.seed)

    @property
    def domains(self) -> Array:
        """The name of every source row's domain."""
        units = self.job.evaluation.sources
        sizes = [len(unit.rows.dataset()) for unit in units]
        return np.repeat([unit.rows.domain.name for unit in units], sizes)

    def _read(self, unit: Unit) -> Predictions:
        return self.job.references[unit.pair].read(self.shelf)

    def result(self, wanted: Wanted, name: str, found: Found, seconds: float) -> Result:
        """What is written down of a value."""
        evaluation, (model, dataset) = self.job.evaluation, self.job.unit.pair
        return Result(
            model=model,
            source=evaluation.source if wanted.sourced else "",
            dataset=dataset,
            tested_on=self.job.unit.rows.name,
            measure=name,
            settings=evaluation.settings(wanted),
            value=found.value,
            low=found.low,
            high=found.high,
            reason=found.reason,
            facts=found.facts or {},
            seconds=seconds,
        )


# Of one model -----------------------------------------------------------------------------------


def accuracy(case: Case) -> Found:
    """The share of right answers, with Wilson's interval."""
    right, n = int(np.count_nonzero(case.outputs.correct)), case.outputs.n
    return Found(right / n, *wilson(right, n))


def metric(case: Case, wanted: Wanted) -> Found:
    """A metric, of kept predictions alone where these are enough."""
    given = Given(case.job.unit.rows.name, outputs=case.outputs, seed=case.seed)
    if not wanted.light:
        given = Given(given.name, case.dataset, case.model, outputs=case.outputs, seed=case.seed)
    try:
        return Found.of(metric_scored(wanted.thing, View(given)))
    except NoAnswer as refusal:
        return Found(None, reason=str(refusal))


def estimated(case: Case, wanted: Sequence[Wanted]) -> Iterator[tuple[Wanted, Found]]:
    """What estimators of one temperature say."""
    target, peer = case.outputs, None
    if any(one.compares for one in wanted):
        peer = case.peer
        target = target if peer is None else target.with_peers(peer)
    found, refused = estimates(
        [one.thing for one in wanted],
        case.source,
        target,
        temperature="fit" if wanted[0].option == "fit" else None,
        seed=case.seed,
    )
    for one in wanted:
        name = one.thing.name
        if name in found:
            yield one, Found.of(found[name], {"temperature": found[name].temperature})
        else:
            lone = one.compares and peer is None
            yield one, Found(None, reason=NO_PEER if lone else refused[name])


def measured(case: Case, wanted: Wanted) -> Found:
    """What a measure says of a model with its source and its target.

    The training data are given only to who needs them: the papers' S is the source here.
    """
    subject = case.outer if wanted.light else case.inner
    try:
        if "training data" in wanted.thing.needs:
            subject = replace(subject, training=_training(case))
        return Found.of(scored(wanted.thing, subject))
    except NoAnswer as refusal:
        return Found(None, reason=str(refusal))


@dataclass(frozen=True)
class _Looked:
    """A source as a model looks at it: one of all its test domains."""

    key: tuple[str, str, int]
    case: Case

    @classmethod
    def of(cls, case: Case) -> _Looked:
        return cls((case.job.unit.member.key, case.job.evaluation.source, case.seed), case)

    def __hash__(self) -> int:
        return hash(self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Looked) and self.key == other.key


@lru_cache(maxsize=OPEN)
def _source_view(looked: _Looked) -> View:
    """The source of a model; what is computed of it serves all test domains."""
    case = looked.case
    parts = tuple(unit.rows.dataset() for unit in case.job.evaluation.sources)
    whole = parts[0] if len(parts) == 1 else Joined("source", parts)
    return View(replace(case.outer.source.given, dataset=whole, model=case.model))


def _training(case: Case) -> View:
    trained = case.job.unit.member.trained
    rows = training_rows(trained, LEARNED, case.seed)
    parts = [said(case.model, inputs, case.name) for inputs in rows.batches(ROWS)]
    labels = labels_of(np.asarray(rows.labels), trained[0].group.classes, parts[0].class_names)
    return View(
        Given("training data", rows, case.model, outputs=joined(parts, labels), seed=case.seed)
    )


def forget() -> None:
    """Let go of what models were looking at."""
    _source_view.cache_clear()


# Of several models ------------------------------------------------------------------------------


def readings(one: Invariance) -> Iterator[Found]:
    """Every reading of one model's neighborhoods, in the order of MEASURES."""
    top, share = one.top_class
    facts = {
        "entropy_difference": one.entropy_difference,
        "constant_share": one.constant_share,
        "top_class": top,
        "top_class_share": share,
    }
    for name in MEASURES:
        try:
            reading = one.reading(name)
        except NoAnswer as refusal:
            yield Found(None, reason=str(refusal), facts=facts)
        else:
            yield Found(reading.value, reading.low, reading.high, facts=facts)
