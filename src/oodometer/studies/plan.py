"""Plan of a study: list its evaluations, find those that are not stored yet, make tasks.

An evaluation is one model on one test domain.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from oodometer.core.errors import InputError
from oodometer.core.protocols import Dataset, Model
from oodometer.studies import splits as rows
from oodometer.studies import study_models
from oodometer.studies.domains.class_merging import adapt_model
from oodometer.studies.requested_values import RequestedValue
from oodometer.studies.spec import Study
from oodometer.studies.splits import Domain, DomainRows, combined_key
from oodometer.studies.store import PredictionReference, ResultKey
from oodometer.studies.study_models import StudyModel

# References to stored predictions, keyed by (model key, dataset key).
PredictionReferences = Mapping[tuple[str, str], PredictionReference]


@dataclass(frozen=True)
class ModelOnRows:
    """Model and the rows that it classifies; `dataset_key` identifies the rows in the store."""

    model: StudyModel
    rows: DomainRows
    dataset_key: str

    @property
    def key_pair(self) -> tuple[str, str]:
        return self.model.key, self.dataset_key


@dataclass(frozen=True)
class StudyEvaluation:
    """Evaluation of one model on one test domain.

    unit          the model and its test rows
    sources       the model and its source rows, one entry per training domain
    source_key    combined key of all source rows
    other_model   second model and the same test rows, for estimators that need a second model;
                  None if the study has no such model
    requests      values to compute
    """

    unit: ModelOnRows
    sources: tuple[ModelOnRows, ...]
    source_key: str
    other_model: ModelOnRows | None
    requests: tuple[RequestedValue, ...]

    @property
    def name(self) -> str:
        return f"{self.unit.model.name} on {self.unit.rows.name}"

    def result_keys(self, request: RequestedValue) -> list[ResultKey]:
        """Return the keys under which the results of a request are stored."""
        model, dataset = self.unit.key_pair
        source = self.source_key if request.needs_source else ""
        return [
            ResultKey(model, source, dataset, name, self.settings_key(request))
            for name in request.names
        ]

    def settings_key(self, request: RequestedValue) -> str:
        """Return a text with all settings that the values depend on.

        It does not include the model, the rows and the source, which have keys of their own.
        """
        if not request.needs_other_model:
            return request.settings
        return f"{request.settings}, second {self.other_model.model.key if self.other_model else 'none'}"

    def without_known(self, known_keys: Collection[ResultKey]) -> StudyEvaluation:
        """Return the evaluation without the requests whose results are all in `known_keys`."""
        requests = [
            request
            for request in self.requests
            if any(key not in known_keys for key in self.result_keys(request))
        ]
        return replace(self, requests=tuple(requests))

    def computable(self, prediction_keys: Collection[tuple[str, str]]) -> StudyEvaluation:
        """Return the evaluation without the requests that lack predictions.

        If only the predictions of the second model are missing, the requests that need the second
        model are dropped. If other predictions are missing, all requests are dropped.
        """
        single = [request for request in self.requests if not request.needs_other_model]
        for evaluation in (self, replace(self, requests=tuple(single))):
            required = evaluation.required_predictions()
            if all(unit.key_pair in prediction_keys for unit in required):
                return evaluation
        return replace(self, requests=())

    def required_predictions(self) -> Iterator[ModelOnRows]:
        """Yield the pairs of model and rows whose predictions are required, the test rows first."""
        yield self.unit
        if any(request.needs_source for request in self.requests):
            yield from self.sources
        if self.other_model is not None and any(
            request.needs_other_model for request in self.requests
        ):
            yield self.other_model

    def failure_reason(self, failures: Mapping[tuple[str, str], str]) -> str | None:
        """Return why a required prediction failed; None if no required prediction failed."""
        for unit in self.required_predictions():
            if unit.key_pair in failures:
                return failures[unit.key_pair]
        return None


@dataclass(frozen=True)
class StudyPlan:
    """All evaluations of a study, and the numbers of models that are not evaluated.

    `left_out` counts the models that did not converge, and `untrained` counts the models that are
    not trained yet.
    """

    evaluations: tuple[StudyEvaluation, ...]
    left_out: int
    untrained: int

    def result_keys(self) -> set[ResultKey]:
        """Return the keys of all results that the study requests."""
        return {
            key
            for evaluation in self.evaluations
            for request in evaluation.requests
            for key in evaluation.result_keys(request)
        }

    def pending(self, known_keys: Collection[ResultKey]) -> list[StudyEvaluation]:
        """Return the evaluations with missing results, each with only the missing requests."""
        reduced = (evaluation.without_known(known_keys) for evaluation in self.evaluations)
        return [evaluation for evaluation in reduced if evaluation.requests]


def plan_study(study: Study) -> StudyPlan:
    """Return the plan of a study for the models and data files that exist at this time."""
    rows.clear_cache()
    study_models.clear_cache()
    available = study.available_models()
    # Sort models with the same training domains together: they have the same source and test rows.
    models = sorted(available.models, key=lambda model: model.trained_on)
    trained_on = (domain for model in models for domain in model.training_domains)
    _check_files([*study.domains.values(), *trained_on])
    units = _EvaluationRows(study)
    other_models = available.other_models()
    evaluations = [
        _build_evaluation(units, model, name, other_models.get(model.key))
        for block in _model_blocks(models)
        for name in study.domains
        for model in block
    ]
    return StudyPlan(tuple(evaluations), available.left_out, available.untrained)


def _check_files(domains: Iterable[Domain]) -> None:
    for domain in dict.fromkeys(domains):
        reason = domain.group.missing_reason(domain.name)
        if reason is not None:
            raise InputError(reason)


def _model_blocks(models: Sequence[StudyModel]) -> Iterator[list[StudyModel]]:
    """Yield lists of models of one architecture that have the same training domains.

    A list is not longer than the number of models that a process keeps open.
    """
    groups: dict[tuple[str, tuple[str, ...]], list[StudyModel]] = {}
    for model in models:
        groups.setdefault((model.architecture, model.trained_on), []).append(model)
    for group in groups.values():
        size = group[0].max_per_task
        for start in range(0, len(group), size):
            yield group[start : start + size]


class _EvaluationRows:
    """Cache of test rows and source rows, shared by models with the same training domains."""

    def __init__(self, study: Study) -> None:
        self.study = study
        self._tested: dict[tuple[tuple[str, ...], str], tuple[DomainRows, str]] = {}
        self._sources: dict[tuple[str, ...], tuple[tuple[tuple[DomainRows, str], ...], str]] = {}

    def test_rows(self, member: StudyModel, name: str) -> ModelOnRows:
        """Return a model with the rows of a test domain on which it is evaluated."""
        place = (member.trained_on, name)
        if place not in self._tested:
            study = self.study
            whole = DomainRows(study.domains[name], study.split, name, study.rows, study.seed)
            own = whole.excluding_sources_of(member.training_domains)
            self._tested[place] = own, own.key
        return ModelOnRows(member, *self._tested[place])

    def source_rows(self, member: StudyModel) -> tuple[tuple[ModelOnRows, ...], str]:
        """Return the source rows for each training domain of a model, and their combined key."""
        place = member.trained_on
        if place not in self._sources:
            study = self.study
            parts = tuple(
                DomainRows(domain, "source", f"{name}, source", study.source_rows, study.seed)
                for domain, name in zip(member.training_domains, member.trained_on, strict=True)
            )
            self._sources[place] = tuple((rows, rows.key) for rows in parts), combined_key(parts)
        sources, key = self._sources[place]
        return tuple(ModelOnRows(member, *source) for source in sources), key


def _build_evaluation(
    units: _EvaluationRows, model: StudyModel, name: str, other_model: StudyModel | None
) -> StudyEvaluation:
    unit = units.test_rows(model, name)
    sources, source_key = units.source_rows(model)
    return StudyEvaluation(
        unit=unit,
        sources=sources,
        source_key=source_key,
        # A model that differs only in its seed has the same training domains and test rows.
        other_model=None if other_model is None else replace(unit, model=other_model),
        requests=units.study.requests_for(model, name),
    )


# Tasks ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class EvaluationJob:
    """Work on one model in a task, with references to the stored predictions that it needs.

    If the evaluation has no requests, the job is to compute the predictions of the model.
    """

    evaluation: StudyEvaluation
    references: PredictionReferences

    @property
    def unit(self) -> ModelOnRows:
        return self.evaluation.unit

    def load_model(self, dataset: Dataset) -> Model:
        """Load the model; if needed, merge its ImageNet classes to those of the domain group."""
        return adapt_model(self.unit.model.load(), self.unit.rows.domain.group, dataset)


@dataclass(frozen=True)
class StudyTask:
    """Task for one worker: jobs of a few models on the same rows."""

    rows: DomainRows
    dataset_key: str
    jobs: tuple[EvaluationJob, ...]
    store_folder: Path
    seed: int


def prediction_tasks(
    evaluations: Iterable[StudyEvaluation],
    prediction_keys: Collection[tuple[str, str]],
    folder: Path,
    seed: int,
) -> list[StudyTask]:
    """Return tasks for all predictions that the evaluations need and that are not stored yet."""
    required = {unit.key_pair: unit for each in evaluations for unit in each.required_predictions()}
    jobs = [
        EvaluationJob(StudyEvaluation(unit, (), "", None, ()), {})
        for pair, unit in required.items()
        if pair not in prediction_keys
    ]
    return _group_by_rows(jobs, folder, seed)


def value_tasks(
    evaluations: Iterable[StudyEvaluation],
    references: PredictionReferences,
    folder: Path,
    seed: int,
) -> list[StudyTask]:
    """Return tasks for all evaluations whose predictions are stored."""
    jobs = []
    for evaluation in (each.computable(references) for each in evaluations):
        if evaluation.requests:
            pairs = [unit.key_pair for unit in evaluation.required_predictions()]
            jobs.append(EvaluationJob(evaluation, {pair: references[pair] for pair in pairs}))
    return _group_by_rows(jobs, folder, seed)


def _group_by_rows(jobs: Iterable[EvaluationJob], folder: Path, seed: int) -> list[StudyTask]:
    """Group jobs of one architecture on the same rows into tasks; keep their order.

    A task has at most as many jobs as a process keeps models open.
    """
    open_tasks: dict[tuple[str, str], list[EvaluationJob]] = {}
    groups: list[list[EvaluationJob]] = []
    for job in jobs:
        model = job.unit.model
        place = (model.architecture, job.unit.dataset_key)
        group = open_tasks.get(place)
        if group is None or len(group) == model.max_per_task:
            group = open_tasks[place] = []
            groups.append(group)
        group.append(job)
    return [
        StudyTask(group[0].unit.rows, group[0].unit.dataset_key, tuple(group), folder, seed)
        for group in groups
    ]
