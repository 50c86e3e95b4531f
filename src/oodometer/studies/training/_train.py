"""Training one model by its recipe.

The recipe and its seed settle all of it: the same recipe gives the same weights, bit for bit, on
one machine. Adam has β = (0.9, 0.98) and ε = 1e-6 for texts, as is usual there, and its usual
constants otherwise; weight decay is added to the gradient (L2), for Adam as for SGD.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, NamedTuple

from oodometer.core.array_types import Array
from oodometer.core.inputs import InputKind
from oodometer.core.optional_imports import torch_package
from oodometer.core.protocols import ProgressCallback
from oodometer.models.torch import best_device
from oodometer.studies.domains.group import DomainGroup
from oodometer.studies.training.architectures import head_parameters
from oodometer.studies.training.architectures.base import InputShape
from oodometer.studies.training.build import build_network, frozen_body_fingerprint, seeded_torch
from oodometer.studies.training.config import Schedule, TrainingConfig
from oodometer.studies.training.data_loader import TimedIterator, as_tensor, training_batches
from oodometer.studies.training.linear_probe import build_head, extract_features, feature_extractor
from oodometer.studies.training.sampling import count_steps
from oodometer.studies.training.training_data import (
    TEXT_KINDS,
    TrainingSample,
    TrainingSet,
    draw_sample,
    load_training_set,
)


def schedule_factor(step: int, *, schedule: Schedule, steps_per_epoch: int, epochs: int) -> float:
    """The share of the learning rate that a step takes, counted from 1.

    constant              1
    inverse-square-root   a line up to 1 over the first epoch, then 1 / √epochs (Vaswani et al. 2017)
    cosine                (1 + cos π t) / 2, where t goes from 0 to 1 over all epochs (Loshchilov &
                          Hutter 2017)

    >>> [schedule_factor(s, schedule="inverse-square-root", steps_per_epoch=4, epochs=9) for s in (1, 4, 16, 36)]
    [0.25, 1.0, 0.5, 0.3333333333333333]
    """
    if schedule == "inverse-square-root":
        passed = step / steps_per_epoch
        return min(passed, 1 / math.sqrt(passed))
    if schedule == "cosine":
        return (1 + math.cos(math.pi * (step - 1) / (steps_per_epoch * epochs))) / 2
    return 1.0


@dataclass(frozen=True, eq=False)
class TrainedModel:
    """A trained model as plain data, which a worker can send.

    converged   whether the target cross-entropy was reached; without a target, always
    classes     the names of the classes, in order
    facts       epochs, loss and accuracy on the training data, seconds
    files       what must lie beside the weights, such as a tokenizer, by name
    """

    recipe: TrainingConfig
    shape: InputShape
    classes: tuple[str, ...]
    weights: Mapping[str, Array]
    converged: bool
    facts: Mapping[str, float] = field(default_factory=dict)
    files: Mapping[str, bytes] = field(default_factory=dict)


# Beside a head's weights: the fingerprint of the body that it was learned on.
BODY_FILE = "body.txt"
# So many rows are shown at once where nothing is learned.
EVALUATION_BATCH_ROWS: dict[InputKind, int] = {
    "images": 64,
    "text": 64,
    "pairs": 64,
    "vectors": 4096,
}


class TrainingFit(NamedTuple):
    """How well a network fits the labels that it learns."""

    loss: float
    accuracy: float


class AdamConstants(NamedTuple):
    """Adam's."""

    betas: tuple[float, float]
    eps: float


def adam_constants(kind: InputKind) -> AdamConstants:
    """β and ε of Adam, by the kind of the inputs."""
    return (
        AdamConstants((0.9, 0.98), 1e-6)
        if kind in TEXT_KINDS
        else AdamConstants((0.9, 0.999), 1e-8)
    )


@dataclass(frozen=True, eq=False)
class TrainingRun:
    """A network, what it is to learn, and what inputs go through before, if it is only a head."""

    recipe: TrainingConfig
    training_set: TrainingSet
    sample: TrainingSample
    module: Any
    device: str
    preprocess: Callable[[Any], Any] | None = None

    @property
    def steps_per_epoch(self) -> int:
        """How many steps an epoch has."""
        return count_steps(len(self.sample.rows), self.recipe.batch)

    def to_network_input(self, inputs: Array) -> Any:
        """Inputs as the network takes them."""
        given = as_tensor(inputs, self.training_set.shape.kind, self.device)
        return given if self.preprocess is None else self.preprocess(given)

    def for_head(self) -> TrainingRun:
        """The same for the head alone: on features of all rows, or as they come if they change."""
        through = replace(self, preprocess=feature_extractor(self.module))
        head = build_head(self.module, float(self.recipe.settings.get("dropout", 0.0)))
        if self.recipe.augment != "none":
            return replace(through, module=head)
        material, sample = extract_features(
            self.training_set, self.sample, through.to_network_input
        )
        return replace(self, training_set=material, sample=sample, module=head)

    def to_label_tensor(self, labels: Array) -> Any:
        """Labels as the loss takes them."""
        return torch_package().from_numpy(labels).to(self.device)


class TrainingResult(NamedTuple):
    """What is left of a training: the weights, how well they fit, and other facts."""

    weights: dict[str, Array]
    fit: TrainingFit | None
    facts: dict[str, float]


class TrainingHistory(NamedTuple):
    """How a training went; a loss that was not finite leaves no fit."""

    epochs: int
    fit: TrainingFit | None
    seconds_waiting: float
    seconds_stepping: float


def train(
    config: TrainingConfig, group: DomainGroup, *, progress: ProgressCallback | None = None
) -> TrainedModel:
    """The model of a recipe, on the training rows of its domains.

    After every epoch the mean cross-entropy over all training rows, as they are (not augmented)
    and with the labels that are learned (noise included), is found in evaluation mode. Training
    ends, converged, when it is at `stop_at` or below; else after all epochs, not converged.
    A loss that is not finite ends it too, with the fact `diverged`. `data_wait` is the share of the
    steps' time that was spent waiting for batches.
    """
    began = time.perf_counter()
    material, device = load_training_set(config, group), best_device()
    with seeded_torch(config.seed):
        module = build_network(config, material.shape).to(device)
        lesson = TrainingRun(config, material, draw_sample(material, config), module, device)
        taught = lesson.for_head() if config.part == "head" else lesson
        course = train_epochs(taught, material.shape.kind, progress)
    facts = {
        **lesson.sample.facts,
        "epochs": float(course.epochs),
        "data_wait": course.seconds_waiting / max(course.seconds_stepping, 1e-9),
        "seconds": time.perf_counter() - began,
    }
    return build_trained_model(
        config, material, group.classes, TrainingResult(_weights_to_save(lesson), course.fit, facts)
    )


def _weights_to_save(lesson: TrainingRun) -> dict[str, Array]:
    """The weights to keep: not those of a body that lies in a folder, unchanged."""
    weights = get_weights(lesson.module)
    if frozen_body_fingerprint(lesson.recipe, lesson.training_set.shape.kind) is None:
        return weights
    return {name: weights[name] for name in sorted(head_parameters(lesson.module))}


def build_trained_model(
    config: TrainingConfig,
    training_data: TrainingSet,
    classes: tuple[str, ...],
    outcome: TrainingResult,
) -> TrainedModel:
    """A model that is trained, converged if its fit is as close as was asked for."""
    fit = outcome.fit if outcome.fit is not None and math.isfinite(outcome.fit.loss) else None
    close = fit is not None and (config.stop_at is None or fit.loss <= config.stop_at)
    found = {"diverged": 1.0} if fit is None else fit._asdict()
    body = frozen_body_fingerprint(config, training_data.shape.kind)
    files = {**training_data.files, **({} if body is None else {BODY_FILE: body.encode()})}
    return TrainedModel(
        config, training_data.shape, tuple(classes), outcome.weights, close, {**outcome.facts, **found}, files
    )  # fmt: skip


def train_epochs(
    setup: TrainingRun, kind: InputKind, progress: ProgressCallback | None
) -> TrainingHistory:
    """All epochs, or as many as it takes; `kind` is that of the inputs themselves."""
    recipe, stepping, fit = setup.recipe, 0.0, None
    step = make_train_step(setup, kind)
    with closing(training_batches(setup.training_set, setup.sample, recipe)) as made:
        batches = TimedIterator(made)
        for epoch in range(1, recipe.epochs + 1):
            began = time.perf_counter()
            setup.module.train()
            going = all(step(*batch) for batch in islice(batches, setup.steps_per_epoch))
            stepping += time.perf_counter() - began
            if progress is not None:
                progress(epoch, recipe.epochs, f"training {recipe.id}")
            fit = evaluate_fit(setup, max_loss=stopping_loss(recipe, epoch)) if going else None
            if fit is not None or not going:
                break
    return TrainingHistory(epoch, fit, batches.seconds_waiting, stepping)


def stopping_loss(config: TrainingConfig, epoch: int) -> float:
    """The loss that ends the training; after the last epoch any does, before it none may."""
    if epoch == config.epochs:
        return math.inf
    return -math.inf if config.stop_at is None else config.stop_at


def make_train_step(setup: TrainingRun, kind: InputKind) -> Callable[[Array, Array], bool]:
    """A function that learns a batch; it tells whether the loss is finite, and else leaves be."""
    optimizer = make_optimizer(setup, kind)
    cross_entropy, done = torch_package().nn.functional.cross_entropy, 0

    def step(inputs: Array, labels: Array) -> bool:
        nonlocal done
        done += 1
        loss = cross_entropy(
            setup.module(setup.to_network_input(inputs)), setup.to_label_tensor(labels)
        )
        if not math.isfinite(loss.item()):
            return False
        for group in optimizer.param_groups:
            group["lr"] = setup.recipe.lr * learning_rate_factor(
                setup.recipe, done, setup.steps_per_epoch
            )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return True

    return step


def learning_rate_factor(config: TrainingConfig, step: int, steps_per_epoch: int) -> float:
    """The share of the learning rate that a step takes, counted from 1."""
    return schedule_factor(
        step, schedule=config.schedule, steps_per_epoch=steps_per_epoch, epochs=config.epochs
    )


def make_optimizer(setup: TrainingRun, kind: InputKind) -> Any:
    """Adam, or SGD with momentum, on the weights that learn."""
    recipe, optim = setup.recipe, torch_package().optim
    weights = [weight for weight in setup.module.parameters() if weight.requires_grad]
    decay = recipe.weight_decay
    if recipe.optimizer == "sgd":
        return optim.SGD(weights, lr=recipe.lr, momentum=recipe.momentum, weight_decay=decay)
    betas, eps = adam_constants(kind)
    return optim.Adam(weights, lr=recipe.lr, betas=betas, eps=eps, weight_decay=decay)


def evaluate_fit(setup: TrainingRun, *, max_loss: float) -> TrainingFit | None:
    """The fit to all training rows, in evaluation mode; None as soon as its loss is above a bound.

    No row's cross-entropy is below 0, so that a sum that is above n times the bound stays so.
    """
    rows, labels = setup.sample.rows, setup.sample.labels
    n, size, total, right = len(rows), EVALUATION_BATCH_ROWS[setup.training_set.shape.kind], 0.0, 0
    torch = torch_package()
    setup.module.eval()
    # Not inference_mode: what a network keeps from here must serve the next step too.
    with torch.no_grad():
        for start in range(0, n, size):
            some = slice(start, start + size)
            logits = setup.module(setup.to_network_input(setup.training_set.take(rows[some])))
            wanted = setup.to_label_tensor(labels[some])
            total += torch.nn.functional.cross_entropy(logits, wanted, reduction="sum").item()
            if total > max_loss * n:
                return None
            right += int((logits.argmax(dim=1) == wanted).sum())
    return TrainingFit(total / n, right / n)


def get_weights(module: Any) -> dict[str, Array]:
    """All weights and statistics of a network, as arrays of their own."""
    return {name: value.cpu().numpy().copy() for name, value in module.state_dict().items()}
