"""What the decisions in neighborhoods say: NI, NE and PA from an (m, N) table of classes.

Row i has the classes that the N members of example i's neighborhood were put in. With c the number
of members that share a member's class, every measure is a mean over members: no (m, k) table of
votes is needed, and k need not be known. A member that was not drawn (yet) has the class −1.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from oodometer.core.softmax_kernels import Floats, Ints

MISSING_CLASS = -1
# Comparing all members of a neighborhood with each other takes N² cells a row; so many at a time.
MAX_BLOCK_CELLS = 2_000_000


def _row_slices(m: int, members: int) -> Iterator[slice]:
    step = max(MAX_BLOCK_CELLS // max(members * members, 1), 1)
    return (slice(start, start + step) for start in range(0, m, step))


def same_class_counts(classes: Ints) -> Ints:
    """For every member: how many of its neighborhood are in its class, itself included.

    >>> same_class_counts(np.array([[4, 4, 7]]))
    array([[2, 2, 1]], dtype=int32)
    """
    counts = np.empty(classes.shape, dtype=np.int32)
    for rows in _row_slices(*classes.shape):
        block = classes[rows]
        counts[rows] = (block[:, :, None] == block[:, None, :]).sum(axis=2)
    return counts


def neighborhood_invariance(classes: Ints) -> Floats:
    """NI: the share of the neighborhood's own most frequent class.

    >>> neighborhood_invariance(np.array([[4, 4, 7, 4]]))
    array([0.75])
    """
    return np.asarray(same_class_counts(classes).max(axis=1) / classes.shape[1])


def negative_entropy(classes: Ints) -> Floats:
    """NE: Σ_j p_j log p_j, which is the mean over members of log(c / N).

    >>> negative_entropy(np.array([[4, 4, 4], [4, 4, 4]]))
    array([0., 0.])
    """
    return np.asarray(np.log(same_class_counts(classes) / classes.shape[1]).mean(axis=1))


def pair_agreement(classes: Ints) -> Floats:
    """The share of pairs of two different members that are in one class; −1 is left out.

    Σ_j n_j (n_j − 1) / (N (N − 1)); NaN where there are fewer than two members.

    >>> pair_agreement(np.array([[4, 4, 7], [4, -1, 4]]))
    array([0.33333333, 1.        ])
    """
    drawn = classes != MISSING_CLASS
    n = drawn.sum(axis=1)
    alike = (same_class_counts(classes) * drawn).sum(axis=1) - n
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(alike / (n * (n - 1)))


def pairwise_agreement(classes: Ints, *, identity: bool) -> Floats:
    """PA of the whole neighborhood, unbiased already when a part of its draws is there.

    Column 0 is the identity, the others are draws. The neighborhood of N members has one identity,
    so 2/N of its pairs have it and the rest are of two draws; both shares are estimated from the
    draws at hand. When all of them are there this is Σ_j n_j (n_j − 1) / (N (N − 1)). Without the
    identity as a member it is the second share alone.

    >>> pairwise_agreement(np.array([[4, 4, 7, 4]]), identity=True)
    array([0.5])
    """
    draws = classes[:, 1:]
    if not identity:
        return pair_agreement(draws)
    drawn = (draws != MISSING_CLASS).sum(axis=1)
    weight = 2.0 / classes.shape[1]
    with np.errstate(invalid="ignore", divide="ignore"):
        with_identity = (draws == classes[:, :1]).sum(axis=1) / drawn
    if weight == 1.0:
        return np.asarray(with_identity)
    return np.asarray(weight * with_identity + (1.0 - weight) * pair_agreement(draws))
