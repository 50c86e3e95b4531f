"""Random choices in training: few-shot selection, label noise and batch order.

The random draws for a row depend on the seed and on the row's content, so they do not change with
the order of files and domains. The order of batches depends on the seed and the epoch.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from oodometer.core.array_types import Ints
from oodometer.core.inputs import RowHashes
from oodometer.core.random_streams import RowStreams
from oodometer.core.stats import rng_for


def row_streams(seed: int, keys: RowHashes, purpose: str, draw_index: int = 1) -> RowStreams:
    """Return one random stream per row.

    Streams with a different `purpose` or `draw_index` (for example the epoch) are independent.
    """
    return RowStreams(seed, keys, np.full(len(keys), draw_index), namespace=purpose)


def sample_per_class(labels: Ints, keys: RowHashes, *, count: int, seed: int) -> Ints:
    """Choose `count` random rows per class; return their sorted row numbers.

    If a class has fewer than `count` rows, all its rows are chosen.

    >>> sample_per_class(np.array([0, 1, 1, 0, 2]), np.arange(5, dtype=np.uint64), count=2, seed=0)
    array([0, 1, 2, 3, 4])
    """
    priorities = row_streams(seed, keys, "few-shot").uniforms(1)[:, 0]
    order = np.lexsort((priorities, labels))
    starts = np.searchsorted(labels[order], labels[order], side="left")
    return np.sort(order[np.arange(len(order)) - starts < count])


def add_label_noise(
    labels: Ints, keys: RowHashes, *, classes: int, share: float, seed: int
) -> Ints:
    """Replace a fraction `share` of the labels by classes drawn uniformly from all classes.

    >>> add_label_noise(np.array([0, 1]), np.arange(2, dtype=np.uint64), classes=2, share=0.0, seed=0)
    array([0, 1])
    """
    selection, draws = row_streams(seed, keys, "label noise").uniforms(2).T
    return np.where(selection < share, (draws * classes).astype(np.int64), labels)


def count_steps(n: int, batch_size: int) -> int:
    """Return the number of batches per epoch; a last batch of a single row is not counted.

    >>> count_steps(10, 4), count_steps(9, 4)
    (3, 2)
    """
    whole, rest = divmod(n, batch_size)
    return max(whole + (rest > 1), 1)


def batches(n: int, *, batch_size: int, seed: int, epoch: int) -> Iterator[Ints]:
    """Yield the row numbers of each batch of an epoch; the rows are shuffled in each epoch.

    If the last batch would have a single row, it is left out, because batch norm needs at least two
    rows to compute a variance.
    """
    order = rng_for(seed, "order", epoch).permutation(n)
    for step in range(count_steps(n, batch_size)):
        yield order[step * batch_size : (step + 1) * batch_size]


def count_balanced_steps(domains: Ints, n_domains: int, batch_size: int) -> int:
    """Return the number of batches in which each row of the largest domain occurs.

    >>> count_balanced_steps(np.array([0, 0, 0, 0, 0, 1, 1, 1]), 2, batch_size=4)
    3
    """
    largest = int(np.bincount(domains, minlength=n_domains).max())
    return math.ceil(largest / (batch_size // n_domains))


def balanced_batches(
    domains: Ints, n_domains: int, *, batch_size: int, seed: int, epoch: int
) -> Iterator[Ints]:
    """Yield the row numbers of each batch of an epoch, with equally many rows of each domain.

    A batch has ⌊batch_size / n_domains⌋ rows of the first domain, then as many of the second, and
    so on. Rows are shuffled in each epoch. All rows of the largest domain occur; rows of smaller
    domains are repeated, in a new random order each time. `domains` holds the domain of each row.
    """
    n_rows = batch_size // n_domains
    n_steps = count_balanced_steps(domains, n_domains, batch_size)
    orders = []
    for domain in range(n_domains):
        rng = rng_for(seed, "order", epoch, domain)
        rows = np.flatnonzero(domains == domain)
        passes = [rng.permutation(rows) for _ in range(math.ceil(n_steps * n_rows / len(rows)))]
        orders.append(np.concatenate(passes)[: n_steps * n_rows].reshape(n_steps, n_rows))
    yield from np.concatenate(orders, axis=1)
