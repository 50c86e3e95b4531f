"""Stacked training: train many small networks of the same shape at once with torch.func.

The weights of all networks are stacked along a new first axis, and torch.func computes the
gradients of all networks in one call. Each model has its own batches, label noise, learning rate
and weight decay, and leaves the stack when it has converged. The weights equal those of separate
training up to rounding errors. Networks with dropout or batch norm cannot be stacked: dropout draws
random numbers from one stream for all models, and batch norm updates its statistics in place.

A model must not depend on its position in the stack or on the other models, not even in the last
bit. The last bit of a sum can depend on the memory alignment of its terms, so every matrix in a
stack must start at the beginning of a cache line. For this reason the number of weights of each
matrix must be a multiple of CACHE_LINE_FLOATS, and batches are padded with rows of weight 0.
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
# Maximum number of rows per batch of one model when the training loss is evaluated.
MAX_EVALUATION_ROWS = 512
# Maximum number of models per stack. An interrupted run loses the models of an unfinished stack.
MAX_STACK_MODELS = 50
# Maximum number of heads with a hidden layer per stack. The weights and the state of the optimizer of
# larger stacks do not fit into the CPU cache: with 1280 features, a step of 50 heads with 128 hidden
# units takes 30% longer per head than a step of 10.
MAX_STACK_HEADS = {"mlp128": 10, "mlp512": 5}
# Number of 4-byte floats in a cache line of 64 bytes; every matrix starts at a cache line.
CACHE_LINE_FLOATS = 16
# Keys of the training configuration that may differ between the models of a stack.
PER_MODEL_KEYS = ("seed", "lr", "weight_decay", "label_noise")


def stack_key(config: TrainingConfig) -> str:
    """Return a text that must be equal for all configurations in a stack."""
    shared = {name: value for name, value in config.to_dict().items() if name not in PER_MODEL_KEYS}
    return json.dumps(shared, sort_keys=True)


def max_stack_models(config: TrainingConfig) -> int:
    """Return the maximum number of models in a stack of this configuration."""
    return MAX_STACK_HEADS.get(config.settings.get("head", ""), MAX_STACK_MODELS)


def is_stackable(config: TrainingConfig) -> bool:
    """Return whether the settings allow stacking; the network is checked when it is built."""
    settings = config.settings
    plain = _has_stored_inputs(config) and not config.coral and config.keep == "last"
    return (
        plain
        and config.steps is None
        and not settings.get("batch_norm", False)
        and settings.get("dropout", 0) == 0
        and settings.get("width", CACHE_LINE_FLOATS) % CACHE_LINE_FLOATS == 0
    )


def _has_stored_inputs(config: TrainingConfig) -> bool:
    """Return whether the inputs of all epochs are in memory before the training starts."""
    return config.augment == "none" or config.has_cached_body


def train_stacked(configs: Sequence[TrainingConfig], group: DomainGroup) -> list[TrainedModel]:
    """Train several configurations at once; return the models in the order of the configurations.

    The configurations may differ only in seed, learning rate, weight decay and label noise. The
    models equal those of `train` up to rounding errors. Raises NotApplicable if the augmentation,
    CORAL, keep = "best", steps, dropout, batch norm or the size of a layer prevents stacking.
    """
    _check_configs(configs)
    return train_stack(configs, load_training_set(configs[0], group), group.classes)


def train_stack(
    configs: Sequence[TrainingConfig], training_set: TrainingSet, classes: tuple[str, ...]
) -> list[TrainedModel]:
    """Train several configurations at once on a training set; see `train_stacked`."""
    _check_configs(configs)
    started = time.perf_counter()
    stack = _build_stack(configs, training_set)
    samples = [draw_sample(training_set, config) for config in configs]
    gradients, fit_sums = _vectorize(stack.network)
    data = StackTrainingData(
        recipes=configs,
        training_set=training_set,
        rows=np.stack([sample.rows for sample in samples]),
        labels=np.stack([sample.labels for sample in samples]),
        gradients=gradients,
        fit_sums=fit_sums,
    )
    with seeded_torch(configs[0].seed):
        results = {
            index: (weights, fit, epochs)
            for index, weights, fit, epochs in _run_epochs(stack, data)
        }
    facts = {"stacked": len(configs), "seconds": (time.perf_counter() - started) / len(configs)}
    models = []
    for index, (config, sample) in enumerate(zip(configs, samples, strict=True)):
        weights, fit, epochs = results[index]
        models.append(
            build_trained_model(
                config,
                training_set,
                classes,
                weights=weights,
                fit=fit,
                facts={**sample.facts, "epochs": float(epochs), **facts},
            )
        )
    return models


def _check_configs(configs: Sequence[TrainingConfig]) -> None:
    if not configs:
        raise InputError("A stack needs at least one training configuration; got none.")
    for config in configs:
        if stack_key(config) != stack_key(configs[0]):
            raise InputError(
                f"The configurations {configs[0].id} and {config.id} cannot be stacked: they differ "
                f"in more than {', '.join(PER_MODEL_KEYS)}. Group them by stack_key first."
            )
    if not _has_stored_inputs(configs[0]):
        raise NotApplicable(f"{configs[0].augment} is not available for stacked models")
    if configs[0].coral:
        raise NotApplicable("coral is not available for stacked models")
    if configs[0].keep != "last":
        raise NotApplicable(f'keep = "{configs[0].keep}" is not available for stacked models')
    if configs[0].steps is not None:
        raise NotApplicable("steps is not available for stacked models")


@dataclass(frozen=True, eq=False)
class ModelStack:
    """Stacked weights of the models that are still being trained.

    recipe_index   index of each model in the list of configurations
    network        one of the networks; it is called with the weights of any model of the stack
    trainable      stacked weights that are trained; they are updated in place
    frozen         stacked weights that are not trained
    """

    recipe_index: Ints
    network: Any
    trainable: Weights
    frozen: Weights
    optimizer: StackedOptimizer

    def subset(self, index: Ints) -> ModelStack:
        """Return a stack of the selected models only."""
        at = torch_package().from_numpy(index)
        return ModelStack(
            recipe_index=self.recipe_index[index],
            network=self.network,
            trainable={name: value[at] for name, value in self.trainable.items()},
            frozen={name: value[at] for name, value in self.frozen.items()},
            optimizer=self.optimizer.subset(at),
        )

    def weights(self, position: int) -> dict[str, Array]:
        """Return the weights of one model by name, in the order of the network's state_dict."""
        both = {**self.frozen, **self.trainable}
        return {name: both[name][position].numpy().copy() for name in self.network.state_dict()}


def _build_stack(configs: Sequence[TrainingConfig], training_set: TrainingSet) -> ModelStack:
    networks = []
    for config in configs:
        with seeded_torch(config.seed):
            networks.append(build_network(config, training_set.shape))
    _check_network(networks[0], configs[0].architecture)
    names = {name for name, weight in networks[0].named_parameters() if weight.requires_grad}
    parameters, buffers = torch_package().func.stack_module_state(networks)
    both = {name: weight.detach() for name, weight in (parameters | buffers).items()}
    trainable = {name: weight for name, weight in both.items() if name in names}
    return ModelStack(
        recipe_index=np.arange(len(configs)),
        # Without dropout and batch norm, training mode and evaluation mode give the same outputs;
        # torch.func can vectorize the network in evaluation mode.
        network=networks[0].eval(),
        trainable=trainable,
        frozen={name: weight for name, weight in both.items() if name not in names},
        optimizer=make_stacked_optimizer(configs, training_set.shape.kind, trainable),
    )


def _check_network(network: Any, name: str) -> None:
    for part in network.modules():
        if "Dropout" in type(part).__name__ and part.p > 0:
            raise NotApplicable(f"{name} has dropout, whose draws would depend on the other models")
        if getattr(part, "running_mean", None) is not None:
            raise NotApplicable(f"{name} has batch norm, whose statistics cannot be stacked")
    for part in network.parameters():
        if part.ndim > 1 and part.numel() % CACHE_LINE_FLOATS:
            raise NotApplicable(
                f"{name} has a layer of {part.numel()} weights, not a multiple of {CACHE_LINE_FLOATS}"
            )


@dataclass(frozen=True, eq=False)
class StackTrainingData:
    """Training data of all configurations, and functions that evaluate all models of a stack.

    rows, labels   row numbers and labels of each configuration, shape (configurations, rows)
    gradients      function from stacked weights, inputs, labels and row weights to gradients
    fit_sums       function from the same arguments to the sum of losses and the number of correct
                   rows of each model
    """

    recipes: Sequence[TrainingConfig]
    training_set: TrainingSet
    rows: Ints
    labels: Ints
    gradients: Callable[..., Weights]
    fit_sums: Callable[..., tuple[Any, Any]]

    def batch_tensors(
        self, recipe_index: Ints, index: Ints, epoch: int | None = None
    ) -> tuple[Any, Any, Any]:
        """Return the inputs, labels and row weights of one batch per model.

        `index` has the shape (models, batch size) and selects columns of `rows` and `labels`. In an
        epoch of training, the inputs are those of the epoch; otherwise they are not augmented.
        """
        n = index.shape[1]
        row_weights = (np.arange(n + -n % CACHE_LINE_FLOATS) < n).astype(np.float32)
        index = np.pad(index, ((0, 0), (0, -n % CACHE_LINE_FLOATS)), mode="edge")
        rows, labels = (part[recipe_index[:, None], index] for part in (self.rows, self.labels))
        training_set = self.training_set if epoch is None else self.training_set.at_epoch(epoch)
        inputs = as_tensor(training_set.take(rows.ravel()), training_set.shape.kind, "cpu")
        torch = torch_package()
        weights = torch.from_numpy(row_weights).expand(rows.shape)
        return inputs.unflatten(0, rows.shape), torch.from_numpy(labels), weights


def _vectorize(network: Any) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return the functions `gradients` and `fit_sums` of StackTrainingData for a network."""
    torch = torch_package()
    call, cross_entropy = torch.func.functional_call, torch.nn.functional.cross_entropy

    def loss(trainable: Weights, frozen: Weights, inputs: Any, labels: Any, weights: Any) -> Any:
        logits = call(network, (trainable, frozen), (inputs,))
        return (cross_entropy(logits, labels, reduction="none") * weights).sum() / weights.sum()

    def sums(trainable: Weights, frozen: Weights, inputs: Any, labels: Any, weights: Any) -> Any:
        logits = call(network, (trainable, frozen), (inputs,))
        n_correct = ((logits.argmax(dim=1) == labels) * weights).sum()
        return (cross_entropy(logits, labels, reduction="none") * weights).sum(), n_correct

    return torch.func.vmap(torch.func.grad(loss)), torch.func.vmap(sums)


def _run_epochs(
    stack: ModelStack, data: StackTrainingData
) -> Iterator[tuple[int, dict[str, Array], TrainingFit | None, int]]:
    """Train all models; when a model stops, yield its index, weights, fit and number of epochs."""
    config = data.recipes[0]
    for epoch in range(1, config.epochs + 1):
        _train_epoch(stack, data, epoch)
        fits = _evaluate_fits(stack, data, max_loss=stopping_loss(config, epoch, config.epochs))
        # A loss of NaN does not exceed max_loss, so a diverged model gets a fit and stops as well.
        stopped = np.array([fit is not None for fit in fits])
        for position in np.flatnonzero(stopped).tolist():
            index = int(stack.recipe_index[position])
            yield index, stack.weights(position), fits[position], epoch
        if stopped.all():
            return
        if stopped.any():
            stack = stack.subset(np.flatnonzero(~stopped))


def _train_epoch(stack: ModelStack, data: StackTrainingData, epoch: int) -> None:
    config = data.recipes[0]
    n = data.rows.shape[1]
    n_steps = count_steps(n, config.batch)
    seeds = [data.recipes[index].seed for index in stack.recipe_index]
    orders = [batches(n, batch_size=config.batch, seed=seed, epoch=epoch) for seed in seeds]
    for step, index in enumerate(zip(*orders, strict=True), start=1 + (epoch - 1) * n_steps):
        tensors = data.batch_tensors(stack.recipe_index, np.stack(index), epoch)
        gradients = data.gradients(stack.trainable, stack.frozen, *tensors)
        factor = learning_rate_factor(config, step, n_steps)
        stack.optimizer.step(stack.trainable, gradients, factor)


def _evaluate_fits(
    stack: ModelStack, data: StackTrainingData, *, max_loss: float
) -> list[TrainingFit | None]:
    """Return the fit of each model to its training rows; None if its loss exceeds `max_loss`."""
    n = data.rows.shape[1]
    n_models = len(stack.recipe_index)
    size = min(EVALUATION_BATCH_ROWS[data.training_set.shape.kind], MAX_EVALUATION_ROWS)
    total_losses = np.zeros(n_models)
    n_correct = np.zeros(n_models)
    for start in range(0, n, size):
        rows = np.arange(start, min(start + size, n))
        index = np.broadcast_to(rows, (n_models, len(rows)))
        tensors = data.batch_tensors(stack.recipe_index, index)
        losses, correct = data.fit_sums(stack.trainable, stack.frozen, *tensors)
        total_losses += losses.numpy()
        n_correct += correct.numpy()
        if (total_losses > max_loss * n).all():
            break
    return [
        None if loss > max_loss * n else TrainingFit(float(loss / n), float(correct / n))
        for loss, correct in zip(total_losses, n_correct, strict=True)
    ]
