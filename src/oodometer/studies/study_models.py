"""Models of a study: those of pools and the user's own."""

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

# Names of domains in tables, by the names of group and domain.
DomainLabels = Mapping[tuple[str, str], str]
# Models kept open per process, and the maximum number of models per task.
MAX_OPEN_MODELS = 8


@dataclass(frozen=True)
class Pool:
    """Pool of models in a folder; training may be in progress."""

    spec: PoolSpec
    folder: Path


@dataclass(frozen=True)
class UserModel:
    """User's own model: anything that `as_model` opens, with its training domains."""

    name: str
    path: Any
    architecture: str
    training_domains: tuple[Domain, ...]
    trust_pickle: bool = False


@dataclass(frozen=True)
class StudyModel:
    """Model of a study that can be sent to a worker.

    key                hash that identifies the model
    training_domains   domains that it was trained on; `trained_on` are their names in tables
    folder             folder of a model of a pool
    path_or_object     for other models, the argument of `as_model`; pickles need `trust_pickle`
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
        """Return the model; the last MAX_OPEN_MODELS are kept open."""
        return _load_cached(self)

    def record(self) -> ModelRecord:
        """Return the record of the model for the store."""
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
    """Close all cached models."""
    _load_cached.cache_clear()


@dataclass(frozen=True)
class StudyModels:
    """Models to evaluate, and the numbers of models that did not converge or are not trained."""

    models: tuple[StudyModel, ...]
    left_out: int = 0
    untrained: int = 0

    def other_models(self) -> dict[str, StudyModel]:
        """Return, by model key, the model with the lowest seed that differs only in the seed."""
        groups: dict[str, list[StudyModel]] = {}
        for model in self.models:
            if "seed" in model.recipe:
                rest = {name: value for name, value in model.recipe.items() if name != "seed"}
                groups.setdefault(json.dumps(rest, sort_keys=True), []).append(model)
        other_models = {}
        for group in groups.values():
            for model in group:
                others = [other for other in group if other.recipe["seed"] != model.recipe["seed"]]
                if others:
                    other_models[model.key] = min(
                        others, key=lambda other: int(other.recipe["seed"])
                    )
        return other_models


def collect_models(
    pools: Iterable[Pool],
    user_models: Iterable[UserModel],
    *,
    only_converged: bool,
    domain_labels: DomainLabels,
) -> StudyModels:
    """Return all models, pools first; a configuration in two pools is included once."""
    models: dict[str, StudyModel] = {}
    left_out = 0
    untrained = 0
    for pool in pools:
        finished = checkpoint.finished_models(pool.folder)
        for config in pool.spec.recipes():
            if config.id not in finished:
                untrained += 1
                continue
            model = _from_pool(pool, config, finished[config.id], domain_labels)
            if only_converged and not model.facts.get("converged", True):
                left_out += 1
                continue
            models.setdefault(model.name, model)
    for user_model in user_models:
        model = _from_user(user_model, domain_labels)
        if model.name in models:
            raise InputError(f"Two models have the name {model.name!r}. Model names must differ.")
        models[model.name] = model
    return StudyModels(tuple(models.values()), left_out, untrained)


def _from_pool(
    pool: Pool, config: TrainingConfig, folder: Path, labels: DomainLabels
) -> StudyModel:
    """Return a model of a pool; a retrained one has another key, because its seconds differ."""
    content = [
        (folder / name).read_bytes() for name in (checkpoint.RECIPE_FILE, checkpoint.RESULT_FILE)
    ]
    trained = tuple(Domain(pool.spec.group, name) for name in config.domains)
    try:
        facts = checkpoint.load_facts(folder)
    except InputError:  # reported when the model is opened
        facts = {}
    return StudyModel(
        key=_hash(content),
        name=config.id,
        architecture=config.architecture,
        training_domains=trained,
        trained_on=_label_names(trained, labels),
        folder=folder.absolute(),
        recipe=config.to_dict(),
        facts=facts,
    )


def _from_user(model: UserModel, labels: DomainLabels) -> StudyModel:
    names = _label_names(model.training_domains, labels)
    head = json.dumps([model.name, model.architecture, names]).encode()
    return StudyModel(
        key=_hash([head, *_iter_content(model.path)]),
        name=model.name,
        architecture=model.architecture,
        training_domains=model.training_domains,
        trained_on=names,
        path_or_object=model.path,
        trust_pickle=model.trust_pickle,
    )


def _label_names(domains: tuple[Domain, ...], labels: DomainLabels) -> tuple[str, ...]:
    return tuple(labels[domain.group.name, domain.name] for domain in domains)


def _iter_content(path_or_object: Any) -> Iterator[bytes]:
    """Yield the content of a model's files, or its address; nothing for an object.

    Objects are identified by name only, so a changed object needs another name.
    """
    if not isinstance(path_or_object, str | Path):
        return
    path = Path(path_or_object)
    files = sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]
    for file in files:
        yield str(file.relative_to(path) if path.is_dir() else "").encode()
        yield _file_digest(file) if file.is_file() else str(path_or_object).encode()


def _file_digest(file: Path) -> bytes:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "blake2b").digest()


def _hash(parts: Iterable[bytes]) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        digest.update(len(part).to_bytes(8, "little") + part)
    return digest.hexdigest()
