"""How values are made of what a model says: accuracy, metrics, estimates, measures, invariance."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from oodometer.assessment import estimates
from oodometer.core.array_types import Array
from oodometer.core.errors import NotApplicable
from oodometer.core.predictions import Predictions
from oodometer.core.protocols import Dataset, Model
from oodometer.core.results import Estimate, Score
from oodometer.core.stats import wilson_interval
from oodometer.data.dataset import ConcatDataset
from oodometer.measures.subject import Subject, measure_one
from oodometer.metrics import evaluate_metric as metric_scored
from oodometer.models.inference import concat_predictions, predict_dataset
from oodometer.models.model_view import ModelView, ViewSource
from oodometer.neighborhood.results import MEASURES, ModelInvariance
from oodometer.studies.plan import EvaluationJob, ModelOnRows
from oodometer.studies.requested_values import RequestedValue
from oodometer.studies.splits import training_rows
from oodometer.studies.store import ResultRecord
from oodometer.studies.store.array_store import ArrayStore
from oodometer.studies.store.records import labels_for_model
from oodometer.studies.study_models import MAX_OPEN_MODELS

# What a measure of the training data is given of them.
MAX_TRAINING_ROWS = 5000
NO_OTHER_MODEL = "no model of the study differs from it in the seed alone"


@dataclass(frozen=True)
class ComputedValue:
    """A value with its interval, or the reason why there is none."""

    value: float | None
    low: float | None = None
    high: float | None = None
    reason: str | None = None
    facts: Mapping[str, Any] | None = None

    @classmethod
    def from_score(
        cls, score: Estimate | Score, facts: Mapping[str, Any] | None = None
    ) -> ComputedValue:
        """What an estimator, a metric or a measure gave, and other facts of it."""
        told: dict[str, Any] = {**(facts or {}), **score.facts}
        by_class = getattr(score, "by_class", {})
        told |= {"notes": list(score.notes)} if score.notes else {}
        told |= {"by_class": dict(by_class)} if by_class else {}
        return cls(score.value, score.low, score.high, facts=told)


@dataclass(frozen=True, eq=False)
class EvaluationContext:
    """One model on the rows of a task, and all that is known of both; made as it is asked for."""

    job: EvaluationJob
    array_store: ArrayStore
    dataset: Dataset
    seed: int

    @property
    def name(self) -> str:
        """The model's."""
        return self.job.unit.model.name

    @property
    def model(self) -> Model:
        """The model itself."""
        return self.job.unit.model.load()

    @cached_property
    def outputs(self) -> Predictions:
        """What it says of the rows, labelled."""
        return self._read_predictions(self.job.unit)

    @cached_property
    def source(self) -> Predictions:
        """What it says of its source, labelled."""
        parts = [self._read_predictions(unit) for unit in self.job.evaluation.sources]
        labels: list[Array] = [part.labels for part in parts if part.labels is not None]
        return concat_predictions(parts, np.concatenate(labels))

    @property
    def other_model(self) -> Predictions | None:
        """What the second model says of the rows, if there is one."""
        second = self.job.evaluation.other_model
        return None if second is None else self._read_predictions(second)

    @cached_property
    def prediction_subject(self) -> Subject:
        """It with its source and its target as outputs alone; the target's labels can't be read."""
        source = ViewSource("source", outputs=self.source, domains=self.domains, seed=self.seed)
        target = self.outputs.without_labels()
        new = ViewSource(self.job.unit.rows.name, outputs=target, labelled=False, seed=self.seed)
        return Subject(ModelView(source), ModelView(new), None, self.seed)

    @cached_property
    def model_subject(self) -> Subject:
        """The same, to be looked into."""
        new = replace(
            self.prediction_subject.target.view_source, dataset=self.dataset, model=self.model
        )
        return Subject(_source_view(_SourceViewKey.for_case(self)), ModelView(new), None, self.seed)

    @property
    def domains(self) -> Array:
        """The name of every source row's domain."""
        units = self.job.evaluation.sources
        sizes = [len(unit.rows.dataset()) for unit in units]
        return np.repeat([unit.rows.domain.name for unit in units], sizes)

    def _read_predictions(self, unit: ModelOnRows) -> Predictions:
        return self.job.references[unit.key_pair].read(self.array_store)

    def to_result(
        self, request: RequestedValue, name: str, computed: ComputedValue, seconds: float
    ) -> ResultRecord:
        """What is written down of a value."""
        evaluation, (model, dataset) = self.job.evaluation, self.job.unit.key_pair
        return ResultRecord(
            model=model,
            source=evaluation.source_key if request.needs_source else "",
            dataset=dataset,
            tested_on=self.job.unit.rows.name,
            measure=name,
            settings=evaluation.settings_key(request),
            value=computed.value,
            low=computed.low,
            high=computed.high,
            reason=computed.reason,
            facts=computed.facts or {},
            seconds=seconds,
        )


# Of one model -----------------------------------------------------------------------------------


def compute_accuracy(case: EvaluationContext) -> ComputedValue:
    """The share of right answers, with Wilson's interval."""
    right, n = int(np.count_nonzero(case.outputs.correct)), case.outputs.n
    return ComputedValue(right / n, *wilson_interval(right, n))


def compute_metric(case: EvaluationContext, request: RequestedValue) -> ComputedValue:
    """A metric, of kept predictions alone where these are enough."""
    given = ViewSource(case.job.unit.rows.name, outputs=case.outputs, seed=case.seed)
    if not request.needs_only_predictions:
        given = ViewSource(
            given.name, case.dataset, case.model, outputs=case.outputs, seed=case.seed
        )
    try:
        return ComputedValue.from_score(metric_scored(request.component, ModelView(given)))
    except NotApplicable as refusal:
        return ComputedValue(None, reason=str(refusal))


def compute_estimates(
    case: EvaluationContext, requests: Sequence[RequestedValue]
) -> Iterator[tuple[RequestedValue, ComputedValue]]:
    """What estimators of one temperature say."""
    target, peer = case.outputs, None
    if any(one.needs_other_model for one in requests):
        peer = case.other_model
        target = target if peer is None else target.with_other_models(peer)
    found, refused = estimates(
        case.source,
        target,
        methods=[one.component for one in requests],
        temperature="fit" if requests[0].option == "fit" else None,
        seed=case.seed,
    )
    for one in requests:
        name = one.component.name
        if name in found:
            yield (
                one,
                ComputedValue.from_score(found[name], {"temperature": found[name].temperature}),
            )
        else:
            lone = one.needs_other_model and peer is None
            yield one, ComputedValue(None, reason=NO_OTHER_MODEL if lone else refused[name])


def compute_measure(case: EvaluationContext, request: RequestedValue) -> ComputedValue:
    """What a measure says of a model with its source and its target.

    The training data are given only to who needs them: the papers' S is the source here.
    """
    subject = case.prediction_subject if request.needs_only_predictions else case.model_subject
    try:
        if "training data" in request.component.needs:
            subject = replace(subject, training=_training_view(case))
        return ComputedValue.from_score(measure_one(request.component, subject))
    except NotApplicable as refusal:
        return ComputedValue(None, reason=str(refusal))


@dataclass(frozen=True)
class _SourceViewKey:
    """A source as a model looks at it: one of all its test domains."""

    key: tuple[str, str, int]
    case: EvaluationContext

    @classmethod
    def for_case(cls, case: EvaluationContext) -> _SourceViewKey:
        return cls((case.job.unit.model.key, case.job.evaluation.source_key, case.seed), case)

    def __hash__(self) -> int:
        return hash(self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _SourceViewKey) and self.key == other.key


@lru_cache(maxsize=MAX_OPEN_MODELS)
def _source_view(looked: _SourceViewKey) -> ModelView:
    """The source of a model; what is computed of it serves all test domains."""
    case = looked.case
    parts = tuple(unit.rows.dataset() for unit in case.job.evaluation.sources)
    whole = parts[0] if len(parts) == 1 else ConcatDataset("source", parts)
    return ModelView(
        replace(case.prediction_subject.source.view_source, dataset=whole, model=case.model)
    )


def _training_view(case: EvaluationContext) -> ModelView:
    trained = case.job.unit.model.training_domains
    rows = training_rows(trained, MAX_TRAINING_ROWS, case.seed)
    outputs = predict_dataset(case.model, rows, labelled=False)
    labels = labels_for_model(
        np.asarray(rows.labels), trained[0].group.classes, outputs.class_names
    )
    return ModelView(
        ViewSource(
            "training data",
            rows,
            case.model,
            outputs=concat_predictions([outputs], labels),
            seed=case.seed,
        )
    )


def clear_cache() -> None:
    """Let go of what models were looking at."""
    _source_view.cache_clear()


# Of several models ------------------------------------------------------------------------------


def invariance_values(model_invariance: ModelInvariance) -> Iterator[ComputedValue]:
    """Every reading of one model's neighborhoods, in the order of MEASURES."""
    top, share = model_invariance.top_class
    facts = {
        "entropy_difference": model_invariance.entropy_difference,
        "constant_share": model_invariance.constant_share,
        "top_class": top,
        "top_class_share": share,
    }
    for name in MEASURES:
        try:
            reading = model_invariance.mean_with_interval(name)
        except NotApplicable as refusal:
            yield ComputedValue(None, reason=str(refusal), facts=facts)
        else:
            yield ComputedValue(reading.value, reading.low, reading.high, facts=facts)
