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
from oodometer.studies.training.sampling import batches, row_streams
from oodometer.studies.training.training_data import TrainingSample, TrainingSet

Item = TypeVar("Item")
LabelledBatch = tuple[Array, Ints]
# Number of batches that are loaded in advance, so that training need not wait for one slow batch.
PREFETCH_BATCHES = 4


def training_batches(
    training_data: TrainingSet, sample: TrainingSample, config: TrainingConfig
) -> Generator[LabelledBatch]:
    """Yield the inputs and labels of each training step, over all epochs."""
    load = row_loader(training_data, config)

    def load_batch(task: tuple[int, Ints]) -> LabelledBatch:
        epoch, index = task
        return load(sample.rows[index], epoch), sample.labels[index]

    order = (
        (epoch, index)
        for epoch in range(1, config.epochs + 1)
        for index in batches(
            len(sample.rows), batch_size=config.batch, seed=config.seed, epoch=epoch
        )
    )
    # Without augmentation, loading only selects rows, and a thread would cost more time than that.
    workers = 0 if config.augment == "none" else 1
    return prefetch(load_batch, order, workers, depth=PREFETCH_BATCHES)


def row_loader(training_data: TrainingSet, config: TrainingConfig) -> Callable[[Ints, int], Array]:
    """Return a function from (row numbers, epoch) to inputs; it applies the augmentation."""
    change = augmentation(config.augment)
    if change is None:
        return lambda rows, _: training_data.take(rows)
    if training_data.shape.kind not in change.kinds:
        raise InputError(
            f"{config.augment} applies to images, and {config.group!r} holds "
            f'{training_data.shape.kind}. Set augment = "none".'
        )

    def load_augmented(rows: Ints, epoch: int) -> Array:
        draws = row_streams(config.seed, training_data.keys[rows], "augment", epoch)
        return np.asarray(change.apply(training_data.take(rows), draws))

    return load_augmented


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
