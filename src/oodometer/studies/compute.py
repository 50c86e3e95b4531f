"""Compute accuracy, metrics, estimates and measures of one model on one test domain."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from oodometer.assessment import FittedEstimators
from oodometer.core.array_types import Array, Ints
from oodometer.core.errors import NotApplicable
from oodometer.core.predictions import Predictions
from oodometer.core.protocols import Dataset, Model
from oodometer.core.results import Estimate, Score
from oodometer.core.stats import wilson_interval
from oodometer.data.dataset import ConcatDataset
from oodometer.measures.subject import Subject, measure_one
from oodometer.metrics import evaluate_metric
from oodometer.models.inference import concat_predictions, predict_dataset
from oodometer.models.model_view import ModelView, ViewSource
from oodometer.neighborhood.results import MEASURES, ModelInvariance
from oodometer.studies.domains.label_sets import accept_any_label, accepted_classes
from oodometer.studies.plan import EvaluationJob, ModelOnRows
from oodometer.studies.requested_values import RequestedValue
from oodometer.studies.splits import sample_rows, training_rows
from oodometer.studies.store import ResultRecord
from oodometer.studies.store.array_store import ArrayStore
from oodometer.studies.store.records import labels_for_model
from oodometer.studies.study_models import MAX_OPEN_HEADS, MAX_OPEN_MODELS

# Maximum number of training rows that are passed to a measure that needs training data.
MAX_TRAINING_ROWS = 5000
# Number of bootstrap replicates of confidence intervals.
REPLICATES = 200
# Maximum number of fitted sets of estimators in the cache, one per model and temperature mode. Two
# tasks on the same rows can hold different models.
MAX_CACHED_SOURCES = 4 * MAX_OPEN_HEADS
NO_OTHER_MODEL = "no other model of the study differs only in the seed"


@dataclass(frozen=True)
class ComputedValue:
    """Value with its confidence interval, or the reason why the value cannot be computed."""

    value: float | None
    low: float | None = None
    high: float | None = None
    reason: str | None = None
    facts: Mapping[str, Any] | None = None

    @classmethod
    def from_score(
        cls, score: Estimate | Score, facts: Mapping[str, Any] | None = None
    ) -> ComputedValue:
        """Return the computed value of an estimate, metric or measure; `facts` are added to it."""
        all_facts: dict[str, Any] = {**(facts or {}), **score.facts}
        if score.notes:
            all_facts["notes"] = list(score.notes)
        by_class = getattr(score, "by_class", {})
        if by_class:
            all_facts["by_class"] = dict(by_class)
        return cls(score.value, score.low, score.high, facts=all_facts)


@dataclass(frozen=True, eq=False)
class EvaluationContext:
    """One model on the rows of a task; predictions and views are loaded on first access.

    `sample` holds the numbers of the rows in `dataset` if these are a sample of the test rows.
    """

    job: EvaluationJob
    array_store: ArrayStore
    dataset: Dataset
    seed: int
    sample: Ints | None = None

    @property
    def name(self) -> str:
        return self.job.unit.model.name

    @property
    def model(self) -> Model:
        return self.job.load_model(self.dataset)

    @cached_property
    def outputs(self) -> Predictions:
        """Predictions on the test rows, with labels."""
        outputs = self._read_predictions(self.job.unit)
        return outputs if self.sample is None else outputs.rows(self.sample)

    @cached_property
    def source(self) -> Predictions:
        """Predictions on the source rows, with labels."""
        parts = [self._read_predictions(unit) for unit in self.job.evaluation.sources]
        labels: list[Array] = [part.labels for part in parts if part.labels is not None]
        return concat_predictions(parts, np.concatenate(labels))

    @property
    def other_model(self) -> Predictions | None:
        """Predictions of the second model on the test rows; None without a second model."""
        other_model = self.job.evaluation.other_model
        return None if other_model is None else self._read_predictions(other_model)

    def on_sample(self, max_rows: int | None) -> EvaluationContext:
        """Return the same model on a random sample of the rows, which is drawn once."""
        if max_rows is None or max_rows >= len(self.dataset):
            return self
        if max_rows not in self._samples:
            rows = sample_rows(self.dataset.keys, max_rows, self.seed)
            self._samples[max_rows] = replace(self, dataset=self.dataset.rows(rows), sample=rows)
        return self._samples[max_rows]

    @cached_property
    def _samples(self) -> dict[int, EvaluationContext]:
        return {}

    @cached_property
    def prediction_subject(self) -> Subject:
        """Input of measures that need only predictions; the target has no labels."""
        source = ViewSource("source", outputs=self.source, domains=self.domains, seed=self.seed)
        target = ViewSource(
            self.job.unit.rows.name,
            outputs=self.outputs.without_labels(),
            labelled=False,
            seed=self.seed,
        )
        return Subject(ModelView(source), ModelView(target), None, self.seed)

    @cached_property
    def model_subject(self) -> Subject:
        """Input of measures that also need the model itself and the input rows."""
        target = replace(
            self.prediction_subject.target.view_source, dataset=self.dataset, model=self.model
        )
        source = _source_view(_SourceKey.for_case(self))
        return Subject(source, ModelView(target), None, self.seed)

    @property
    def domains(self) -> Array:
        """Domain name of each source row."""
        units = self.job.evaluation.sources
        sizes = [len(unit.rows.dataset()) for unit in units]
        return np.repeat([unit.rows.domain.name for unit in units], sizes)

    def _read_predictions(self, unit: ModelOnRows) -> Predictions:
        predictions = self.job.references[unit.key_pair].read(self.array_store)
        accepted = accepted_classes(unit.rows.dataset())
        if accepted is None:
            return predictions
        return accept_any_label(predictions, accepted, unit.rows.domain.group.classes)

    def to_result(
        self, request: RequestedValue, name: str, computed: ComputedValue, seconds: float
    ) -> ResultRecord:
        """Return the record that is stored for a computed value."""
        evaluation = self.job.evaluation
        model, dataset = self.job.unit.key_pair
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


# Values of one model ----------------------------------------------------------------------------


def compute_accuracy(case: EvaluationContext) -> ComputedValue:
    """Return the accuracy with its Wilson interval."""
    n_correct = int(np.count_nonzero(case.outputs.correct))
    n = case.outputs.n
    return ComputedValue(n_correct / n, *wilson_interval(n_correct, n))


def compute_metric(case: EvaluationContext, request: RequestedValue) -> ComputedValue:
    """Return a metric; the model is loaded only if stored predictions are not sufficient."""
    view = ViewSource(case.job.unit.rows.name, outputs=case.outputs, seed=case.seed)
    if not request.needs_only_predictions:
        view = replace(view, dataset=case.dataset, model=case.model)
    try:
        return ComputedValue.from_score(evaluate_metric(request.component, ModelView(view)))
    except NotApplicable as error:
        return ComputedValue(None, reason=str(error))


def compute_estimates(
    case: EvaluationContext, requests: Sequence[RequestedValue]
) -> Iterator[tuple[RequestedValue, ComputedValue]]:
    """Yield the estimate of each request; all requests must have the same options."""
    target = case.outputs
    other_model = None
    if any(request.needs_other_model for request in requests):
        other_model = case.other_model
        target = target if other_model is None else target.with_other_models(other_model)
    results, reasons = _fitted_estimators(
        _SourceKey.for_case(case), tuple(requests), target.has_probs
    ).estimates(target)
    for request in requests:
        name = request.component.name
        if name in results:
            facts = {"temperature": results[name].temperature}
            yield request, ComputedValue.from_score(results[name], facts)
        else:
            no_other_model = request.needs_other_model and other_model is None
            reason = NO_OTHER_MODEL if no_other_model else reasons[name]
            yield request, ComputedValue(None, reason=reason)


def compute_measure(case: EvaluationContext, request: RequestedValue) -> ComputedValue:
    """Return the value of a measure for a model, its source and its target.

    Where a paper compares the target with the training data S, the source is used instead. Training
    data are passed only to measures that declare a need for them.
    """
    case = case.on_sample(request.option)
    subject = case.prediction_subject if request.needs_only_predictions else case.model_subject
    try:
        if "training data" in request.component.needs:
            subject = replace(subject, training=_training_view(case))
        return ComputedValue.from_score(measure_one(request.component, subject))
    except NotApplicable as error:
        return ComputedValue(None, reason=str(error))


@lru_cache(maxsize=MAX_CACHED_SOURCES)
def _fitted_estimators(
    key: _SourceKey, requests: tuple[RequestedValue, ...], target_has_probs: bool
) -> FittedEstimators:
    """Return estimators that have learned from a model's source; it is the same for all domains."""
    options = requests[0].option
    return FittedEstimators.fit(
        key.case.source,
        [request.component for request in requests],
        temperature="fit" if options.temperature == "fit" else None,
        # Papers compare scores before and after temperature scaling; a further calibration, which
        # `estimate` adds if it is needed, would blur this difference.
        calibration="temperature",
        target_has_probs=target_has_probs,
        seed=key.case.seed,
        replicates=REPLICATES if options.intervals else 0,
    )


@dataclass(frozen=True)
class _SourceKey:
    """Cache key of a model and its source, which are the same for all test domains of the model."""

    key: tuple[str, str, int]
    case: EvaluationContext

    @classmethod
    def for_case(cls, case: EvaluationContext) -> _SourceKey:
        key = (case.job.unit.model.key, case.job.evaluation.source_key, case.seed)
        return cls(key, replace(case))  # a copy without the predictions on the test rows

    def __hash__(self) -> int:
        return hash(self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _SourceKey) and self.key == other.key


@lru_cache(maxsize=MAX_OPEN_MODELS)
def _source_view(key: _SourceKey) -> ModelView:
    """Return the source view of a model, which is cached and reused for all test domains."""
    case = key.case
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
    """Clear the caches of source views and fitted estimators."""
    _source_view.cache_clear()
    _fitted_estimators.cache_clear()


# Values of several models -----------------------------------------------------------------------


def invariance_values(model_invariance: ModelInvariance) -> Iterator[ComputedValue]:
    """Yield the values of all neighborhood measures of one model, in the order of MEASURES."""
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
        except NotApplicable as error:
            yield ComputedValue(None, reason=str(error), facts=facts)
        else:
            yield ComputedValue(reading.value, reading.low, reading.high, facts=facts)
