"""How far rows of features are from their nearest neighbours among known rows."""

from __future__ import annotations

import numpy as np

from oodometer.core.array_types import Floats

# Distances that are held at once, rows times known rows.
MAX_BLOCK_DISTANCES = 4_000_000


def mean_distances(points: Floats, reference: Floats, n_neighbors: int) -> Floats:
    """The mean distance from every point to its nearest known rows (all, where there are fewer).

    >>> mean_distances(np.array([[0.0]]), np.array([[1.0], [3.0], [9.0]]), 2).tolist()
    [2.0]
    """
    return _mean_distances(points, reference, min(n_neighbors, len(reference)), n_skipped=0)


def leave_one_out_distances(points: Floats, n_neighbors: int) -> Floats:
    """The mean distance from every point to the nearest others.

    >>> leave_one_out_distances(np.array([[0.0], [1.0], [3.0]]), 1).tolist()
    [1.0, 1.0, 2.0]
    """
    return _mean_distances(points, points, min(n_neighbors + 1, len(points)), n_skipped=1)


def _mean_distances(points: Floats, reference: Floats, n_neighbors: int, n_skipped: int) -> Floats:
    """The mean over the nearest, without the `n_skipped` few of them (a point itself)."""
    centre = reference.mean(axis=0)
    points, reference = points - centre, reference - centre
    lengths = np.einsum("ij,ij->i", reference, reference)
    step = max(1, MAX_BLOCK_DISTANCES // len(reference))
    found = np.empty(len(points))
    for start in range(0, len(points), step):
        block = points[start : start + step]
        squares = np.einsum("ij,ij->i", block, block)[:, None] + lengths - 2 * block @ reference.T
        close = np.sort(np.partition(squares, n_neighbors - 1, axis=1)[:, :n_neighbors], axis=1)[
            :, n_skipped:
        ]
        found[start : start + step] = np.sqrt(np.maximum(close, 0.0)).mean(axis=1)
    return found
