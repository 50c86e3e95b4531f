"""What a study has to do: evaluations, what of each is not known yet, and tasks of that."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from oodometer.core.errors import InputError
from oodometer.studies import splits as rows
from oodometer.studies import study_models
from oodometer.studies.requested_values import RequestedValue
from oodometer.studies.spec import Study
from oodometer.studies.splits import Domain, DomainRows, combined_key
from oodometer.studies.store import PredictionReference, ResultKey
from oodometer.studies.study_models import MAX_OPEN_MODELS, StudyModel

# Where predictions are, by the keys of model and dataset.
PredictionReferences = Mapping[tuple[str, str], PredictionReference]


@dataclass(frozen=True)
class ModelOnRows:
    """A model and rows that it is shown; both also by their keys."""

    model: StudyModel
    rows: DomainRows
    dataset_key: str

    @property
    def key_pair(self) -> tuple[str, str]:
        """The keys."""
        return self.model.key, self.dataset_key


@dataclass(frozen=True)
class StudyEvaluation:
    """A model on a test domain: what is wanted, its source, and a second model if there is one."""

    unit: ModelOnRows
    sources: tuple[ModelOnRows, ...]
    source_key: str
    other_model: ModelOnRows | None
    requests: tuple[RequestedValue, ...]

    @property
    def name(self) -> str:
        """What it is called where it is told of."""
        return f"{self.unit.model.name} on {self.unit.rows.name}"

    def result_keys(self, request: RequestedValue) -> list[ResultKey]:
        """Those of the results that a wanted thing gives."""
        model, dataset = self.unit.key_pair
        source = self.source_key if request.needs_source else ""
        return [
            ResultKey(model, source, dataset, name, self.settings_key(request))
            for name in request.names
        ]

    def settings_key(self, request: RequestedValue) -> str:
        """All that its values hang on beside model, rows and source."""
        if not request.needs_other_model:
            return request.settings
        return f"{request.settings}, second {self.other_model.model.key if self.other_model else 'none'}"

    def without_known(self, known_keys: Collection[ResultKey]) -> StudyEvaluation:
        """The same with what is not known yet."""
        return replace(
            self,
            requests=tuple(
                one
                for one in self.requests
                if any(key not in known_keys for key in self.result_keys(one))
            ),
        )

    def computable(self, prediction_keys: Collection[tuple[str, str]]) -> StudyEvaluation:
        """The same with what there are predictions for; without a second model, all but that."""
        alone = replace(
            self, requests=tuple(one for one in self.requests if not one.needs_other_model)
        )
        for some in (self, alone):
            if all(unit.key_pair in prediction_keys for unit in some.required_predictions()):
                return some
        return replace(self, requests=())

    def required_predictions(self) -> Iterator[ModelOnRows]:
        """All predictions that it needs, its own first."""
        yield self.unit
        if any(one.needs_source for one in self.requests):
            yield from self.sources
        if self.other_model is not None and any(one.needs_other_model for one in self.requests):
            yield self.other_model


@dataclass(frozen=True)
class StudyPlan:
    """All evaluations of a study, and how many models are not among them."""

    evaluations: tuple[StudyEvaluation, ...]
    left_out: int
    untrained: int

    def result_keys(self) -> set[ResultKey]:
        """Those of all results."""
        return {
            key
            for each in self.evaluations
            for one in each.requests
            for key in each.result_keys(one)
        }

    def pending(self, known_keys: Collection[ResultKey]) -> list[StudyEvaluation]:
        """Evaluations of which something is not known yet, with that alone."""
        rest = (each.without_known(known_keys) for each in self.evaluations)
        return [each for each in rest if each.requests]


def plan_study(study: Study) -> StudyPlan:
    """The evaluations of a study with the models and the files that are there now."""
    rows.clear_cache()
    study_models.clear_cache()
    found = study.available_models()
    # Models of one training side by side: they share their rows.
    ordered = sorted(found.models, key=lambda one: one.trained_on)
    _check_files(
        [*study.domains.values(), *(domain for one in ordered for domain in one.training_domains)]
    )
    units, peers = _EvaluationRows(study), found.other_models()
    evaluations = []
    for block in _model_blocks(ordered):
        for name in study.domains:
            evaluations += [
                _build_evaluation(units, one, name, peers.get(one.key)) for one in block
            ]
    return StudyPlan(tuple(evaluations), found.left_out, found.untrained)


def _check_files(domains: Iterable[Domain]) -> None:
    for domain in dict.fromkeys(domains):
        why = domain.group.missing_reason(domain.name)
        if why is not None:
            raise InputError(why)


def _model_blocks(models: Sequence[StudyModel]) -> Iterator[list[StudyModel]]:
    """Models of one training, as many as are kept open."""
    alike: dict[tuple[str, ...], list[StudyModel]] = {}
    for one in models:
        alike.setdefault(one.trained_on, []).append(one)
    for some in alike.values():
        for start in range(0, len(some), MAX_OPEN_MODELS):
            yield some[start : start + MAX_OPEN_MODELS]


class _EvaluationRows:
    """Rows by model and test domain; those of models of one training are worked out once."""

    def __init__(self, study: Study) -> None:
        self.study = study
        self._tested: dict[tuple[tuple[str, ...], str], tuple[DomainRows, str]] = {}
        self._sources: dict[tuple[str, ...], tuple[tuple[tuple[DomainRows, str], ...], str]] = {}

    def test_rows(self, member: StudyModel, name: str) -> ModelOnRows:
        """The rows of a test domain that a model is shown."""
        place = member.trained_on, name
        if place not in self._tested:
            study = self.study
            whole = DomainRows(study.domains[name], study.split, name, study.rows, study.seed)
            own = whole.excluding_sources_of(member.training_domains)
            self._tested[place] = own, own.key
        return ModelOnRows(member, *self._tested[place])

    def source_rows(self, member: StudyModel) -> tuple[tuple[ModelOnRows, ...], str]:
        """The labelled rows of the domains that a model was trained on, and the key of all."""
        place = member.trained_on
        if place not in self._sources:
            study = self.study
            parts = tuple(
                DomainRows(domain, "source", f"{name}, source", study.source_rows, study.seed)
                for domain, name in zip(member.training_domains, member.trained_on, strict=True)
            )
            self._sources[place] = tuple((one, one.key) for one in parts), combined_key(parts)
        found, key = self._sources[place]
        return tuple(ModelOnRows(member, *one) for one in found), key


def _build_evaluation(
    units: _EvaluationRows, member: StudyModel, name: str, peer: StudyModel | None
) -> StudyEvaluation:
    own = units.test_rows(member, name)
    sources, source = units.source_rows(member)
    # A model that differs in the seed alone was trained on the same domains, and shown the same.
    second = None if peer is None else replace(own, model=peer)
    return StudyEvaluation(own, sources, source, second, units.study.requests)


# Tasks ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class EvaluationJob:
    """What one model has to do in a task, and where predictions that it needs are.

    Without anything wanted, it is to say what it makes of the rows.
    """

    evaluation: StudyEvaluation
    references: PredictionReferences

    @property
    def unit(self) -> ModelOnRows:
        """The model and the rows."""
        return self.evaluation.unit


@dataclass(frozen=True)
class StudyTask:
    """Some models on the same rows; `store_folder` is that of the store."""

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
    """Tasks of all predictions that evaluations need and that are not there."""
    lacking = {unit.key_pair: unit for each in evaluations for unit in each.required_predictions()}
    jobs = [
        EvaluationJob(StudyEvaluation(unit, (), "", None, ()), {})
        for pair, unit in lacking.items()
        if pair not in prediction_keys
    ]
    return _group_by_rows(jobs, folder, seed)


def value_tasks(
    evaluations: Iterable[StudyEvaluation],
    references: PredictionReferences,
    folder: Path,
    seed: int,
) -> list[StudyTask]:
    """Tasks of all evaluations whose predictions are there."""
    can = [each.computable(references) for each in evaluations]
    jobs = [
        EvaluationJob(
            each, {unit.key_pair: references[unit.key_pair] for unit in each.required_predictions()}
        )
        for each in can
        if each.requests
    ]
    return _group_by_rows(jobs, folder, seed)


def _group_by_rows(jobs: Iterable[EvaluationJob], folder: Path, seed: int) -> list[StudyTask]:
    """Jobs of the same rows side by side, as they come, a few models each."""
    open_tasks: dict[str, list[EvaluationJob]] = {}
    found: list[list[EvaluationJob]] = []
    for job in jobs:
        some = open_tasks.get(job.unit.dataset_key)
        if some is None or len(some) == MAX_OPEN_MODELS:
            some = open_tasks[job.unit.dataset_key] = []
            found.append(some)
        some.append(job)
    return [
        StudyTask(some[0].unit.rows, some[0].unit.dataset_key, tuple(some), folder, seed)
        for some in found
    ]
