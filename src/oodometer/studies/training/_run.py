"""Train all models of a pool that are not in its folder yet."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from oodometer.core.errors import InputError, MissingExtra, format_error
from oodometer.core.format import format_duration
from oodometer.core.jsonable import fields_to_jsonable
from oodometer.core.protocols import ProgressCallback
from oodometer.data.atomic import lock_folder
from oodometer.models.feature_cache import FeatureCache
from oodometer.parallel.runners import Runner, serial
from oodometer.studies._toml import prefix_errors
from oodometer.studies.domains.group import DomainGroup
from oodometer.studies.resumable_run import (
    RunLog,
    check_limit,
    run_tasks,
    write_despite_interrupt,
)
from oodometer.studies.training import architectures, checkpoint
from oodometer.studies.training._train import TrainedModel, train
from oodometer.studies.training.architectures.head import PretrainedHead
from oodometer.studies.training.architectures.timm import TimmNetwork
from oodometer.studies.training.config import CACHED_BODY_ARCHITECTURE, TrainingConfig
from oodometer.studies.training.spec import PoolSpec
from oodometer.studies.training.stacked import (
    is_stackable,
    max_stack_models,
    stack_key,
    train_stacked,
)
from oodometer.studies.training.training_data import cache_features

# Architectures whose models train faster in a stack, that is, many models at once.
STACKED_ARCHITECTURES = ("mlp", CACHED_BODY_ARCHITECTURE)


@dataclass(frozen=True)
class TrainingTask:
    """Task for one worker: train a single model or a stack of models."""

    recipes: tuple[TrainingConfig, ...]
    group: DomainGroup


@dataclass(frozen=True)
class FeatureTask:
    """Task for one worker: compute the features of a training domain for a body."""

    recipe: TrainingConfig
    group: DomainGroup
    domain: str


@dataclass(frozen=True)
class FailedTraining:
    """Failed training: its configuration, the reason in one line, and the traceback."""

    recipe: TrainingConfig
    reason: str
    trace: str = ""


@dataclass(frozen=True)
class PoolRunResult:
    """Counts of a run that trains the models of a pool.

    Parameters
    ----------
    total : int
        Number of models of the spec.
    before : int
        Number of models that existed before the run.
    trained : tuple of str
        Ids of the models that the run has trained.
    converged : int
        Number of models that the run has trained and that converged.
    failed : mapping of str to str
        Reasons of failures, keyed by the ids of the models whose training failed.
    seconds : float
        Duration of the run in seconds.
    registered : int
        Number of models among `trained` that are pretrained networks, which are not trained.
    missing : tuple of str
        Names of the networks to evaluate whose pretrained weights are missing.

    Examples
    --------
    >>> PoolRunResult(total=9, before=4, trained=("a", "b"), converged=1, seconds=30.0).summary()
    '2 models trained in 30 s, 1 of them converged; 6 of 9 are stored, 3 remain.'
    """

    total: int
    before: int
    trained: tuple[str, ...] = ()
    converged: int = 0
    failed: Mapping[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    registered: int = 0
    missing: tuple[str, ...] = ()

    @property
    def remaining(self) -> int:
        """Number of models of the spec that are not trained yet."""
        return self.total - self.before - len(self.trained)

    def summary(self) -> str:
        """Return the counts in one sentence, and the networks without weights in another one."""
        failed = f", {len(self.failed)} failed" if self.failed else ""
        remaining = ""
        if self.remaining:
            remaining = f", {self.remaining} {'remains' if self.remaining == 1 else 'remain'}"
        n_stored = self.before + len(self.trained)
        return (
            f"{self._new_models()}{failed}; {n_stored} of {self.total} are stored{remaining}."
            f"{describe_missing(self.missing)}"
        )

    def _new_models(self) -> str:
        n_new = len(self.trained)
        models = "1 model" if n_new == 1 else f"{n_new} models"
        duration = format_duration(self.seconds)
        if self.missing or self.registered:
            return f"{models} registered or trained in {duration}"
        return f"{models} trained in {duration}, {self.converged} of them converged"

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {**fields_to_jsonable(self), "left": self.remaining}


def describe_missing(names: Sequence[str]) -> str:
    """Return a sentence about networks without weights, to append to a summary.

    >>> describe_missing(["timm:resnet18"])
    ' The pretrained weights of 1 network are missing: timm:resnet18.'
    """
    if not names:
        return ""
    networks = "1 network" if len(names) == 1 else f"{len(names)} networks"
    return f" The pretrained weights of {networks} are missing: {', '.join(names)}."


def missing_weights(configs: Sequence[TrainingConfig]) -> dict[str, str]:
    """Return the networks that are only evaluated and have no weights, as names keyed by model id.

    Raises
    ------
    InputError
        If timm does not have one of the networks, or the weights of a network that is to be trained
        are missing.
    """
    missing = {}
    for config in configs:
        architecture = architectures.get(config.architecture, config.settings)
        if isinstance(architecture, PretrainedHead):
            architecture.open_body()
        if not isinstance(architecture, TimmNetwork):
            continue
        architecture.check_name()
        try:
            architecture.check_weights()
        except InputError:
            if config.part != "none":
                raise
            missing[config.id] = config.architecture
    return missing


def train_task(task: TrainingTask) -> list[TrainedModel | FailedTraining]:
    """Train the models of a task together in a stack, or one by one if they cannot be stacked.

    If the architecture allows stacks, a single model is also trained in a stack. Its weights are
    then the same, to the last bit, as in a stack with other models.
    """
    if task.recipes[0].architecture in STACKED_ARCHITECTURES:
        try:
            return list(train_stacked(task.recipes, task.group))
        except Exception:  # training one by one shows which model fails and why
            pass
    return [_train_or_fail(config, task.group) for config in task.recipes]


def _train_or_fail(config: TrainingConfig, group: DomainGroup) -> TrainedModel | FailedTraining:
    try:
        return train(config, group)
    except MissingExtra:
        raise
    except Exception as error:
        trace = "".join(traceback.format_exception(error))
        return FailedTraining(config, format_error(error), trace)


def run(
    spec: PoolSpec,
    folder: str | Path,
    *,
    runner: Runner = serial,
    limit: int | None = None,
    work: Callable[[TrainingTask], list[TrainedModel | FailedTraining]] = train_task,
    progress: ProgressCallback | None = None,
) -> PoolRunResult:
    """Train all models of a spec that are not in the folder of the pool yet.

    A run may be interrupted at any time; the next run continues where it stopped. Pretrained
    networks that are only evaluated (``weights_dir`` in the spec) are registered, not trained; if
    their weights are missing, they are listed in the result.

    Parameters
    ----------
    spec : PoolSpec
        Models to train.
    folder : str or path
        Folder of the pool.
    runner : Runner
        Function that runs the tasks in this process, in worker processes, or on a cluster.
    limit : int, optional
        Maximum number of models to train. Default: all.
    work : callable
        Function that trains the models of one task.
    progress : callable, optional
        Function that is called with the number of finished models, the number of all models of the
        run, and a description.

    Returns
    -------
    PoolRunResult
        Counts of the run, and the reasons of failures.

    Raises
    ------
    InputError
        If `limit` is below 1, if data files of a domain are missing, if the weights of a pretrained
        network to train are missing, if the folder contains models with other classes, or if the
        folder cannot be written.
    MissingExtra
        If a package that a task needs is not installed.
    """
    check_limit(limit)
    configs = spec.recipes()
    pool = Path(folder)
    domains = dict.fromkeys(name for config in configs for name in config.domains)
    reason = spec.group.missing_reason(*domains)
    if reason is not None:
        raise InputError(reason)
    with lock_folder(pool):
        checkpoint.remove_partial_writes(pool)
        finished = checkpoint.finished_models(pool)
        _check_classes(pool, [finished[each.id] for each in configs if each.id in finished], spec)
        pending = [config for config in configs if config.id not in finished]
        log = RunLog("models", len(configs), len(configs) - len(pending), progress)
        with prefix_errors(spec.place):
            missing = missing_weights(pending)
        pending = [config for config in pending if config.id not in missing]
        state = _PoolRun(pool, log, missing=tuple(dict.fromkeys(missing.values())))
        log.start_stage(len(pending[:limit]))
        _cache_features(pending[:limit], spec.group, runner, progress)
        tasks = make_tasks(pending[:limit], spec.group)
        run_tasks(runner, work, tasks, failed=_failed_outcomes, record=state.record)
        return state.result()


def _check_classes(pool: Path, models: Sequence[Path], spec: PoolSpec) -> None:
    """Raise if an existing model has other classes than the group of the spec."""
    for folder in models:
        classes = checkpoint.load_classes(folder)
        if classes != spec.group.classes:
            raise InputError(
                f"The model {folder.name} in {str(pool)!r} has the classes "
                f"{', '.join(classes):.200}, and the group {spec.group.name!r} has "
                f"{', '.join(spec.group.classes):.200}. Rename the group, or use another folder."
            )


def make_tasks(configs: Sequence[TrainingConfig], group: DomainGroup) -> list[TrainingTask]:
    """Return training tasks: one per stack of models, and one for each model outside a stack."""
    stacks: dict[str, list[TrainingConfig]] = {}
    for config in configs:
        stackable = config.architecture in STACKED_ARCHITECTURES and is_stackable(config)
        stacks.setdefault(stack_key(config) if stackable else config.id, []).append(config)
    return [
        TrainingTask(tuple(stack[start : start + max_stack_models(stack[0])]), group)
        for stack in stacks.values()
        for start in range(0, len(stack), max_stack_models(stack[0]))
    ]


def make_feature_tasks(configs: Sequence[TrainingConfig], group: DomainGroup) -> list[FeatureTask]:
    """Return one task for each training domain, body and augmentation of the configurations."""
    tasks: dict[tuple[str, str, str], FeatureTask] = {}
    for config in configs:
        settings = {key: value for key, value in config.settings.items() if key != "head"}
        for domain in config.domains if config.has_cached_body else ():
            key = (repr(settings), config.augment, domain)
            tasks.setdefault(key, FeatureTask(config, group, domain))
    return list(tasks.values())


def cache_task_features(task: FeatureTask) -> None:
    """Compute the features of a task and store them in the cache."""
    cache_features(task.recipe, task.group, task.domain)


def _cache_features(
    configs: Sequence[TrainingConfig],
    group: DomainGroup,
    runner: Runner,
    progress: ProgressCallback | None,
) -> None:
    """Compute the features of all training domains before heads are trained on them.

    Otherwise several workers would compute the same features. Errors are not reported here, because
    the training of the heads meets the same errors.
    """
    tasks = make_feature_tasks(configs, group)
    if not tasks or FeatureCache.default() is None:
        return
    with closing(runner(cache_task_features, tasks)) as outcomes:
        for done, (task, _) in enumerate(outcomes, start=1):
            if progress is not None:
                progress(done, len(tasks), f"features of {task.domain}")


def _failed_outcomes(task: TrainingTask, reason: str) -> list[TrainedModel | FailedTraining]:
    return [FailedTraining(config, reason) for config in task.recipes]


@dataclass
class _PoolRun:
    """State of a run: the folder of the pool, the networks without weights, and the counts."""

    pool: Path
    log: RunLog
    missing: tuple[str, ...] = ()
    trained: list[str] = field(default_factory=list)
    converged: int = 0
    registered: int = 0

    def record(self, outcomes: list[TrainedModel | FailedTraining]) -> None:
        """Save the models and failures of a finished task and update the counts."""
        for outcome in outcomes:
            name = outcome.recipe.id
            if isinstance(outcome, FailedTraining):
                config = outcome.recipe.to_dict()
                checkpoint.write_failure(self.pool, name, config, outcome.reason, outcome.trace)
                self.log.failed[name] = outcome.reason
            else:
                self._save(outcome)
                self.trained.append(name)
                self.converged += outcome.converged
                self.registered += outcome.recipe.part == "none"
                self.log.done += 1
            self.log.advance(1)

    def _save(self, model: TrainedModel) -> None:
        write_despite_interrupt(lambda: checkpoint.save(self.pool, model))
        checkpoint.remove_failure(self.pool, model.recipe.id)

    def result(self) -> PoolRunResult:
        return PoolRunResult(
            total=self.log.total,
            before=self.log.before,
            trained=tuple(self.trained),
            converged=self.converged,
            failed=self.log.failed,
            seconds=self.log.seconds,
            registered=self.registered,
            missing=self.missing,
        )
