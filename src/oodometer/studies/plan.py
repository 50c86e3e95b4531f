"""What a study has to do: evaluations, what of each is not known yet, and tasks of that."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from oodometer.core.errors import InputError
from oodometer.studies import splits as rows
from oodometer.studies import study_models
from oodometer.studies.requested_values import Wanted
from oodometer.studies.spec import Study
from oodometer.studies.splits import Domain, Rows, joined_key
from oodometer.studies.store import Key, Reference
from oodometer.studies.study_models import OPEN, Member

# Where predictions are, by the keys of model and dataset.
References = Mapping[tuple[str, str], Reference]


@dataclass(frozen=True)
class Unit:
    """A model and rows that it is shown; both also by their keys."""

    member: Member
    rows: Rows
    dataset: str

    @property
    def pair(self) -> tuple[str, str]:
        """The keys."""
        return self.member.key, self.dataset


@dataclass(frozen=True)
class Evaluation:
    """A model on a test domain: what is wanted, its source, and a second model if there is one."""

    unit: Unit
    sources: tuple[Unit, ...]
    source: str
    peer: Unit | None
    wanted: tuple[Wanted, ...]

    @property
    def name(self) -> str:
        """What it is called where it is told of."""
        return f"{self.unit.member.name} on {self.unit.rows.name}"

    def keys(self, wanted: Wanted) -> list[Key]:
        """Those of the results that a wanted thing gives."""
        model, dataset = self.unit.pair
        source = self.source if wanted.sourced else ""
        return [Key(model, source, dataset, name, self.settings(wanted)) for name in wanted.names]

    def settings(self, wanted: Wanted) -> str:
        """All that its values hang on beside model, rows and source."""
        if not wanted.compares:
            return wanted.settings
        return f"{wanted.settings}, second {self.peer.member.key if self.peer else 'none'}"

    def without(self, known: Collection[Key]) -> Evaluation:
        """The same with what is not known yet."""
        return replace(
            self,
            wanted=tuple(
                one for one in self.wanted if any(key not in known for key in self.keys(one))
            ),
        )

    def possible(self, known: Collection[tuple[str, str]]) -> Evaluation:
        """The same with what there are predictions for; without a second model, all but that."""
        alone = replace(self, wanted=tuple(one for one in self.wanted if not one.compares))
        for some in (self, alone):
            if all(unit.pair in known for unit in some.units()):
                return some
        return replace(self, wanted=())

    def units(self) -> Iterator[Unit]:
        """All predictions that it needs, its own first."""
        yield self.unit
        if any(one.sourced for one in self.wanted):
            yield from self.sources
        if self.peer is not None and any(one.compares for one in self.wanted):
            yield self.peer


@dataclass(frozen=True)
class Plan:
    """All evaluations of a study, and how many models are not among them."""

    evaluations: tuple[Evaluation, ...]
    left_out: int
    untrained: int

    def keys(self) -> set[Key]:
        """Those of all results."""
        return {key for each in self.evaluations for one in each.wanted for key in each.keys(one)}

    def pending(self, known: Collection[Key]) -> list[Evaluation]:
        """Evaluations of which something is not known yet, with that alone."""
        rest = (each.without(known) for each in self.evaluations)
        return [each for each in rest if each.wanted]


def planned(study: Study) -> Plan:
    """The evaluations of a study with the models and the files that are there now."""
    rows.forget()
    study_models.forget()
    found = study.members()
    # Models of one training side by side: they share their rows.
    ordered = sorted(found.models, key=lambda one: one.trained_on)
    _check_files([*study.domains.values(), *(domain for one in ordered for domain in one.trained)])
    units, peers = _Units(study), found.peers()
    evaluations = []
    for block in _blocks(ordered):
        for name in study.domains:
            evaluations += [_evaluation(units, one, name, peers.get(one.key)) for one in block]
    return Plan(tuple(evaluations), found.left_out, found.untrained)


def _check_files(domains: Iterable[Domain]) -> None:
    for domain in dict.fromkeys(domains):
        why = domain.group.missing(domain.name)
        if why is not None:
            raise InputError(why)


def _blocks(models: Sequence[Member]) -> Iterator[list[Member]]:
    """Models of one training, as many as are kept open."""
    alike: dict[tuple[str, ...], list[Member]] = {}
    for one in models:
        alike.setdefault(one.trained_on, []).append(one)
    for some in alike.values():
        for start in range(0, len(some), OPEN):
            yield some[start : start + OPEN]


class _Units:
    """Rows by model and test domain; those of models of one training are worked out once."""

    def __init__(self, study: Study) -> None:
        self.study = study
        self._tested: dict[tuple[tuple[str, ...], str], tuple[Rows, str]] = {}
        self._sources: dict[tuple[str, ...], tuple[tuple[tuple[Rows, str], ...], str]] = {}

    def tested(self, member: Member, name: str) -> Unit:
        """The rows of a test domain that a model is shown."""
        place = member.trained_on, name
        if place not in self._tested:
            study = self.study
            whole = Rows(study.domains[name], study.split, name, study.rows, study.seed)
            own = whole.apart_from(member.trained)
            self._tested[place] = own, own.key
        return Unit(member, *self._tested[place])

    def sources(self, member: Member) -> tuple[tuple[Unit, ...], str]:
        """The labelled rows of the domains that a model was trained on, and the key of all."""
        place = member.trained_on
        if place not in self._sources:
            study = self.study
            parts = tuple(
                Rows(domain, "source", f"{name}, source", study.source_rows, study.seed)
                for domain, name in zip(member.trained, member.trained_on, strict=True)
            )
            self._sources[place] = tuple((one, one.key) for one in parts), joined_key(parts)
        found, key = self._sources[place]
        return tuple(Unit(member, *one) for one in found), key


def _evaluation(units: _Units, member: Member, name: str, peer: Member | None) -> Evaluation:
    own = units.tested(member, name)
    sources, source = units.sources(member)
    # A model that differs in the seed alone was trained on the same domains, and shown the same.
    second = None if peer is None else replace(own, member=peer)
    return Evaluation(own, sources, source, second, units.study.wanted)


# Tasks ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Job:
    """What one model has to do in a task, and where predictions that it needs are.

    Without anything wanted, it is to say what it makes of the rows.
    """

    evaluation: Evaluation
    references: References

    @property
    def unit(self) -> Unit:
        """The model and the rows."""
        return self.evaluation.unit


@dataclass(frozen=True)
class Task:
    """Some models on the same rows; `folder` is that of the store."""

    rows: Rows
    dataset: str
    jobs: tuple[Job, ...]
    folder: Path
    seed: int


def to_classify(
    evaluations: Iterable[Evaluation], known: Collection[tuple[str, str]], folder: Path, seed: int
) -> list[Task]:
    """Tasks of all predictions that evaluations need and that are not there."""
    lacking = {unit.pair: unit for each in evaluations for unit in each.units()}
    jobs = [
        Job(Evaluation(unit, (), "", None, ()), {})
        for pair, unit in lacking.items()
        if pair not in known
    ]
    return _grouped(jobs, folder, seed)


def to_value(
    evaluations: Iterable[Evaluation], known: References, folder: Path, seed: int
) -> list[Task]:
    """Tasks of all evaluations whose predictions are there."""
    can = [each.possible(known) for each in evaluations]
    jobs = [
        Job(each, {unit.pair: known[unit.pair] for unit in each.units()})
        for each in can
        if each.wanted
    ]
    return _grouped(jobs, folder, seed)


def _grouped(jobs: Iterable[Job], folder: Path, seed: int) -> list[Task]:
    """Jobs of the same rows side by side, as they come, a few models each."""
    open_tasks: dict[str, list[Job]] = {}
    found: list[list[Job]] = []
    for job in jobs:
        some = open_tasks.get(job.unit.dataset)
        if some is None or len(some) == OPEN:
            some = open_tasks[job.unit.dataset] = []
            found.append(some)
        some.append(job)
    return [
        Task(some[0].unit.rows, some[0].unit.dataset, tuple(some), folder, seed) for some in found
    ]
