"""Which rows a model is trained on, with which labels, and in what order.

What is drawn of a row hangs on the seed and the row's content, so that neither the order of files
nor of domains changes it. The order of batches hangs on the seed and the epoch.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from oodometer.core.array_types import Ints
from oodometer.core.inputs import RowHashes
from oodometer.core.random_streams import RowStreams
from oodometer.core.stats import rng_for


def row_streams(seed: int, keys: RowHashes, purpose: str, draw_index: int = 1) -> RowStreams:
    """A stream a row, for one purpose; `draw_index` tells epochs apart."""
    return RowStreams(seed, keys, np.full(len(keys), draw_index), namespace=purpose)


def sample_per_class(labels: Ints, keys: RowHashes, *, count: int, seed: int) -> Ints:
    """The numbers, in order, of `count` rows a class, drawn at random; all where there are fewer.

    >>> sample_per_class(np.array([0, 1, 1, 0, 2]), np.arange(5, dtype=np.uint64), count=2, seed=0)
    array([0, 1, 2, 3, 4])
    """
    luck = row_streams(seed, keys, "few-shot").uniforms(1)[:, 0]
    order = np.lexsort((luck, labels))
    starts = np.searchsorted(labels[order], labels[order], side="left")
    return np.sort(order[np.arange(len(order)) - starts < count])


def add_label_noise(
    labels: Ints, keys: RowHashes, *, classes: int, share: float, seed: int
) -> Ints:
    """Labels of which a share is drawn anew from all classes, so that some stay right by luck.

    >>> add_label_noise(np.array([0, 1]), np.arange(2, dtype=np.uint64), classes=2, share=0.0, seed=0)
    array([0, 1])
    """
    struck, drawn = row_streams(seed, keys, "label noise").uniforms(2).T
    return np.where(struck < share, (drawn * classes).astype(np.int64), labels)


def count_steps(n: int, batch_size: int) -> int:
    """How many batches an epoch has.

    >>> count_steps(10, 4), count_steps(9, 4)
    (3, 2)
    """
    whole, rest = divmod(n, batch_size)
    return max(whole + (rest > 1), 1)


def batches(n: int, *, batch_size: int, seed: int, epoch: int) -> Iterator[Ints]:
    """The numbers of all rows in an order of the epoch's own, `batch_size` at a time.

    A last row that would be alone is left out of the epoch: one row has no variance, which batch
    norm needs.
    """
    order = rng_for(seed, "order", epoch).permutation(n)
    for step in range(count_steps(n, batch_size)):
        yield order[step * batch_size : (step + 1) * batch_size]
