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

from oodometer.core.errors import InputError, NoAnswer
from oodometer.core.softmax_kernels import Array, Ints
from oodometer.studies.domains.group import Group
from oodometer.studies.training._train import SHOWN, Ended, Fit, finished, share_at, target
from oodometer.studies.training._trained_model import Trained
from oodometer.studies.training.architectures._layers import torch_package
from oodometer.studies.training.build import network_of, settled
from oodometer.studies.training.config import Recipe
from oodometer.studies.training.data_loader import as_tensor
from oodometer.studies.training.sampling import batches, steps_of
from oodometer.studies.training.stacked_optimizers import Optimizer, optimizer_for
from oodometer.studies.training.training_data import Material, gathered, sampled

Weights = dict[str, Any]
# So many rows are shown to every model at once where nothing is learned.
ROWS = 512
# Numbers of four bytes that fill a line of 64: where lines begin, all are alike.
LINE = 16
# What recipes of one stack may differ in.
OWN = ("seed", "lr", "weight_decay", "label_noise")


def family(recipe: Recipe) -> str:
    """The same text for recipes that can be stacked, if their network can."""
    shared = {name: value for name, value in recipe.to_dict().items() if name not in OWN}
    return json.dumps(shared, sort_keys=True)


def is_stackable(recipe: Recipe) -> bool:
    """Whether a recipe's settings allow a stack; what its network is like is seen when it is built."""
    settings = recipe.settings
    plain = recipe.augment == "none" and not settings.get("batch_norm", False)
    return plain and settings.get("dropout", 0) == 0 and settings.get("width", LINE) % LINE == 0


def train_stacked(recipes: Sequence[Recipe], group: Group) -> list[Trained]:
    """The models of recipes that differ in seed, rate, decay and label noise alone, in order.

    They equal those of `train` within float tolerance. NoAnswer where they can't be stacked, by
    their augmentation, dropout, batch norm or sizes: then take `train`.
    """
    _check_recipes(recipes)
    began = time.perf_counter()
    material = gathered(recipes[0], group)
    stack = _stacked(recipes, material)
    samples = [sampled(material, recipe) for recipe in recipes]
    rows, labels = (
        np.stack(part) for part in zip(*((s.rows, s.labels) for s in samples), strict=True)
    )
    lessons = Lessons(recipes, material, rows, labels, *_mapped(stack.network))
    with settled(recipes[0].seed):
        ended = dict(_followed(stack, lessons))
    facts = {"stacked": len(recipes), "seconds": (time.perf_counter() - began) / len(recipes)}
    return [
        finished(
            recipe,
            material,
            group.classes,
            one._replace(facts={**sample.facts, **one.facts, **facts}),
        )
        for recipe, sample, (_, one) in zip(recipes, samples, sorted(ended.items()), strict=True)
    ]


def _check_recipes(recipes: Sequence[Recipe]) -> None:
    if not recipes:
        raise InputError("A stack has one recipe or more; got none.")
    for recipe in recipes:
        if family(recipe) != family(recipes[0]):
            raise InputError(
                f"The recipes {recipes[0].id} and {recipe.id} can't be stacked: they differ in more "
                f"than {', '.join(OWN)}. Group them by family first."
            )
    if recipes[0].augment != "none":
        raise NoAnswer(f"{recipes[0].augment} is not made for stacks of models")


@dataclass(frozen=True, eq=False)
class Stack:
    """Models that are still trained.

    places     where each stands among the recipes
    network    one of the networks, which runs any weights
    learning   the stacked weights that learn, moved in place
    fixed      those that stay, such as a frozen body
    """

    places: Ints
    network: Any
    learning: Weights
    fixed: Weights
    optimizer: Optimizer

    def only(self, keep: Ints) -> Stack:
        """Some of the models."""
        at = torch_package().from_numpy(keep)
        return Stack(
            places=self.places[keep],
            network=self.network,
            learning={name: value[at] for name, value in self.learning.items()},
            fixed={name: value[at] for name, value in self.fixed.items()},
            optimizer=self.optimizer.taken(at),
        )

    def weights(self, at: int) -> dict[str, Array]:
        """Those of one model, in the network's own order."""
        both = {**self.fixed, **self.learning}
        return {name: both[name][at].numpy().copy() for name in self.network.state_dict()}


def _stacked(recipes: Sequence[Recipe], material: Material) -> Stack:
    networks = []
    for recipe in recipes:
        with settled(recipe.seed):
            networks.append(network_of(recipe, material.shape))
    _check_network(networks[0], recipes[0].architecture)
    learns = {name for name, one in networks[0].named_parameters() if one.requires_grad}
    parameters, buffers = torch_package().func.stack_module_state(networks)
    both = {name: weight.detach() for name, weight in (parameters | buffers).items()}
    learning = {name: weight for name, weight in both.items() if name in learns}
    return Stack(
        places=np.arange(len(recipes)),
        # Without dropout and batch norm both modes are one, and torch.func maps this one.
        network=networks[0].eval(),
        learning=learning,
        fixed={name: weight for name, weight in both.items() if name not in learns},
        optimizer=optimizer_for(recipes, material.shape.kind, learning),
    )


def _check_network(network: Any, name: str) -> None:
    for part in network.modules():
        if "Dropout" in type(part).__name__ and part.p > 0:
            raise NoAnswer(f"{name} has dropout, whose draws would hang on the models beside it")
        if getattr(part, "running_mean", None) is not None:
            raise NoAnswer(f"{name} has batch norm, whose statistics can't be stacked")
    for part in network.parameters():
        if part.ndim > 1 and part.numel() % LINE:
            raise NoAnswer(f"{name} has {part.numel()} weights in a layer, no multiple of {LINE}")


@dataclass(frozen=True, eq=False)
class Lessons:
    """What is to be learned: by each recipe its own rows and labels, both (recipes, rows).

    gradients   of stacked weights, inputs, labels and what rows count: the gradients of all
    measures    of the same: the summed losses, and how many rows are right
    """

    recipes: Sequence[Recipe]
    material: Material
    rows: Ints
    labels: Ints
    gradients: Callable[..., Weights]
    measures: Callable[..., tuple[Any, Any]]

    def shown(self, places: Ints, index: Ints) -> tuple[Any, Any, Any]:
        """Inputs and labels of some models, and what each counts; which rows, (models, some)."""
        n = index.shape[1]
        counts = (np.arange(n + -n % LINE) < n).astype(np.float32)
        index = np.pad(index, ((0, 0), (0, -n % LINE)), mode="edge")
        rows, labels = (part[places[:, None], index] for part in (self.rows, self.labels))
        inputs = as_tensor(self.material.take(rows.ravel()), self.material.shape.kind, "cpu")
        torch = torch_package()
        every = torch.from_numpy(counts).expand(rows.shape)
        return inputs.unflatten(0, rows.shape), torch.from_numpy(labels), every


def _mapped(network: Any) -> tuple[Callable[..., Any], Callable[..., Any]]:
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


def _followed(stack: Stack, lessons: Lessons) -> Iterator[tuple[int, Ended]]:
    """All epochs; every model, with its place, as it ends."""
    recipe = lessons.recipes[0]
    for epoch in range(1, recipe.epochs + 1):
        _learn(stack, lessons, epoch)
        fits = _fits(stack, lessons, at_most=target(recipe, epoch))
        # A loss that is not a number is above no bound: what diverged is gone as well.
        gone = np.array([fit is not None for fit in fits])
        for at in np.flatnonzero(gone).tolist():
            ended = Ended(stack.weights(at), fits[at], {"epochs": float(epoch)})
            yield int(stack.places[at]), ended
        if gone.all():
            return
        stack = stack.only(np.flatnonzero(~gone)) if gone.any() else stack


def _learn(stack: Stack, lessons: Lessons, epoch: int) -> None:
    """Take the steps of an epoch."""
    recipe, n = lessons.recipes[0], lessons.rows.shape[1]
    per_epoch = steps_of(n, recipe.batch)
    seeds = [lessons.recipes[place].seed for place in stack.places]
    orders = [batches(n, batch=recipe.batch, seed=seed, epoch=epoch) for seed in seeds]
    for step, index in enumerate(zip(*orders, strict=True), start=1 + (epoch - 1) * per_epoch):
        shown = lessons.shown(stack.places, np.stack(index))
        found = lessons.gradients(stack.learning, stack.fixed, *shown)
        stack.optimizer.step(stack.learning, found, share_at(recipe, step, per_epoch))


def _fits(stack: Stack, lessons: Lessons, *, at_most: float) -> list[Fit | None]:
    """How well each model fits its rows; None where the loss is above the bound, as in the loop."""
    n, models = lessons.rows.shape[1], len(stack.places)
    size = min(SHOWN[lessons.material.shape.kind], ROWS)
    total, right = np.zeros(models), np.zeros(models)
    for start in range(0, n, size):
        rows = np.arange(start, min(start + size, n))
        shown = lessons.shown(stack.places, np.broadcast_to(rows, (models, len(rows))))
        losses, hits = lessons.measures(stack.learning, stack.fixed, *shown)
        total += losses.numpy()
        right += hits.numpy()
        if (total > at_most * n).all():
            break
    return [
        None if one > at_most * n else Fit(float(one / n), float(hits / n))
        for one, hits in zip(total, right, strict=True)
    ]
