"""Training a pool: what is not there yet, by any runner, every model saved as it comes.

Only this process writes. What was saved is never trained again; what failed is written down with
the reason, in .failed/<id>.json, and is tried again in the next run.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from oodometer.core.errors import InputError, MissingExtra, reason_of
from oodometer.core.format import span
from oodometer.core.protocols import Progress
from oodometer.data._folder_lock import held
from oodometer.parallel.runners import Runner, serial
from oodometer.studies.domains.group import Group
from oodometer.studies.training import _failures, checkpoint
from oodometer.studies.training._train import train
from oodometer.studies.training._trained_model import Trained
from oodometer.studies.training.config import Recipe
from oodometer.studies.training.spec import Spec
from oodometer.studies.training.stacked import family, is_stackable, train_stacked

# Networks that are quicker side by side, and how many: what is killed loses so many at most.
STACKED, STACK = ("mlp",), 50


@dataclass(frozen=True)
class Task:
    """Models that one worker trains at once: one, or a stack of one shape."""

    recipes: tuple[Recipe, ...]
    group: Group


@dataclass(frozen=True)
class Failed:
    """A recipe that gave no model, why, and where in the code."""

    recipe: Recipe
    reason: str
    trace: str = ""


@dataclass(frozen=True)
class Ran:
    """What a run has done: models that were there before, new ones, and those that failed."""

    total: int
    before: int
    trained: tuple[str, ...] = ()
    converged: int = 0
    failed: Mapping[str, str] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def left(self) -> int:
        """Models of the spec that are not there yet."""
        return self.total - self.before - len(self.trained)

    def told(self) -> str:
        """What was done, in a sentence.

        >>> Ran(total=9, before=4, trained=("a", "b"), converged=1, seconds=30.0).told()
        '2 models trained in 30 s, 1 of them converged; 6 of 9 are there, 3 are left.'
        """
        new = len(self.trained)
        done = f"{new} model{'' if new == 1 else 's'} trained in {span(self.seconds)}"
        failed = f", {len(self.failed)} failed" if self.failed else ""
        there = self.before + len(self.trained)
        rest = f", {self.left} {'is' if self.left == 1 else 'are'} left" if self.left else ""
        return (
            f"{done}, {self.converged} of them converged{failed}; {there} of {self.total} are "
            f"there{rest}."
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values with stable keys, for JSON."""
        return {**asdict(self), "trained": list(self.trained), "left": self.left}


def train_task(task: Task) -> list[Trained | Failed]:
    """The models of a task; a stack that can't be trained as one is trained one by one.

    Also one that is left alone is a stack, as its weights would be others by a few bits.
    """
    if task.recipes[0].architecture in STACKED:
        try:
            return list(train_stacked(task.recipes, task.group))
        except Exception:  # whose fault it is, the loop will tell
            pass
    return [_trained(recipe, task.group) for recipe in task.recipes]


def _trained(recipe: Recipe, group: Group) -> Trained | Failed:
    try:
        return train(recipe, group)
    except MissingExtra:
        raise
    except Exception as error:
        return Failed(recipe, reason_of(error), "".join(traceback.format_exception(error)))


def run(
    spec: Spec,
    folder: str | Path,
    *,
    runner: Runner = serial,
    limit: int | None = None,
    work: Callable[[Task], list[Trained | Failed]] = train_task,
    progress: Progress | None = None,
) -> Ran:
    """Train the models of a spec that its folder lacks, at most `limit` of them.

    It may be killed at any moment: the next run goes on where it stopped. `work` trains a task.
    """
    if limit is not None and limit < 1:
        raise InputError(f"limit must be 1 or more; got {limit}. Leave it out to train all.")
    recipes, pool = spec.recipes(), Path(folder)
    missing = spec.group.missing(*{name: None for recipe in recipes for name in recipe.domains})
    if missing is not None:
        raise InputError(missing)
    with held(pool):
        checkpoint.sweep(pool)
        _check_classes(pool, recipes, spec.group)
        log = _Log.of(pool, recipes, limit, progress)
        with closing(runner(work, tasks(log.pending, spec.group))) as outcomes:
            for task, found in outcomes:
                for one in _each(task, found):
                    log.add(one)
        return log.ran()


def _check_classes(pool: Path, recipes: Sequence[Recipe], group: Group) -> None:
    """Refuse a folder whose models were taught by another group of the same name."""
    there = checkpoint.finished(pool)
    for name in (recipe.id for recipe in recipes if recipe.id in there):
        classes = checkpoint.classes_of(there[name])
        if classes != group.classes:
            raise InputError(
                f"The model {name} in {str(pool)!r} has the classes {', '.join(classes):.200}, and "
                f"the group {group.name!r} has {', '.join(group.classes):.200}. Give the group "
                "another name, or the pool another folder."
            )


def tasks(recipes: Sequence[Recipe], group: Group) -> list[Task]:
    """Recipes as tasks: those that are quicker side by side in stacks, the others alone."""
    stacks: dict[str, list[Recipe]] = {}
    for recipe in recipes:
        quicker = recipe.architecture in STACKED and is_stackable(recipe)
        alike = family(recipe) if quicker else recipe.id
        stacks.setdefault(alike, []).append(recipe)
    return [
        Task(tuple(stack[start : start + STACK]), group)
        for stack in stacks.values()
        for start in range(0, len(stack), STACK)
    ]


def _each(task: Task, found: list[Trained | Failed] | Exception) -> list[Trained | Failed]:
    if isinstance(found, MissingExtra):
        raise found  # no other recipe would fare better
    if isinstance(found, Exception):
        return [Failed(recipe, reason_of(found)) for recipe in task.recipes]
    return found


@dataclass
class _Log:
    """What has been done, on disk and in numbers."""

    pool: Path
    total: int
    before: int
    pending: list[Recipe]
    progress: Progress | None
    began: float = field(default_factory=time.monotonic)
    trained: list[str] = field(default_factory=list)
    converged: int = 0
    failed: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls, pool: Path, recipes: Sequence[Recipe], limit: int | None, progress: Progress | None
    ) -> _Log:
        there = checkpoint.finished(pool)
        pending = [recipe for recipe in recipes if recipe.id not in there]
        log = cls(pool, len(recipes), len(recipes) - len(pending), pending[:limit], progress)
        log.report()
        return log

    def add(self, one: Trained | Failed) -> None:
        name = one.recipe.id
        if isinstance(one, Failed):
            _failures.write(self.pool, name, one.recipe.to_dict(), one.reason, one.trace)
            self.failed[name] = one.reason
        else:
            _save(self.pool, one)
            _failures.forget(self.pool, name)
            self.trained.append(name)
            self.converged += one.converged
        self.report()

    def report(self) -> None:
        if self.progress is None:
            return
        tried = len(self.trained) + len(self.failed)
        rest = len(self.pending) - tried
        words = [f"{self.before + len(self.trained)} of {self.total} models"]
        words += [f"{len(self.failed)} failed"] if self.failed else []
        if tried and rest:
            each = (time.monotonic() - self.began) / tried
            words.append(f"about {span(rest * each)} left")
        self.progress(tried, len(self.pending), ", ".join(words))

    def ran(self) -> Ran:
        seconds = time.monotonic() - self.began
        return Ran(
            self.total, self.before, tuple(self.trained), self.converged, self.failed, seconds
        )


def _save(pool: Path, trained: Trained) -> None:
    try:
        checkpoint.save(pool, trained)
    except KeyboardInterrupt:
        # It has been trained: it is not lost for an impatient user.
        checkpoint.save(pool, trained)
        raise
