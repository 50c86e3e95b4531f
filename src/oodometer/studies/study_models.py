"""The models of a study: those of pools, and the user's own."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from oodometer.core.errors import InputError
from oodometer.core.protocols import Model
from oodometer.models import as_model
from oodometer.studies.splits import Domain
from oodometer.studies.store import ModelRecord
from oodometer.studies.training import checkpoint
from oodometer.studies.training.config import TrainingConfig
from oodometer.studies.training.spec import PoolSpec

# What tables call a domain, by its group's name and its own.
DomainLabels = Mapping[tuple[str, str], str]
# Models that are kept open in a process: as many as one task has.
MAX_OPEN_MODELS = 8


@dataclass(frozen=True)
class Pool:
    """Models that are trained, or being trained, in a folder."""

    spec: PoolSpec
    folder: Path


@dataclass(frozen=True)
class UserModel:
    """A model of the user's: whatever `as_model` opens, and what it was trained on."""

    name: str
    path: Any
    architecture: str
    training_domains: tuple[Domain, ...]
    trust_pickle: bool = False


@dataclass(frozen=True)
class StudyModel:
    """A model of a study, as a worker can be told of it.

    key                a hash of what it is: no other model has it
    training_domains   the domains it was trained on; `trained_on` is what tables call them
    folder             where it lies, if it is of a pool; `path_or_object` is what `as_model` opens, if it is not,
                       a pickle only with `trust_pickle`
    """

    key: str
    name: str = field(compare=False)
    architecture: str = field(compare=False)
    training_domains: tuple[Domain, ...] = field(compare=False)
    trained_on: tuple[str, ...] = field(compare=False)
    folder: Path | None = field(default=None, compare=False)
    path_or_object: Any = field(default=None, compare=False)
    trust_pickle: bool = field(default=False, compare=False)
    recipe: Mapping[str, Any] = field(default_factory=dict, compare=False)
    facts: Mapping[str, Any] = field(default_factory=dict, compare=False)

    def load(self) -> Model:
        """The model; a few are kept open."""
        return _load_cached(self)

    def record(self) -> ModelRecord:
        """What the store knows of it."""
        return ModelRecord(
            self.key, self.name, self.architecture, self.trained_on, self.recipe, self.facts
        )


@lru_cache(maxsize=MAX_OPEN_MODELS)
def _load_cached(member: StudyModel) -> Model:
    if member.folder is not None:
        return checkpoint.load_model(member.folder)
    if isinstance(member.path_or_object, Model):
        return member.path_or_object
    return as_model(member.path_or_object, name=member.name, trust_pickle=member.trust_pickle)


def clear_cache() -> None:
    """Open models anew when they are next asked for."""
    _load_cached.cache_clear()


@dataclass(frozen=True)
class StudyModels:
    """The models to be looked at, and how many are not: did not converge, are not trained yet."""

    models: tuple[StudyModel, ...]
    left_out: int = 0
    untrained: int = 0

    def other_models(self) -> dict[str, StudyModel]:
        """For every model's key one that differs in the seed alone: of those, the lowest seed."""
        alike: dict[str, list[StudyModel]] = {}
        for one in self.models:
            if "seed" in one.recipe:
                rest = {name: part for name, part in one.recipe.items() if name != "seed"}
                alike.setdefault(json.dumps(rest, sort_keys=True), []).append(one)
        found = {}
        for group in alike.values():
            for one in group:
                others = [other for other in group if other.recipe["seed"] != one.recipe["seed"]]
                if others:
                    found[one.key] = min(others, key=lambda other: int(other.recipe["seed"]))
        return found


def collect_models(
    pools: Iterable[Pool],
    user_models: Iterable[UserModel],
    *,
    only_converged: bool,
    domain_labels: DomainLabels,
) -> StudyModels:
    """All models by name, pools first; a recipe that stands in two pools is taken once.

    `domain_labels` is what tables call a domain, by its group's name and its own.
    """
    found: dict[str, StudyModel] = {}
    left_out = untrained = 0
    for pool in pools:
        there = checkpoint.finished_models(pool.folder)
        for recipe in pool.spec.recipes():
            if recipe.id not in there:
                untrained += 1
                continue
            one = _from_pool(pool, recipe, there[recipe.id], domain_labels)
            if only_converged and not one.facts.get("converged", True):
                left_out += 1
                continue
            found.setdefault(one.name, one)
    for one in (_from_user(each, domain_labels) for each in user_models):
        if one.name in found:
            raise InputError(f"Two models are called {one.name!r}. Give each a name of its own.")
        found[one.name] = one
    return StudyModels(tuple(found.values()), left_out, untrained)


def _from_pool(pool: Pool, config: TrainingConfig, folder: Path, shown: DomainLabels) -> StudyModel:
    """A trained model; one that was trained anew has another key, as its result tells the time."""
    content = [
        (folder / name).read_bytes() for name in (checkpoint.RECIPE_FILE, checkpoint.RESULT_FILE)
    ]
    trained = tuple(Domain(pool.spec.group, name) for name in config.domains)
    try:
        facts = checkpoint.load_facts(folder)
    except InputError:  # it is told of when the model is to be opened
        facts = {}
    return StudyModel(
        key=_hash(content),
        name=config.id,
        architecture=config.architecture,
        training_domains=trained,
        trained_on=_label_names(trained, shown),
        folder=folder.absolute(),
        recipe=config.to_dict(),
        facts=facts,
    )


def _from_user(own: UserModel, shown: DomainLabels) -> StudyModel:
    names = _label_names(own.training_domains, shown)
    head = json.dumps([own.name, own.architecture, names]).encode()
    return StudyModel(
        key=_hash([head, *_iter_content(own.path)]),
        name=own.name,
        architecture=own.architecture,
        training_domains=own.training_domains,
        trained_on=names,
        path_or_object=own.path,
        trust_pickle=own.trust_pickle,
    )


def _label_names(trained: tuple[Domain, ...], shown: DomainLabels) -> tuple[str, ...]:
    return tuple(shown[one.group.name, one.name] for one in trained)


def _iter_content(thing: Any) -> Iterator[bytes]:
    """What a model is made of, as far as it can be told: files, or where it is found.

    Of an object only the name is known, so another one needs another name.
    """
    if not isinstance(thing, str | Path):
        return
    path = Path(thing)
    files = sorted(one for one in path.rglob("*") if one.is_file()) if path.is_dir() else [path]
    for file in files:
        yield str(file.relative_to(path) if path.is_dir() else "").encode()
        yield _file_digest(file) if file.is_file() else str(thing).encode()


def _file_digest(file: Path) -> bytes:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "blake2b").digest()


def _hash(parts: Iterable[bytes]) -> str:
    found = hashlib.blake2b(digest_size=16)
    for part in parts:
        found.update(len(part).to_bytes(8, "little") + part)
    return found.hexdigest()
