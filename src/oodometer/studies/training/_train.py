"""Training one model by its recipe.

The recipe and its seed settle all of it: the same recipe gives the same weights, bit for bit, on
one machine. Adam has β = (0.9, 0.98) and ε = 1e-6 for texts, as is usual there, and its usual
constants otherwise; weight decay is added to the gradient (L2), for Adam as for SGD.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, NamedTuple

from oodometer.core.inputs import Kind
from oodometer.core.protocols import Progress
from oodometer.core.softmax_kernels import Array
from oodometer.models.torch import best_device
from oodometer.studies.domains.group import Group
from oodometer.studies.training._schedules import rate_at
from oodometer.studies.training._trained_model import Trained
from oodometer.studies.training.architectures import head_parameters
from oodometer.studies.training.architectures._layers import torch_package
from oodometer.studies.training.build import fixed_body, network_of, settled
from oodometer.studies.training.config import Recipe
from oodometer.studies.training.data_loader import Timed, as_tensor, fed
from oodometer.studies.training.linear_probe import as_features, features_of, head_of
from oodometer.studies.training.sampling import steps_of
from oodometer.studies.training.training_data import TEXTS, Material, Sample, gathered, sampled

# Beside a head's weights: the fingerprint of the body that it was learned on.
BODY_FILE = "body.txt"
# So many rows are shown at once where nothing is learned.
SHOWN: dict[Kind, int] = {"images": 64, "text": 64, "pairs": 64, "vectors": 4096}


class Fit(NamedTuple):
    """How well a network fits the labels that it learns."""

    loss: float
    accuracy: float


class Constants(NamedTuple):
    """Adam's."""

    betas: tuple[float, float]
    eps: float


def adam_constants(kind: Kind) -> Constants:
    """β and ε of Adam, by the kind of the inputs."""
    return Constants((0.9, 0.98), 1e-6) if kind in TEXTS else Constants((0.9, 0.999), 1e-8)


@dataclass(frozen=True, eq=False)
class Lesson:
    """A network, what it is to learn, and what inputs go through before, if it is only a head."""

    recipe: Recipe
    material: Material
    sample: Sample
    module: Any
    device: str
    before: Callable[[Any], Any] | None = None

    @property
    def per_epoch(self) -> int:
        """How many steps an epoch has."""
        return steps_of(len(self.sample.rows), self.recipe.batch)

    def shown(self, inputs: Array) -> Any:
        """Inputs as the network takes them."""
        given = as_tensor(inputs, self.material.shape.kind, self.device)
        return given if self.before is None else self.before(given)

    def of_the_head(self) -> Lesson:
        """The same for the head alone: on features of all rows, or as they come if they change."""
        through = replace(self, before=features_of(self.module))
        head = head_of(self.module, float(self.recipe.settings.get("dropout", 0.0)))
        if self.recipe.augment != "none":
            return replace(through, module=head)
        material, sample = as_features(self.material, self.sample, through.shown)
        return replace(self, material=material, sample=sample, module=head)

    def wanted(self, labels: Array) -> Any:
        """Labels as the loss takes them."""
        return torch_package().from_numpy(labels).to(self.device)


class Ended(NamedTuple):
    """What is left of a training: the weights, how well they fit, and other facts."""

    weights: dict[str, Array]
    fit: Fit | None
    facts: dict[str, float]


class Course(NamedTuple):
    """How a training went; a loss that was not finite leaves no fit."""

    epochs: int
    fit: Fit | None
    waited: float
    stepping: float


def train(recipe: Recipe, group: Group, *, progress: Progress | None = None) -> Trained:
    """The model of a recipe, on the training rows of its domains.

    After every epoch the mean cross-entropy over all training rows, as they are (not augmented)
    and with the labels that are learned (noise included), is found in evaluation mode. Training
    ends, converged, when it is at `stop_at` or below; else after all epochs, not converged.
    A loss that is not finite ends it too, with the fact `diverged`. `data_wait` is the share of the
    steps' time that was spent waiting for batches.
    """
    began = time.perf_counter()
    material, device = gathered(recipe, group), best_device()
    with settled(recipe.seed):
        module = network_of(recipe, material.shape).to(device)
        lesson = Lesson(recipe, material, sampled(material, recipe), module, device)
        taught = lesson.of_the_head() if recipe.part == "head" else lesson
        course = followed(taught, material.shape.kind, progress)
    facts = {
        **lesson.sample.facts,
        "epochs": float(course.epochs),
        "data_wait": course.waited / max(course.stepping, 1e-9),
        "seconds": time.perf_counter() - began,
    }
    return finished(recipe, material, group.classes, Ended(_learned(lesson), course.fit, facts))


def _learned(lesson: Lesson) -> dict[str, Array]:
    """The weights to keep: not those of a body that lies in a folder, unchanged."""
    weights = weights_of(lesson.module)
    if fixed_body(lesson.recipe, lesson.material.shape.kind) is None:
        return weights
    return {name: weights[name] for name in sorted(head_parameters(lesson.module))}


def finished(recipe: Recipe, material: Material, classes: tuple[str, ...], ended: Ended) -> Trained:
    """A model that is trained, converged if its fit is as close as was asked for."""
    fit = ended.fit if ended.fit is not None and math.isfinite(ended.fit.loss) else None
    close = fit is not None and (recipe.stop_at is None or fit.loss <= recipe.stop_at)
    found = {"diverged": 1.0} if fit is None else fit._asdict()
    body = fixed_body(recipe, material.shape.kind)
    files = {**material.files, **({} if body is None else {BODY_FILE: body.encode()})}
    return Trained(
        recipe, material.shape, tuple(classes), ended.weights, close, {**ended.facts, **found}, files
    )  # fmt: skip


def followed(lesson: Lesson, kind: Kind, progress: Progress | None) -> Course:
    """All epochs, or as many as it takes; `kind` is that of the inputs themselves."""
    recipe, stepping, fit = lesson.recipe, 0.0, None
    step = stepper(lesson, kind)
    with closing(fed(lesson.material, lesson.sample, recipe)) as made:
        batches = Timed(made)
        for epoch in range(1, recipe.epochs + 1):
            began = time.perf_counter()
            lesson.module.train()
            going = all(step(*batch) for batch in islice(batches, lesson.per_epoch))
            stepping += time.perf_counter() - began
            if progress is not None:
                progress(epoch, recipe.epochs, f"training {recipe.id}")
            fit = fitted(lesson, at_most=target(recipe, epoch)) if going else None
            if fit is not None or not going:
                break
    return Course(epoch, fit, batches.waited, stepping)


def target(recipe: Recipe, epoch: int) -> float:
    """The loss that ends the training; after the last epoch any does, before it none may."""
    if epoch == recipe.epochs:
        return math.inf
    return -math.inf if recipe.stop_at is None else recipe.stop_at


def stepper(lesson: Lesson, kind: Kind) -> Callable[[Array, Array], bool]:
    """A function that learns a batch; it tells whether the loss is finite, and else leaves be."""
    optimizer = optimizer_of(lesson, kind)
    cross_entropy, done = torch_package().nn.functional.cross_entropy, 0

    def step(inputs: Array, labels: Array) -> bool:
        nonlocal done
        done += 1
        loss = cross_entropy(lesson.module(lesson.shown(inputs)), lesson.wanted(labels))
        if not math.isfinite(loss.item()):
            return False
        for group in optimizer.param_groups:
            group["lr"] = lesson.recipe.lr * share_at(lesson.recipe, done, lesson.per_epoch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return True

    return step


def share_at(recipe: Recipe, step: int, per_epoch: int) -> float:
    """The share of the learning rate that a step takes, counted from 1."""
    return rate_at(step, schedule=recipe.schedule, per_epoch=per_epoch, epochs=recipe.epochs)


def optimizer_of(lesson: Lesson, kind: Kind) -> Any:
    """Adam, or SGD with momentum, on the weights that learn."""
    recipe, optim = lesson.recipe, torch_package().optim
    weights = [weight for weight in lesson.module.parameters() if weight.requires_grad]
    decay = recipe.weight_decay
    if recipe.optimizer == "sgd":
        return optim.SGD(weights, lr=recipe.lr, momentum=recipe.momentum, weight_decay=decay)
    betas, eps = adam_constants(kind)
    return optim.Adam(weights, lr=recipe.lr, betas=betas, eps=eps, weight_decay=decay)


def fitted(lesson: Lesson, *, at_most: float) -> Fit | None:
    """The fit to all training rows, in evaluation mode; None as soon as its loss is above a bound.

    No row's cross-entropy is below 0, so that a sum that is above n times the bound stays so.
    """
    rows, labels = lesson.sample.rows, lesson.sample.labels
    n, size, total, right = len(rows), SHOWN[lesson.material.shape.kind], 0.0, 0
    torch = torch_package()
    lesson.module.eval()
    # Not inference_mode: what a network keeps from here must serve the next step too.
    with torch.no_grad():
        for start in range(0, n, size):
            some = slice(start, start + size)
            logits = lesson.module(lesson.shown(lesson.material.take(rows[some])))
            wanted = lesson.wanted(labels[some])
            total += torch.nn.functional.cross_entropy(logits, wanted, reduction="sum").item()
            if total > at_most * n:
                return None
            right += int((logits.argmax(dim=1) == wanted).sum())
    return Fit(total / n, right / n)


def weights_of(module: Any) -> dict[str, Array]:
    """All weights and statistics of a network, as arrays of their own."""
    return {name: value.cpu().numpy().copy() for name, value in module.state_dict().items()}
