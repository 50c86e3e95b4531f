"""Mean distance of each row of features to its nearest neighbors."""

from __future__ import annotations

import numpy as np

from oodometer.core.array_types import Floats

# Maximum number of distances (rows × reference rows) in memory at once, 32 MB as float64.
MAX_BLOCK_DISTANCES = 4_000_000


def mean_distances(points: Floats, reference: Floats, n_neighbors: int) -> Floats:
    """Return each point's mean distance to its `n_neighbors` nearest reference rows.

    If there are fewer reference rows, all of them are used.

    >>> mean_distances(np.array([[0.0]]), np.array([[1.0], [3.0], [9.0]]), 2).tolist()
    [2.0]
    """
    return _mean_distances(points, reference, min(n_neighbors, len(reference)), n_skipped=0)


def leave_one_out_distances(points: Floats, n_neighbors: int) -> Floats:
    """Return each point's mean distance to its `n_neighbors` nearest other points.

    >>> leave_one_out_distances(np.array([[0.0], [1.0], [3.0]]), 1).tolist()
    [1.0, 1.0, 2.0]
    """
    return _mean_distances(points, points, min(n_neighbors + 1, len(points)), n_skipped=1)


def _mean_distances(points: Floats, reference: Floats, n_neighbors: int, n_skipped: int) -> Floats:
    """Return mean distances to the nearest rows; skip the first `n_skipped`, the point itself."""
    center = reference.mean(axis=0)
    points = points - center
    reference = reference - center
    lengths = np.einsum("ij,ij->i", reference, reference)
    step = max(1, MAX_BLOCK_DISTANCES // len(reference))
    distances = np.empty(len(points))
    for start in range(0, len(points), step):
        block = points[start : start + step]
        squares = np.einsum("ij,ij->i", block, block)[:, None] + lengths - 2 * block @ reference.T
        nearest = np.partition(squares, n_neighbors - 1, axis=1)[:, :n_neighbors]
        nearest = np.sort(nearest, axis=1)[:, n_skipped:]
        distances[start : start + step] = np.sqrt(np.maximum(nearest, 0.0)).mean(axis=1)
    return distances
