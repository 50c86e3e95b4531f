"""Train one network: epochs, learning-rate schedule, and the training loss at which to stop.

On the same machine, training the same configuration again gives exactly the same weights. Adam uses
β = (0.9, 0.98) and ε = 1e-6 for texts, which is common for text models, and torch's defaults for
other inputs. With Adam and with SGD, weight decay is an L2 penalty: it is added to the gradient.
AdamW uses torch's defaults for all inputs and decoupled weight decay (Loshchilov & Hutter 2019).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, NamedTuple

from oodometer.core.array_types import Array
from oodometer.core.errors import InputError
from oodometer.core.inputs import InputKind
from oodometer.core.optional_imports import torch_package
from oodometer.core.protocols import ProgressCallback
from oodometer.models.torch import best_device
from oodometer.studies.domains.group import DomainGroup
from oodometer.studies.training.architectures import head_parameters
from oodometer.studies.training.architectures.base import InputShape
from oodometer.studies.training.architectures.timm import TimmNetwork
from oodometer.studies.training.best_epoch import BestEpoch
from oodometer.studies.training.build import (
    build_network,
    frozen_body_fingerprint,
    get_architecture,
    seeded_torch,
)
from oodometer.studies.training.config import OptimizerName, Schedule, TrainingConfig
from oodometer.studies.training.coral import coral_loss, record_features
from oodometer.studies.training.data_loader import (
    TimedIterator,
    as_tensor,
    steps_per_epoch,
    training_batches,
)
from oodometer.studies.training.jensen_shannon import N_VIEWS, jensen_shannon_loss
from oodometer.studies.training.linear_probe import (
    build_head,
    dropout_before_head,
    extract_features,
    feature_extractor,
)
from oodometer.studies.training.training_data import (
    BODY_FILE,
    TEXT_KINDS,
    TrainingSample,
    TrainingSet,
    draw_sample,
    load_held_out_rows,
    load_input_shape,
    load_training_set,
)

# Number of rows per batch when the training loss is evaluated, keyed by the kind of inputs.
EVALUATION_BATCH_ROWS: dict[InputKind, int] = {
    "images": 64,
    "text": 64,
    "pairs": 64,
    "vectors": 4096,
}


@dataclass(frozen=True, eq=False)
class TrainedModel:
    """Trained model as plain data that a worker can send to the process that saves it.

    classes     class names in the order of their numbers
    converged   whether the training cross-entropy is at most `stop_at`; without `stop_at`, whether
                the training has not diverged
    facts       number of epochs, loss and accuracy on the training data, seconds, …
    files       further files to save, such as a tokenizer, as bytes keyed by file name
    """

    recipe: TrainingConfig
    shape: InputShape
    classes: tuple[str, ...]
    weights: Mapping[str, Array]
    converged: bool
    facts: Mapping[str, float] = field(default_factory=dict)
    files: Mapping[str, bytes] = field(default_factory=dict)


class TrainingFit(NamedTuple):
    """Mean cross-entropy and accuracy on the training rows and their (noisy) labels."""

    loss: float
    accuracy: float


@dataclass(frozen=True, eq=False)
class TrainingRun:
    """Network and its training data.

    preprocess   frozen body if only the head is trained and the rows are augmented, else None
    held_out     rows on which the best epoch is selected; None keeps the last epoch
    """

    recipe: TrainingConfig
    training_set: TrainingSet
    sample: TrainingSample
    module: Any
    device: str
    preprocess: Callable[[Any], Any] | None = None
    held_out: tuple[TrainingSet, TrainingSample] | None = None

    @property
    def steps_per_epoch(self) -> int:
        return steps_per_epoch(self.sample, self.recipe)

    @property
    def n_epochs(self) -> int:
        """Maximum number of epochs; the last one may be cut short by the maximum of steps."""
        config = self.recipe
        if config.steps is None:
            return config.epochs
        return min(config.epochs, math.ceil(config.steps / self.steps_per_epoch))

    def steps_in_epoch(self, epoch: int) -> int:
        """Return the number of steps of an epoch; epochs are counted from 1."""
        per_epoch = self.steps_per_epoch
        if self.recipe.steps is None:
            return per_epoch
        return min(per_epoch, self.recipe.steps - (epoch - 1) * per_epoch)

    def to_network_input(self, inputs: Array) -> Any:
        """Convert inputs to a tensor and apply `preprocess` if it is set."""
        tensor = as_tensor(inputs, self.training_set.shape.kind, self.device)
        return tensor if self.preprocess is None else self.preprocess(tensor)

    def to_label_tensor(self, labels: Array) -> Any:
        """Convert labels to a tensor on the device."""
        return torch_package().from_numpy(labels).to(self.device)

    def for_head(self) -> TrainingRun:
        """Return a run that trains only the head.

        Without augmentation, the features of all rows are computed once in advance. With
        augmentation, the rows differ in each epoch, so the body is evaluated in every step.
        """
        with_body = replace(self, preprocess=feature_extractor(self.module))
        head = build_head(self.module, dropout_before_head(self.recipe.settings))
        if self.recipe.augment != "none":
            return replace(with_body, module=head)
        compute = with_body.to_network_input
        features, sample = extract_features(self.training_set, self.sample, compute)
        held_out = self.held_out and extract_features(*self.held_out, compute)
        return replace(self, training_set=features, sample=sample, module=head, held_out=held_out)

    def on_held_out_rows(self) -> TrainingRun | None:
        """Return a run whose training rows are the held-out rows; None if there are none."""
        if self.held_out is None:
            return None
        training_set, sample = self.held_out
        return replace(self, training_set=training_set, sample=sample)


def train(
    config: TrainingConfig, group: DomainGroup, *, progress: ProgressCallback | None = None
) -> TrainedModel:
    """Train a network on the training splits of its domains.

    After each epoch, the mean cross-entropy over all training rows is computed in evaluation mode,
    without augmentation and with the noisy labels. If it is at most `stop_at`, the model has
    converged and training stops. Otherwise training continues until the last epoch; a model that
    has not reached `stop_at` by then has not converged. Training also stops if a loss is not
    finite; the facts of the model then contain `diverged`. The fact `data_wait` is the fraction of
    the training time spent waiting for batches. The fact `new_head` is 1 if the pretrained weights
    have another number of classes than the group, or if its setting `new_head` is true.

    If `keep` is "best", the accuracy on the held-out rows is computed after each epoch, and the
    weights of the best epoch are kept, also if the training diverges later. The facts then contain
    `best_epoch` and `held_out_accuracy`.
    """
    if config.part == "none":
        return register_pretrained(config, group)
    started = time.perf_counter()
    training_set = load_training_set(config, group)
    held_out = load_held_out_rows(config, group, training_set) if config.keep == "best" else None
    device = best_device()
    with seeded_torch(config.seed):
        module = build_network(config, training_set.shape).to(device)
        sample = draw_sample(training_set, config)
        run = TrainingRun(config, training_set, sample, module, device, held_out=held_out)
        trained_run = run.for_head() if config.part == "head" else run
        fit, facts = train_epochs(trained_run, training_set.shape.kind, progress)
    seconds = time.perf_counter() - started
    return build_trained_model(
        config,
        training_set,
        group.classes,
        weights=_weights_to_save(config, module, training_set.shape.kind),
        fit=fit,
        facts={**run.sample.facts, **facts, **_head_fact(module), "seconds": seconds},
    )


def register_pretrained(config: TrainingConfig, group: DomainGroup) -> TrainedModel:
    """Return a pretrained network that is only evaluated, as a model without training.

    The head is the one of the pretrained weights. If they have the 1000 classes of ImageNet and the
    group has some of these classes, the head is reduced to the classes of the group.
    """
    started = time.perf_counter()
    architecture = get_architecture(config, group.kind)
    if not isinstance(architecture, TimmNetwork):
        raise InputError(
            f"part = 'none' evaluates pretrained networks, and {config.architecture!r} has no "
            "pretrained head. Use timm:NAME with weights, or another part."
        )
    if architecture.new_head:
        raise InputError(
            f"part = 'none' keeps the pretrained head of {config.architecture!r}, and new_head "
            "replaces it. Remove new_head, or use another part."
        )
    shape = load_input_shape(config, group)
    module = architecture.build_pretrained(shape, group.classes)
    body = frozen_body_fingerprint(config, shape.kind)
    return TrainedModel(
        recipe=config,
        shape=shape,
        classes=tuple(group.classes),
        weights=_weights_to_save(config, module, shape.kind),
        converged=True,
        facts={"epochs": 0.0, "seconds": time.perf_counter() - started},
        files={BODY_FILE: str(body).encode()},
    )


def _head_fact(module: Any) -> dict[str, float]:
    return {"new_head": 1.0} if getattr(module, "new_head", False) else {}


def _weights_to_save(config: TrainingConfig, module: Any, kind: InputKind) -> dict[str, Array]:
    """Return the weights to save: only those of the head if the body is pretrained and frozen."""
    weights = {name: value.cpu().numpy().copy() for name, value in module.state_dict().items()}
    if config.has_cached_body or frozen_body_fingerprint(config, kind) is None:
        return weights
    return {name: weights[name] for name in sorted(head_parameters(module))}


def build_trained_model(
    config: TrainingConfig,
    training_set: TrainingSet,
    classes: tuple[str, ...],
    *,
    weights: Mapping[str, Array],
    fit: TrainingFit | None,
    facts: Mapping[str, float],
) -> TrainedModel:
    """Collect the results of a training; `fit` is None if the training diverged."""
    if fit is not None and not math.isfinite(fit.loss):
        fit = None
    body = None
    if not config.has_cached_body:
        body = frozen_body_fingerprint(config, training_set.shape.kind)
    return TrainedModel(
        recipe=config,
        shape=training_set.shape,
        classes=tuple(classes),
        weights=weights,
        converged=fit is not None and (config.stop_at is None or fit.loss <= config.stop_at),
        facts={**facts, **({"diverged": 1.0} if fit is None else fit._asdict())},
        files={**training_set.files, **({} if body is None else {BODY_FILE: body.encode()})},
    )


# Epochs and steps -------------------------------------------------------------------------------


def train_epochs(
    run: TrainingRun, kind: InputKind, progress: ProgressCallback | None
) -> tuple[TrainingFit | None, dict[str, float]]:
    """Train until the loss reaches `stop_at` or the last step is done; return the fit and facts.

    The fit is None if a loss was not finite. `kind` is the kind of inputs of the domain group, even
    if only a head is trained, whose inputs are features. With held-out rows, the network has the
    weights of the best epoch at the end, and the fit is that of these weights.
    """
    config = run.recipe
    held_out = run.on_held_out_rows()
    best = BestEpoch()
    optimizer = make_optimizer(run, kind)
    seconds_stepping = 0.0
    fit = None
    with closing(training_batches(run.training_set, run.sample, config)) as iterator:
        batches = TimedIterator(iterator)
        for epoch in range(1, run.n_epochs + 1):
            started = time.perf_counter()
            steps_done = (epoch - 1) * run.steps_per_epoch
            epoch_steps = islice(batches, run.steps_in_epoch(epoch))
            finite = _train_epoch(run, optimizer, epoch_steps, steps_done)
            seconds_stepping += time.perf_counter() - started
            if progress is not None:
                progress(epoch, run.n_epochs, f"training {config.id}")
            if not finite:
                fit = None
                break
            if held_out is not None:
                loss, accuracy = evaluate_all_rows(held_out)
                best.update(epoch, loss=loss, accuracy=accuracy, module=run.module)
            fit = evaluate_fit(run, max_loss=stopping_loss(config, epoch, run.n_epochs))
            if fit is not None:
                break
    data_wait = batches.seconds_waiting / max(seconds_stepping, 1e-9)
    facts = {"epochs": float(epoch), "data_wait": data_wait}
    if best.epoch:
        facts |= best.restore(run.module)
        fit = evaluate_all_rows(run)
    return fit, facts


def _train_epoch(
    run: TrainingRun, optimizer: Any, batches: Iterable[tuple[Array, Array]], steps_done: int
) -> bool:
    """Train on all batches of an epoch; stop and return False if a loss is not finite."""
    run.module.train()
    for step, (inputs, labels) in enumerate(batches, start=steps_done + 1):
        loss = batch_loss(run, inputs, labels)
        if not math.isfinite(loss.item()):
            return False
        factor = learning_rate_factor(run.recipe, step, run.steps_per_epoch)
        for group in optimizer.param_groups:
            group["lr"] = run.recipe.lr * factor
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return True


def batch_loss(run: TrainingRun, inputs: Array, labels: Array) -> Any:
    """Return the training loss of a batch.

    It is the cross-entropy, plus the weighted Jensen–Shannon loss of AugMix and the weighted CORAL
    loss if the configuration has them. With the Jensen–Shannon loss, the cross-entropy and CORAL
    use the images without augmentation.
    """
    config, n = run.recipe, len(labels)
    recording: AbstractContextManager[list[Any]] = (
        record_features(run.module) if config.coral else nullcontext([])
    )
    with recording as features:
        logits = run.module(run.to_network_input(inputs))
    loss = torch_package().nn.functional.cross_entropy(logits[:n], run.to_label_tensor(labels))
    if config.augment == "augmix-jsd":
        loss = loss + config.jsd * jensen_shannon_loss(logits.unflatten(0, (N_VIEWS, n)))
    if config.coral:
        by_domain = features[0][:n].unflatten(0, (len(config.domains), -1))
        loss = loss + config.coral * coral_loss(by_domain)
    return loss


def stopping_loss(config: TrainingConfig, epoch: int, n_epochs: int) -> float:
    """Return the loss at or below which training stops after this epoch.

    It is infinite after the last of `n_epochs` epochs, so that training always stops. In earlier
    epochs it is `stop_at`, or minus infinity if `stop_at` is None.
    """
    if epoch == n_epochs:
        return math.inf
    return -math.inf if config.stop_at is None else config.stop_at


def evaluate_fit(run: TrainingRun, *, max_loss: float) -> TrainingFit | None:
    """Compute loss and accuracy on all training rows; return None if the loss exceeds `max_loss`.

    The cross-entropy of a row is nonnegative, so the evaluation stops early when the sum over the
    evaluated rows exceeds `max_loss` times the number of all rows.
    """
    rows = run.sample.rows
    n = len(rows)
    batch_rows = EVALUATION_BATCH_ROWS[run.training_set.shape.kind]
    total_loss = 0.0
    n_correct = 0
    torch = torch_package()
    run.module.eval()
    # inference_mode is not used, because tensors that a network caches in it cannot be used in the
    # next training step.
    with torch.no_grad():
        for start in range(0, n, batch_rows):
            batch = slice(start, start + batch_rows)
            logits = run.module(run.to_network_input(run.training_set.take(rows[batch])))
            labels = run.to_label_tensor(run.sample.labels[batch])
            total_loss += torch.nn.functional.cross_entropy(logits, labels, reduction="sum").item()
            if total_loss > max_loss * n:
                return None
            n_correct += int((logits.argmax(dim=1) == labels).sum())
    return TrainingFit(total_loss / n, n_correct / n)


def evaluate_all_rows(run: TrainingRun) -> TrainingFit:
    """Compute loss and accuracy on all rows of a run."""
    fit = evaluate_fit(run, max_loss=math.inf)
    assert fit is not None  # no loss exceeds infinity
    return fit


# Optimizer and schedule -------------------------------------------------------------------------


def make_optimizer(run: TrainingRun, kind: InputKind) -> Any:
    """Return the configured optimizer for the trainable weights."""
    config = run.recipe
    optim = torch_package().optim
    weights = [weight for weight in run.module.parameters() if weight.requires_grad]
    decay = config.weight_decay
    if config.optimizer == "sgd":
        return optim.SGD(weights, lr=config.lr, momentum=config.momentum, weight_decay=decay)
    betas, eps = adam_constants(config.optimizer, kind)
    adam = optim.AdamW if config.optimizer == "adamw" else optim.Adam
    return adam(weights, lr=config.lr, betas=betas, eps=eps, weight_decay=decay)


def adam_constants(optimizer: OptimizerName, kind: InputKind) -> tuple[tuple[float, float], float]:
    """Return the constants β and ε of Adam or AdamW for a kind of inputs."""
    if optimizer == "adam" and kind in TEXT_KINDS:
        return (0.9, 0.98), 1e-6
    return (0.9, 0.999), 1e-8


def learning_rate_factor(config: TrainingConfig, step: int, steps_per_epoch: int) -> float:
    """Return the factor that multiplies the learning rate at a step; steps are counted from 1."""
    return schedule_factor(
        step,
        schedule=config.schedule,
        steps_per_epoch=steps_per_epoch,
        epochs=config.epochs,
        decay=1.0 if config.lr_decay is None else config.lr_decay,
        decay_epochs=1 if config.lr_decay_epochs is None else config.lr_decay_epochs,
        warmup_epochs=config.warmup_epochs,
    )


def schedule_factor(
    step: int,
    *,
    schedule: Schedule,
    steps_per_epoch: int,
    epochs: int,
    decay: float = 1.0,
    decay_epochs: int | tuple[int, ...] = 1,
    warmup_epochs: int = 0,
) -> float:
    """Return the factor that multiplies the learning rate at a step; steps are counted from 1.

    constant              always 1
    inverse-square-root   rises linearly to 1 in the first epoch, then falls as 1 / √(epochs so far)
                          (Vaswani et al. 2017)
    cosine                (1 + cos π t) / 2, where t rises from 0 to 1 over all epochs after the
                          warm-up (Loshchilov & Hutter 2017)
    step                  multiplied by `decay` after every `decay_epochs` epochs; if `decay_epochs`
                          is a list, after each of these epochs
    exponential           multiplied by `decay` after every epoch

    In the first `warmup_epochs` epochs, the factor is also multiplied by a number that rises
    linearly to 1.

    >>> [schedule_factor(s, schedule="inverse-square-root", steps_per_epoch=4, epochs=9) for s in (1, 4, 16, 36)]
    [0.25, 1.0, 0.5, 0.3333333333333333]
    """
    if schedule == "inverse-square-root":
        epochs_passed = step / steps_per_epoch
        return min(epochs_passed, 1 / math.sqrt(epochs_passed))
    warmup_steps = warmup_epochs * steps_per_epoch
    warmup = min(step / warmup_steps, 1.0) if warmup_steps else 1.0
    if schedule == "cosine":
        n_steps = steps_per_epoch * epochs - warmup_steps
        return warmup * (1 + math.cos(math.pi * max(step - 1 - warmup_steps, 0) / n_steps)) / 2
    epochs_done = (step - 1) // steps_per_epoch
    if schedule == "exponential":
        return warmup * float(decay**epochs_done)
    if schedule == "step":
        return warmup * float(decay ** _count_drops(epochs_done, decay_epochs))
    return warmup


def _count_drops(epochs_done: int, decay_epochs: int | tuple[int, ...]) -> int:
    if isinstance(decay_epochs, int):
        return epochs_done // decay_epochs
    return sum(epochs_done >= epoch for epoch in decay_epochs)
