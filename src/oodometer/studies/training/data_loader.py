"""The batches of a training, made ahead of the step that learns them."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import numpy as np

from oodometer.core.errors import InputError
from oodometer.core.inputs import Kind
from oodometer.core.softmax_kernels import Array, Ints
from oodometer.studies.training.architectures._layers import torch_package
from oodometer.studies.training.augment import augmentation
from oodometer.studies.training.config import Recipe
from oodometer.studies.training.sampling import batches, of_rows
from oodometer.studies.training.training_data import Material, Sample

Item = TypeVar("Item")
Batch = tuple[Array, Ints]
# So many batches are made ahead: enough to bridge a slow one.
AHEAD = 4


def fed(material: Material, sample: Sample, recipe: Recipe) -> Generator[Batch]:
    """Inputs and labels of every step of all epochs, in the recipe's order."""
    made = _made(material, sample, recipe)
    # A thread costs more than taking rows does.
    return made if recipe.augment == "none" else ahead(made)


def _made(material: Material, sample: Sample, recipe: Recipe) -> Generator[Batch]:
    change = changed(material, recipe)
    for epoch in range(1, recipe.epochs + 1):
        for index in batches(len(sample.rows), batch=recipe.batch, seed=recipe.seed, epoch=epoch):
            yield change(sample.rows[index], epoch), sample.labels[index]


def changed(material: Material, recipe: Recipe) -> Callable[[Ints, int], Array]:
    """A function of row numbers and the epoch, to the rows as they are shown in it."""
    change = augmentation(recipe.augment)
    if change is None:
        return lambda rows, _: material.take(rows)
    if material.shape.kind not in change.kinds:
        raise InputError(
            f"{recipe.augment} changes images, and {recipe.group!r} holds {material.shape.kind}. "
            'Set augment = "none".'
        )

    def applied(rows: Ints, epoch: int) -> Array:
        draws = of_rows(recipe.seed, material.keys[rows], "augment", epoch)
        return np.asarray(change.apply(material.take(rows), draws))

    return applied


def ahead(items: Iterator[Item], depth: int = AHEAD) -> Generator[Item]:
    """The same items, made in a thread while those before are used.

    >>> list(ahead(iter("abc")))
    ['a', 'b', 'c']
    """
    end = object()
    with ThreadPoolExecutor(1) as thread:
        waiting: deque[Future[Any]] = deque(thread.submit(next, items, end) for _ in range(depth))
        try:
            while (item := waiting.popleft().result()) is not end:
                waiting.append(thread.submit(next, items, end))
                yield item
        finally:
            thread.shutdown(cancel_futures=True)


@dataclass
class Timed(Generic[Item]):
    """Items, and the seconds that were spent waiting for them."""

    items: Iterator[Item]
    waited: float = field(default=0.0, init=False)

    def __iter__(self) -> Iterator[Item]:
        return self

    def __next__(self) -> Item:
        began = time.perf_counter()
        try:
            return next(self.items)
        finally:
            self.waited += time.perf_counter() - began


def as_tensor(inputs: Array, kind: Kind, device: str) -> Any:
    """What a network takes: images as floats 0…1, channels first; vectors as floats; tokens.

    >>> as_tensor(np.full((1, 2, 2), 255, dtype=np.uint8), "images", "cpu").shape
    torch.Size([1, 1, 2, 2])
    """
    values = torch_package().from_numpy(np.ascontiguousarray(inputs)).to(device)
    if kind == "images":
        images = values.unsqueeze(-1) if values.ndim == 3 else values
        # The permuted view lies in memory as channels_last does.
        return images.permute(0, 3, 1, 2).float().div_(255)
    return values.float() if kind == "vectors" else values.long()
