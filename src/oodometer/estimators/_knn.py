"""How far rows of features are from their nearest neighbours among known rows."""

from __future__ import annotations

import numpy as np

from oodometer.core.softmax_kernels import Floats

# Distances that are held at once, rows times known rows.
BLOCK = 4_000_000


def mean_distances(points: Floats, known: Floats, nearest: int) -> Floats:
    """The mean distance from every point to its nearest known rows (all, where there are fewer).

    >>> mean_distances(np.array([[0.0]]), np.array([[1.0], [3.0], [9.0]]), 2).tolist()
    [2.0]
    """
    return _mean_distances(points, known, min(nearest, len(known)), first=0)


def own_distances(points: Floats, nearest: int) -> Floats:
    """The mean distance from every point to the nearest others.

    >>> own_distances(np.array([[0.0], [1.0], [3.0]]), 1).tolist()
    [1.0, 1.0, 2.0]
    """
    return _mean_distances(points, points, min(nearest + 1, len(points)), first=1)


def _mean_distances(points: Floats, known: Floats, nearest: int, first: int) -> Floats:
    """The mean over the nearest, without the `first` few of them (a point itself)."""
    centre = known.mean(axis=0)
    points, known = points - centre, known - centre
    lengths = np.einsum("ij,ij->i", known, known)
    step = max(1, BLOCK // len(known))
    found = np.empty(len(points))
    for start in range(0, len(points), step):
        block = points[start : start + step]
        squares = np.einsum("ij,ij->i", block, block)[:, None] + lengths - 2 * block @ known.T
        close = np.sort(np.partition(squares, nearest - 1, axis=1)[:, :nearest], axis=1)[:, first:]
        found[start : start + step] = np.sqrt(np.maximum(close, 0.0)).mean(axis=1)
    return found
