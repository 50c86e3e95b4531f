"""List and open the models of a study: models trained in pools, and models of the user."""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from oodometer.core.errors import InputError
from oodometer.core.protocols import Model
from oodometer.models import as_model
from oodometer.models.timm import TIMM_PREFIX, find_weights, split_location
from oodometer.studies.splits import Domain
from oodometer.studies.store import ModelRecord
from oodometer.studies.training import checkpoint
from oodometer.studies.training.config import TrainingConfig
from oodometer.studies.training.spec import PoolSpec

# Name of a domain in tables, keyed by (group name, domain name).
DomainLabels = Mapping[tuple[str, str], str]
# Maximum number of models that a process keeps open; also the maximum number of models per task.
MAX_OPEN_MODELS = 8
# The same for heads on cached features, which are small and share the features that a task reads.
MAX_OPEN_HEADS = 32


@dataclass(frozen=True)
class Pool:
    """Spec of a pool and the folder of its models, which may still be in training.

    `location` is the built-in name or the TOML file of the spec; None if it is a table.
    """

    spec: PoolSpec
    folder: Path
    location: str | None = None

    @property
    def training_command(self) -> str:
        """Return the command that trains the models."""
        words = ["oodometer", "pool", "run", "SPEC" if self.location is None else self.location]
        if self.folder != Path("pools") / self.spec.name:
            words += ["--models-dir", str(self.folder)]
        return shlex.join(words)


@dataclass(frozen=True)
class UserModel:
    """Model that the user provides; `path` is any path or object that `as_model` accepts."""

    name: str
    path: Any
    architecture: str
    training_domains: tuple[Domain, ...]
    trust_pickle: bool = False


@dataclass(frozen=True)
class StudyModel:
    """Model of a study that can be sent to a worker.

    key                hash that identifies the model
    training_domains   domains that the model was trained on
    trained_on         names of the training domains in tables
    folder             folder of the model if it belongs to a pool, else None
    path_or_object     argument of `as_model` if the user provides the model, else None
    trust_pickle       whether the user's model may be loaded from a pickle file
    has_cached_body    whether the model is a head on cached features of a body
    """

    key: str
    name: str = field(compare=False)
    architecture: str = field(compare=False)
    training_domains: tuple[Domain, ...] = field(compare=False)
    trained_on: tuple[str, ...] = field(compare=False)
    folder: Path | None = field(default=None, compare=False)
    path_or_object: Any = field(default=None, compare=False)
    trust_pickle: bool = field(default=False, compare=False)
    has_cached_body: bool = field(default=False, compare=False)
    recipe: Mapping[str, Any] = field(default_factory=dict, compare=False)
    facts: Mapping[str, Any] = field(default_factory=dict, compare=False)

    @property
    def max_per_task(self) -> int:
        """Maximum number of models of this kind per task, and of those that stay open."""
        return MAX_OPEN_HEADS if self.has_cached_body else MAX_OPEN_MODELS

    def load(self) -> Model:
        """Load the model; the `max_per_task` most recently used models stay in memory."""
        return _load_cached_head(self) if self.has_cached_body else _load_cached(self)

    def record(self) -> ModelRecord:
        """Return the record that is stored for the model."""
        return ModelRecord(
            self.key, self.name, self.architecture, self.trained_on, self.recipe, self.facts
        )


@lru_cache(maxsize=MAX_OPEN_HEADS)
def _load_cached_head(member: StudyModel) -> Model:
    return _load(member)


@lru_cache(maxsize=MAX_OPEN_MODELS)
def _load_cached(member: StudyModel) -> Model:
    return _load(member)


def _load(member: StudyModel) -> Model:
    if member.folder is not None:
        return checkpoint.load_model(member.folder)
    if isinstance(member.path_or_object, Model):
        return member.path_or_object
    return as_model(member.path_or_object, name=member.name, trust_pickle=member.trust_pickle)


def clear_cache() -> None:
    """Remove all loaded models from the cache."""
    _load_cached.cache_clear()
    _load_cached_head.cache_clear()


@dataclass(frozen=True)
class StudyModels:
    """Models to evaluate, and the numbers of models that are not evaluated.

    `left_out` counts the models that did not converge, and `untrained` counts the models that are
    not trained yet.
    """

    models: tuple[StudyModel, ...]
    left_out: int = 0
    untrained: int = 0

    def other_models(self) -> dict[str, StudyModel]:
        """Return a second model for each model, keyed by model key.

        The second model has the same configuration except for the seed. If there are several such
        models, the one with the lowest seed is chosen. A model without a second model has no entry.
        """
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
    """Return the models of all pools and the user's models; include a configuration only once."""
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
    """Return a model of a pool; result.json is part of its key, so retraining changes the key."""
    content = [
        (folder / name).read_bytes() for name in (checkpoint.RECIPE_FILE, checkpoint.RESULT_FILE)
    ]
    trained = tuple(Domain(pool.spec.group, name) for name in config.domains)
    try:
        facts = checkpoint.load_facts(folder)
    except InputError:  # an unreadable file is reported when the model is loaded
        facts = {}
    return StudyModel(
        key=_hash(content),
        name=config.id,
        architecture=config.architecture_name,
        training_domains=trained,
        trained_on=_label_names(trained, labels),
        folder=folder.absolute(),
        has_cached_body=config.has_cached_body,
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
    """Yield the bytes that are hashed to form the key of a model.

    These are the names and hashed contents of the model's files. If there is no file at the given
    path, for example because it is a URL, the path itself is used. For a Python object nothing is
    yielded: an object is identified by its name only, so a changed object needs a new name.
    """
    if not isinstance(path_or_object, str | Path):
        return
    if str(path_or_object).startswith(TIMM_PREFIX):
        yield from _iter_timm_content(str(path_or_object))
        return
    path = Path(path_or_object)
    files = sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]
    for file in files:
        yield str(file.relative_to(path) if path.is_dir() else "").encode()
        yield _file_digest(file) if file.is_file() else str(path_or_object).encode()


def _iter_timm_content(location: str) -> Iterator[bytes]:
    """Yield the name of a network of timm, and the hashed content of its file of weights."""
    # Hashing a pickle does not open it; whether it is trusted is checked when the model is loaded.
    spec = replace(split_location(location), trust_pickle=True)
    yield spec.name.encode()
    path = find_weights(spec)
    yield spec.weights.encode() if path is None else _file_digest(path)


def _file_digest(file: Path) -> bytes:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "blake2b").digest()


def _hash(parts: Iterable[bytes]) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        digest.update(len(part).to_bytes(8, "little") + part)
    return digest.hexdigest()
