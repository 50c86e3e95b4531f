"""Training batches; batches with augmentation are prepared in a background thread."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import numpy as np

from oodometer.core.array_types import Array, Ints
from oodometer.core.errors import InputError
from oodometer.core.inputs import InputKind
from oodometer.core.optional_imports import torch_package
from oodometer.parallel.prefetch import prefetch
from oodometer.studies.training.augment import augmentation
from oodometer.studies.training.config import TrainingConfig
from oodometer.studies.training.jensen_shannon import N_VIEWS
from oodometer.studies.training.sampling import (
    balanced_batches,
    batches,
    count_balanced_steps,
    count_steps,
    row_streams,
)
from oodometer.studies.training.training_data import TrainingSample, TrainingSet

Item = TypeVar("Item")
LabelledBatch = tuple[Array, Ints]
# Number of batches that are loaded in advance, so that training need not wait for one slow batch.
PREFETCH_BATCHES = 4


def training_batches(
    training_data: TrainingSet, sample: TrainingSample, config: TrainingConfig
) -> Generator[LabelledBatch]:
    """Yield the inputs and labels of each training step, over all epochs.

    If `config.augment` is "augmix-jsd", the inputs are those of the labels in the same order,
    followed by a first and a second augmented copy of all of them.
    """
    load = row_loader(training_data, config)

    def load_batch(task: tuple[int, Ints]) -> LabelledBatch:
        epoch, index = task
        return load(sample.rows[index], epoch), sample.labels[index]

    order = (
        (epoch, index)
        for epoch in range(1, config.epochs + 1)
        for index in epoch_batches(sample, config, epoch)
    )
    # Without augmentation, loading only selects rows, and a thread would cost more time than that.
    workers = 0 if config.augment == "none" or config.has_cached_body else 1
    return prefetch(load_batch, order, workers, depth=PREFETCH_BATCHES)


def epoch_batches(sample: TrainingSample, config: TrainingConfig, epoch: int) -> Iterator[Ints]:
    """Yield the positions in the sample of each batch of an epoch.

    With CORAL, a batch has the same number of rows of each domain, one domain after another.
    """
    if config.coral:
        n_domains = len(config.domains)
        return balanced_batches(
            sample.domains, n_domains, batch_size=config.batch, seed=config.seed, epoch=epoch
        )
    return batches(len(sample.rows), batch_size=config.batch, seed=config.seed, epoch=epoch)


def steps_per_epoch(sample: TrainingSample, config: TrainingConfig) -> int:
    """Return the number of batches per epoch."""
    if config.coral:
        return count_balanced_steps(sample.domains, len(config.domains), config.batch)
    return count_steps(len(sample.rows), config.batch)


def row_loader(training_data: TrainingSet, config: TrainingConfig) -> Callable[[Ints, int], Array]:
    """Return a function from (row numbers, epoch) to inputs; it applies the augmentation.

    With "augmix-jsd", the function returns the rows and two augmented copies of them. If the rows
    are cached features, those of the augmented copies are in the training set.
    """
    if config.has_cached_body:
        return lambda rows, epoch: training_data.at_epoch(epoch).take(rows)
    change = augmentation(config.augment)
    if change is None:
        return lambda rows, _: training_data.take(rows)
    if training_data.shape.kind not in change.kinds:
        raise InputError(
            f"{config.augment} applies to images, and {config.group!r} holds "
            f'{training_data.shape.kind}. Set augment = "none".'
        )

    def load_augmented(rows: Ints, epoch: int, purpose: str = "augment") -> Array:
        draws = row_streams(config.seed, training_data.keys[rows], purpose, epoch)
        return np.asarray(change.apply(training_data.take(rows), draws))

    def load_views(rows: Ints, epoch: int) -> Array:
        copies = [load_augmented(rows, epoch, f"view {at}") for at in range(1, N_VIEWS)]
        return np.concatenate([training_data.take(rows), *copies])

    return load_views if config.augment == "augmix-jsd" else load_augmented


@dataclass
class TimedIterator(Generic[Item]):
    """Iterator that measures the time spent waiting for items."""

    items: Iterator[Item]
    seconds_waiting: float = field(default=0.0, init=False)

    def __iter__(self) -> Iterator[Item]:
        return self

    def __next__(self) -> Item:
        started = time.perf_counter()
        try:
            return next(self.items)
        finally:
            self.seconds_waiting += time.perf_counter() - started


def as_tensor(inputs: Array, kind: InputKind, device: str) -> Any:
    """Convert inputs to the tensor that a network accepts, on the given device.

    Images become floats in [0, 1] with the channels first, vectors become floats, and token ids
    become integers of type long.

    >>> as_tensor(np.full((1, 2, 2), 255, dtype=np.uint8), "images", "cpu").shape
    torch.Size([1, 1, 2, 2])
    """
    values = torch_package().from_numpy(np.ascontiguousarray(inputs)).to(device)
    if kind == "images":
        images = values.unsqueeze(-1) if values.ndim == 3 else values
        # The permuted view has the memory format channels_last.
        return images.permute(0, 3, 1, 2).float().div_(255)
    return values.float() if kind == "vectors" else values.long()
