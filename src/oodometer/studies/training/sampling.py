"""Which rows a model is trained on, with which labels, and in what order.

What is drawn of a row hangs on the seed and the row's content, so that neither the order of files
nor of domains changes it. The order of batches hangs on the seed and the epoch.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from oodometer.core.inputs import Keys
from oodometer.core.random_streams import Draws
from oodometer.core.softmax_kernels import Ints
from oodometer.core.stats import stream


def of_rows(seed: int, keys: Keys, what: str, number: int = 1) -> Draws:
    """A stream a row, for one purpose; `number` tells epochs apart."""
    return Draws(seed, keys, np.full(len(keys), number), part=what)


def few_of_each(labels: Ints, keys: Keys, *, count: int, seed: int) -> Ints:
    """The numbers, in order, of `count` rows a class, drawn at random; all where there are fewer.

    >>> few_of_each(np.array([0, 1, 1, 0, 2]), np.arange(5, dtype=np.uint64), count=2, seed=0)
    array([0, 1, 2, 3, 4])
    """
    luck = of_rows(seed, keys, "few-shot").uniforms(1)[:, 0]
    order = np.lexsort((luck, labels))
    starts = np.searchsorted(labels[order], labels[order], side="left")
    return np.sort(order[np.arange(len(order)) - starts < count])


def with_noise(labels: Ints, keys: Keys, *, classes: int, share: float, seed: int) -> Ints:
    """Labels of which a share is drawn anew from all classes, so that some stay right by luck.

    >>> with_noise(np.array([0, 1]), np.arange(2, dtype=np.uint64), classes=2, share=0.0, seed=0)
    array([0, 1])
    """
    struck, drawn = of_rows(seed, keys, "label noise").uniforms(2).T
    return np.where(struck < share, (drawn * classes).astype(np.int64), labels)


def steps_of(n: int, batch: int) -> int:
    """How many batches an epoch has.

    >>> steps_of(10, 4), steps_of(9, 4)
    (3, 2)
    """
    whole, rest = divmod(n, batch)
    return max(whole + (rest > 1), 1)


def batches(n: int, *, batch: int, seed: int, epoch: int) -> Iterator[Ints]:
    """The numbers of all rows in an order of the epoch's own, `batch` at a time.

    A last row that would be alone is left out of the epoch: one row has no variance, which batch
    norm needs.
    """
    order = stream(seed, "order", epoch).permutation(n)
    for step in range(steps_of(n, batch)):
        yield order[step * batch : (step + 1) * batch]
