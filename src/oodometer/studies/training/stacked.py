"""Small models of one shape, trained side by side as one.

Their weights are stacked along a first axis, and torch.func maps the gradient of one over it. Each
model has its own batches, label noise, learning rate and weight decay, as in the loop, and leaves
the stack when it has converged; what it becomes is what the loop makes of it, but for the order of
sums. What would tie a model to its neighbors can't be stacked: dropout, whose draws come from one
stream, and batch norm, which keeps statistics.

A sum may differ in its last bit with the place in memory where its numbers begin. So that neither
a model's place nor its neighbors change a bit of it, all matrices of a stack are of so many numbers
that each begins like the first: weights that are not can't be stacked, batches are filled up with
rows that count for nothing.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from oodometer.core.array_types import Array, Ints
from oodometer.core.errors import InputError, NotApplicable
from oodometer.core.optional_imports import torch_package
from oodometer.studies.domains.group import DomainGroup
from oodometer.studies.training._train import (
    EVALUATION_BATCH_ROWS,
    TrainedModel,
    TrainingFit,
    TrainingResult,
    build_trained_model,
    learning_rate_factor,
    stopping_loss,
)
from oodometer.studies.training.build import build_network, seeded_torch
from oodometer.studies.training.config import TrainingConfig
from oodometer.studies.training.data_loader import as_tensor
from oodometer.studies.training.sampling import batches, count_steps
from oodometer.studies.training.stacked_optimizers import StackedOptimizer, make_stacked_optimizer
from oodometer.studies.training.training_data import TrainingSet, draw_sample, load_training_set

Weights = dict[str, Any]
# So many rows are shown to every model at once where nothing is learned.
MAX_EVALUATION_ROWS = 512
# Numbers of four bytes that fill a line of 64: where lines begin, all are alike.
CACHE_LINE_FLOATS = 16
# What recipes of one stack may differ in.
PER_MODEL_KEYS = ("seed", "lr", "weight_decay", "label_noise")


def stack_key(config: TrainingConfig) -> str:
    """The same text for recipes that can be stacked, if their network can."""
    shared = {name: value for name, value in config.to_dict().items() if name not in PER_MODEL_KEYS}
    return json.dumps(shared, sort_keys=True)


def is_stackable(config: TrainingConfig) -> bool:
    """Whether a recipe's settings allow a stack; what its network is like is seen when it is built."""
    settings = config.settings
    plain = config.augment == "none" and not settings.get("batch_norm", False)
    return (
        plain
        and settings.get("dropout", 0) == 0
        and settings.get("width", CACHE_LINE_FLOATS) % CACHE_LINE_FLOATS == 0
    )


def train_stacked(configs: Sequence[TrainingConfig], group: DomainGroup) -> list[TrainedModel]:
    """The models of recipes that differ in seed, rate, decay and label noise alone, in order.

    They equal those of `train` within float tolerance. NotApplicable where they can't be stacked, by
    their augmentation, dropout, batch norm or sizes: then take `train`.
    """
    _check_recipes(configs)
    began = time.perf_counter()
    material = load_training_set(configs[0], group)
    stack = _build_stack(configs, material)
    samples = [draw_sample(material, recipe) for recipe in configs]
    rows, labels = (
        np.stack(part) for part in zip(*((s.rows, s.labels) for s in samples), strict=True)
    )
    lessons = StackTrainingData(configs, material, rows, labels, *_vectorize(stack.network))
    with seeded_torch(configs[0].seed):
        ended = dict(_run_epochs(stack, lessons))
    facts = {"stacked": len(configs), "seconds": (time.perf_counter() - began) / len(configs)}
    return [
        build_trained_model(
            recipe,
            material,
            group.classes,
            one._replace(facts={**sample.facts, **one.facts, **facts}),
        )
        for recipe, sample, (_, one) in zip(configs, samples, sorted(ended.items()), strict=True)
    ]


def _check_recipes(configs: Sequence[TrainingConfig]) -> None:
    if not configs:
        raise InputError("A stack has one recipe or more; got none.")
    for recipe in configs:
        if stack_key(recipe) != stack_key(configs[0]):
            raise InputError(
                f"The recipes {configs[0].id} and {recipe.id} can't be stacked: they differ in more "
                f"than {', '.join(PER_MODEL_KEYS)}. Group them by family first."
            )
    if configs[0].augment != "none":
        raise NotApplicable(f"{configs[0].augment} is not made for stacks of models")


@dataclass(frozen=True, eq=False)
class ModelStack:
    """Models that are still trained.

    recipe_index   where each stands among the recipes
    network        one of the networks, which runs any weights
    trainable      the stacked weights that learn, moved in place
    frozen         those that stay, such as a frozen body
    """

    recipe_index: Ints
    network: Any
    trainable: Weights
    frozen: Weights
    optimizer: StackedOptimizer

    def subset(self, index: Ints) -> ModelStack:
        """Some of the models."""
        at = torch_package().from_numpy(index)
        return ModelStack(
            recipe_index=self.recipe_index[index],
            network=self.network,
            trainable={name: value[at] for name, value in self.trainable.items()},
            frozen={name: value[at] for name, value in self.frozen.items()},
            optimizer=self.optimizer.subset(at),
        )

    def weights(self, position: int) -> dict[str, Array]:
        """Those of one model, in the network's own order."""
        both = {**self.frozen, **self.trainable}
        return {name: both[name][position].numpy().copy() for name in self.network.state_dict()}


def _build_stack(configs: Sequence[TrainingConfig], material: TrainingSet) -> ModelStack:
    networks = []
    for recipe in configs:
        with seeded_torch(recipe.seed):
            networks.append(build_network(recipe, material.shape))
    _check_network(networks[0], configs[0].architecture)
    learns = {name for name, one in networks[0].named_parameters() if one.requires_grad}
    parameters, buffers = torch_package().func.stack_module_state(networks)
    both = {name: weight.detach() for name, weight in (parameters | buffers).items()}
    learning = {name: weight for name, weight in both.items() if name in learns}
    return ModelStack(
        recipe_index=np.arange(len(configs)),
        # Without dropout and batch norm both modes are one, and torch.func maps this one.
        network=networks[0].eval(),
        trainable=learning,
        frozen={name: weight for name, weight in both.items() if name not in learns},
        optimizer=make_stacked_optimizer(configs, material.shape.kind, learning),
    )


def _check_network(network: Any, name: str) -> None:
    for part in network.modules():
        if "Dropout" in type(part).__name__ and part.p > 0:
            raise NotApplicable(
                f"{name} has dropout, whose draws would hang on the models beside it"
            )
        if getattr(part, "running_mean", None) is not None:
            raise NotApplicable(f"{name} has batch norm, whose statistics can't be stacked")
    for part in network.parameters():
        if part.ndim > 1 and part.numel() % CACHE_LINE_FLOATS:
            raise NotApplicable(
                f"{name} has {part.numel()} weights in a layer, no multiple of {CACHE_LINE_FLOATS}"
            )


@dataclass(frozen=True, eq=False)
class StackTrainingData:
    """What is to be learned: by each recipe its own rows and labels, both (recipes, rows).

    gradients   of stacked weights, inputs, labels and what rows count: the gradients of all
    fit_sums    of the same: the summed losses, and how many rows are right
    """

    recipes: Sequence[TrainingConfig]
    training_set: TrainingSet
    rows: Ints
    labels: Ints
    gradients: Callable[..., Weights]
    fit_sums: Callable[..., tuple[Any, Any]]

    def batch_tensors(self, recipe_index: Ints, index: Ints) -> tuple[Any, Any, Any]:
        """Inputs and labels of some models, and what each counts; which rows, (models, some)."""
        n = index.shape[1]
        counts = (np.arange(n + -n % CACHE_LINE_FLOATS) < n).astype(np.float32)
        index = np.pad(index, ((0, 0), (0, -n % CACHE_LINE_FLOATS)), mode="edge")
        rows, labels = (part[recipe_index[:, None], index] for part in (self.rows, self.labels))
        inputs = as_tensor(
            self.training_set.take(rows.ravel()), self.training_set.shape.kind, "cpu"
        )
        torch = torch_package()
        every = torch.from_numpy(counts).expand(rows.shape)
        return inputs.unflatten(0, rows.shape), torch.from_numpy(labels), every


def _vectorize(network: Any) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """The functions of one model, mapped over all."""
    torch = torch_package()
    call, cross_entropy = torch.func.functional_call, torch.nn.functional.cross_entropy

    def loss(learning: Weights, fixed: Weights, inputs: Any, labels: Any, counts: Any) -> Any:
        logits = call(network, (learning, fixed), (inputs,))
        return (cross_entropy(logits, labels, reduction="none") * counts).sum() / counts.sum()

    def measured(learning: Weights, fixed: Weights, inputs: Any, labels: Any, counts: Any) -> Any:
        logits = call(network, (learning, fixed), (inputs,))
        right = ((logits.argmax(dim=1) == labels) * counts).sum()
        return (cross_entropy(logits, labels, reduction="none") * counts).sum(), right

    return torch.func.vmap(torch.func.grad(loss)), torch.func.vmap(measured)


def _run_epochs(
    stack: ModelStack, lessons: StackTrainingData
) -> Iterator[tuple[int, TrainingResult]]:
    """All epochs; every model, with its place, as it ends."""
    recipe = lessons.recipes[0]
    for epoch in range(1, recipe.epochs + 1):
        _train_epoch(stack, lessons, epoch)
        fits = _evaluate_fits(stack, lessons, max_loss=stopping_loss(recipe, epoch))
        # A loss that is not a number is above no bound: what diverged is gone as well.
        gone = np.array([fit is not None for fit in fits])
        for at in np.flatnonzero(gone).tolist():
            ended = TrainingResult(stack.weights(at), fits[at], {"epochs": float(epoch)})
            yield int(stack.recipe_index[at]), ended
        if gone.all():
            return
        stack = stack.subset(np.flatnonzero(~gone)) if gone.any() else stack


def _train_epoch(stack: ModelStack, lessons: StackTrainingData, epoch: int) -> None:
    """Take the steps of an epoch."""
    recipe, n = lessons.recipes[0], lessons.rows.shape[1]
    per_epoch = count_steps(n, recipe.batch)
    seeds = [lessons.recipes[place].seed for place in stack.recipe_index]
    orders = [batches(n, batch_size=recipe.batch, seed=seed, epoch=epoch) for seed in seeds]
    for step, index in enumerate(zip(*orders, strict=True), start=1 + (epoch - 1) * per_epoch):
        shown = lessons.batch_tensors(stack.recipe_index, np.stack(index))
        found = lessons.gradients(stack.trainable, stack.frozen, *shown)
        stack.optimizer.step(stack.trainable, found, learning_rate_factor(recipe, step, per_epoch))


def _evaluate_fits(
    stack: ModelStack, lessons: StackTrainingData, *, max_loss: float
) -> list[TrainingFit | None]:
    """How well each model fits its rows; None where the loss is above the bound, as in the loop."""
    n, models = lessons.rows.shape[1], len(stack.recipe_index)
    size = min(EVALUATION_BATCH_ROWS[lessons.training_set.shape.kind], MAX_EVALUATION_ROWS)
    total, right = np.zeros(models), np.zeros(models)
    for start in range(0, n, size):
        rows = np.arange(start, min(start + size, n))
        shown = lessons.batch_tensors(
            stack.recipe_index, np.broadcast_to(rows, (models, len(rows)))
        )
        losses, hits = lessons.fit_sums(stack.trainable, stack.frozen, *shown)
        total += losses.numpy()
        right += hits.numpy()
        if (total > max_loss * n).all():
            break
    return [
        None if one > max_loss * n else TrainingFit(float(one / n), float(hits / n))
        for one, hits in zip(total, right, strict=True)
    ]
