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
from oodometer.studies.training.config import Recipe
from oodometer.studies.training.spec import Spec

# What tables call a domain, by its group's name and its own.
Shown = Mapping[tuple[str, str], str]
# Models that are kept open in a process: as many as one task has.
OPEN = 8


@dataclass(frozen=True)
class Pool:
    """Models that are trained, or being trained, in a folder."""

    spec: Spec
    folder: Path


@dataclass(frozen=True)
class Own:
    """A model of the user's: whatever `as_model` opens, and what it was trained on."""

    name: str
    path: Any
    architecture: str
    trained: tuple[Domain, ...]
    trust_pickle: bool = False


@dataclass(frozen=True)
class Member:
    """A model of a study, as a worker can be told of it.

    key       a hash of what it is: no other model has it
    trained   the domains it was trained on; `trained_on` is what tables call them
    folder    where it lies, if it is of a pool; `thing` is what `as_model` opens, if it is not,
              a pickle only with `trust_pickle`
    """

    key: str
    name: str = field(compare=False)
    architecture: str = field(compare=False)
    trained: tuple[Domain, ...] = field(compare=False)
    trained_on: tuple[str, ...] = field(compare=False)
    folder: Path | None = field(default=None, compare=False)
    thing: Any = field(default=None, compare=False)
    trust_pickle: bool = field(default=False, compare=False)
    recipe: Mapping[str, Any] = field(default_factory=dict, compare=False)
    facts: Mapping[str, Any] = field(default_factory=dict, compare=False)

    def opened(self) -> Model:
        """The model; a few are kept open."""
        return _opened(self)

    def record(self) -> ModelRecord:
        """What the store knows of it."""
        return ModelRecord(
            self.key, self.name, self.architecture, self.trained_on, self.recipe, self.facts
        )


@lru_cache(maxsize=OPEN)
def _opened(member: Member) -> Model:
    if member.folder is not None:
        return checkpoint.load_model(member.folder)
    if isinstance(member.thing, Model):
        return member.thing
    return as_model(member.thing, name=member.name, trust_pickle=member.trust_pickle)


def forget() -> None:
    """Open models anew when they are next asked for."""
    _opened.cache_clear()


@dataclass(frozen=True)
class Members:
    """The models to be looked at, and how many are not: did not converge, are not trained yet."""

    models: tuple[Member, ...]
    left_out: int = 0
    untrained: int = 0

    def peers(self) -> dict[str, Member]:
        """For every model's key one that differs in the seed alone: of those, the lowest seed."""
        alike: dict[str, list[Member]] = {}
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


def members_of(
    pools: Iterable[Pool],
    own: Iterable[Own],
    *,
    converged: bool,
    shown: Shown,
) -> Members:
    """All models by name, pools first; a recipe that stands in two pools is taken once.

    `shown` is what tables call a domain, by its group's name and its own.
    """
    found: dict[str, Member] = {}
    left_out = untrained = 0
    for pool in pools:
        there = checkpoint.finished(pool.folder)
        for recipe in pool.spec.recipes():
            if recipe.id not in there:
                untrained += 1
                continue
            one = _of_pool(pool, recipe, there[recipe.id], shown)
            if converged and not one.facts.get("converged", True):
                left_out += 1
                continue
            found.setdefault(one.name, one)
    for one in (_of_user(each, shown) for each in own):
        if one.name in found:
            raise InputError(f"Two models are called {one.name!r}. Give each a name of its own.")
        found[one.name] = one
    return Members(tuple(found.values()), left_out, untrained)


def _of_pool(pool: Pool, recipe: Recipe, folder: Path, shown: Shown) -> Member:
    """A trained model; one that was trained anew has another key, as its result tells the time."""
    content = [(folder / name).read_bytes() for name in (checkpoint.RECIPE, checkpoint.RESULT)]
    trained = tuple(Domain(pool.spec.group, name) for name in recipe.domains)
    try:
        facts = checkpoint.facts_of(folder)
    except InputError:  # it is told of when the model is to be opened
        facts = {}
    return Member(
        key=_hash(content),
        name=recipe.id,
        architecture=recipe.architecture,
        trained=trained,
        trained_on=_names(trained, shown),
        folder=folder.absolute(),
        recipe=recipe.to_dict(),
        facts=facts,
    )


def _of_user(own: Own, shown: Shown) -> Member:
    names = _names(own.trained, shown)
    head = json.dumps([own.name, own.architecture, names]).encode()
    return Member(
        key=_hash([head, *_content(own.path)]),
        name=own.name,
        architecture=own.architecture,
        trained=own.trained,
        trained_on=names,
        thing=own.path,
        trust_pickle=own.trust_pickle,
    )


def _names(trained: tuple[Domain, ...], shown: Shown) -> tuple[str, ...]:
    return tuple(shown[one.group.name, one.name] for one in trained)


def _content(thing: Any) -> Iterator[bytes]:
    """What a model is made of, as far as it can be told: files, or where it is found.

    Of an object only the name is known, so another one needs another name.
    """
    if not isinstance(thing, str | Path):
        return
    path = Path(thing)
    files = sorted(one for one in path.rglob("*") if one.is_file()) if path.is_dir() else [path]
    for file in files:
        yield str(file.relative_to(path) if path.is_dir() else "").encode()
        yield _digest(file) if file.is_file() else str(thing).encode()


def _digest(file: Path) -> bytes:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "blake2b").digest()


def _hash(parts: Iterable[bytes]) -> str:
    found = hashlib.blake2b(digest_size=16)
    for part in parts:
        found.update(len(part).to_bytes(8, "little") + part)
    return found.hexdigest()
