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

from oodometer.core.errors import InputError, MissingExtra, format_error
from oodometer.core.format import format_duration
from oodometer.core.protocols import ProgressCallback
from oodometer.data.atomic import lock_folder
from oodometer.parallel.runners import Runner, serial
from oodometer.studies.domains.group import DomainGroup
from oodometer.studies.training import checkpoint
from oodometer.studies.training._train import TrainedModel, train
from oodometer.studies.training.config import TrainingConfig
from oodometer.studies.training.spec import PoolSpec
from oodometer.studies.training.stacked import is_stackable, stack_key, train_stacked

# Networks that are quicker side by side, and how many: what is killed loses so many at most.
STACKED_ARCHITECTURES, MAX_STACK_MODELS = ("mlp",), 50


@dataclass(frozen=True)
class TrainingTask:
    """Models that one worker trains at once: one, or a stack of one shape."""

    recipes: tuple[TrainingConfig, ...]
    group: DomainGroup


@dataclass(frozen=True)
class FailedTraining:
    """A recipe that gave no model, why, and where in the code."""

    recipe: TrainingConfig
    reason: str
    trace: str = ""


@dataclass(frozen=True)
class PoolRunResult:
    """What a run has done: models that were there before, new ones, and those that failed."""

    total: int
    before: int
    trained: tuple[str, ...] = ()
    converged: int = 0
    failed: Mapping[str, str] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def remaining(self) -> int:
        """Models of the spec that are not there yet."""
        return self.total - self.before - len(self.trained)

    def summary(self) -> str:
        """What was done, in a sentence.

        >>> PoolRunResult(total=9, before=4, trained=("a", "b"), converged=1, seconds=30.0).summary()
        '2 models trained in 30 s, 1 of them converged; 6 of 9 are there, 3 are left.'
        """
        new = len(self.trained)
        done = f"{new} model{'' if new == 1 else 's'} trained in {format_duration(self.seconds)}"
        failed = f", {len(self.failed)} failed" if self.failed else ""
        there = self.before + len(self.trained)
        rest = (
            f", {self.remaining} {'is' if self.remaining == 1 else 'are'} left"
            if self.remaining
            else ""
        )
        return (
            f"{done}, {self.converged} of them converged{failed}; {there} of {self.total} are "
            f"there{rest}."
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values with stable keys, for JSON."""
        return {**asdict(self), "trained": list(self.trained), "left": self.remaining}


def train_task(task: TrainingTask) -> list[TrainedModel | FailedTraining]:
    """The models of a task; a stack that can't be trained as one is trained one by one.

    Also one that is left alone is a stack, as its weights would be others by a few bits.
    """
    if task.recipes[0].architecture in STACKED_ARCHITECTURES:
        try:
            return list(train_stacked(task.recipes, task.group))
        except Exception:  # whose fault it is, the loop will tell
            pass
    return [_train_or_fail(recipe, task.group) for recipe in task.recipes]


def _train_or_fail(config: TrainingConfig, group: DomainGroup) -> TrainedModel | FailedTraining:
    try:
        return train(config, group)
    except MissingExtra:
        raise
    except Exception as error:
        return FailedTraining(
            config, format_error(error), "".join(traceback.format_exception(error))
        )


def run(
    spec: PoolSpec,
    folder: str | Path,
    *,
    runner: Runner = serial,
    limit: int | None = None,
    work: Callable[[TrainingTask], list[TrainedModel | FailedTraining]] = train_task,
    progress: ProgressCallback | None = None,
) -> PoolRunResult:
    """Train the models of a spec that its folder lacks, at most `limit` of them.

    It may be killed at any moment: the next run goes on where it stopped. `work` trains a task.
    """
    if limit is not None and limit < 1:
        raise InputError(f"limit must be 1 or more; got {limit}. Leave it out to train all.")
    recipes, pool = spec.recipes(), Path(folder)
    missing = spec.group.missing_reason(
        *{name: None for recipe in recipes for name in recipe.domains}
    )
    if missing is not None:
        raise InputError(missing)
    with lock_folder(pool):
        checkpoint.remove_partial_writes(pool)
        _check_classes(pool, recipes, spec.group)
        log = _PoolRunState.start(pool, recipes, limit, progress)
        with closing(runner(work, make_tasks(log.pending, spec.group))) as outcomes:
            for task, found in outcomes:
                for one in _task_outcomes(task, found):
                    log.record(one)
        return log.result()


def _check_classes(pool: Path, configs: Sequence[TrainingConfig], group: DomainGroup) -> None:
    """Refuse a folder whose models were taught by another group of the same name."""
    there = checkpoint.finished_models(pool)
    for name in (recipe.id for recipe in configs if recipe.id in there):
        classes = checkpoint.load_classes(there[name])
        if classes != group.classes:
            raise InputError(
                f"The model {name} in {str(pool)!r} has the classes {', '.join(classes):.200}, and "
                f"the group {group.name!r} has {', '.join(group.classes):.200}. Give the group "
                "another name, or the pool another folder."
            )


def make_tasks(configs: Sequence[TrainingConfig], group: DomainGroup) -> list[TrainingTask]:
    """Recipes as tasks: those that are quicker side by side in stacks, the others alone."""
    stacks: dict[str, list[TrainingConfig]] = {}
    for recipe in configs:
        quicker = recipe.architecture in STACKED_ARCHITECTURES and is_stackable(recipe)
        alike = stack_key(recipe) if quicker else recipe.id
        stacks.setdefault(alike, []).append(recipe)
    return [
        TrainingTask(tuple(stack[start : start + MAX_STACK_MODELS]), group)
        for stack in stacks.values()
        for start in range(0, len(stack), MAX_STACK_MODELS)
    ]


def _task_outcomes(
    task: TrainingTask, found: list[TrainedModel | FailedTraining] | Exception
) -> list[TrainedModel | FailedTraining]:
    if isinstance(found, MissingExtra):
        raise found  # no other recipe would fare better
    if isinstance(found, Exception):
        return [FailedTraining(recipe, format_error(found)) for recipe in task.recipes]
    return found


@dataclass
class _PoolRunState:
    """What has been done, on disk and in numbers."""

    pool: Path
    total: int
    before: int
    pending: list[TrainingConfig]
    progress: ProgressCallback | None
    started: float = field(default_factory=time.monotonic)
    trained: list[str] = field(default_factory=list)
    converged: int = 0
    failed: dict[str, str] = field(default_factory=dict)

    @classmethod
    def start(
        cls,
        pool: Path,
        configs: Sequence[TrainingConfig],
        limit: int | None,
        progress: ProgressCallback | None,
    ) -> _PoolRunState:
        there = checkpoint.finished_models(pool)
        pending = [recipe for recipe in configs if recipe.id not in there]
        log = cls(pool, len(configs), len(configs) - len(pending), pending[:limit], progress)
        log.report_progress()
        return log

    def record(self, one: TrainedModel | FailedTraining) -> None:
        name = one.recipe.id
        if isinstance(one, FailedTraining):
            checkpoint.write_failure(self.pool, name, one.recipe.to_dict(), one.reason, one.trace)
            self.failed[name] = one.reason
        else:
            _save_model(self.pool, one)
            checkpoint.remove_failure(self.pool, name)
            self.trained.append(name)
            self.converged += one.converged
        self.report_progress()

    def report_progress(self) -> None:
        if self.progress is None:
            return
        tried = len(self.trained) + len(self.failed)
        rest = len(self.pending) - tried
        words = [f"{self.before + len(self.trained)} of {self.total} models"]
        words += [f"{len(self.failed)} failed"] if self.failed else []
        if tried and rest:
            each = (time.monotonic() - self.started) / tried
            words.append(f"about {format_duration(rest * each)} left")
        self.progress(tried, len(self.pending), ", ".join(words))

    def result(self) -> PoolRunResult:
        seconds = time.monotonic() - self.started
        return PoolRunResult(
            self.total, self.before, tuple(self.trained), self.converged, self.failed, seconds
        )


def _save_model(pool: Path, trained: TrainedModel) -> None:
    try:
        checkpoint.save(pool, trained)
    except KeyboardInterrupt:
        # It has been trained: it is not lost for an impatient user.
        checkpoint.save(pool, trained)
        raise
