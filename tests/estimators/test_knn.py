"""Distances to nearest neighbours against scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.neighbors import NearestNeighbors

from oodometer.estimators import _knn
from oodometer.estimators._knn import leave_one_out_distances, mean_distances


@pytest.mark.parametrize("block", [1, 50, 4_000_000])
def test_distances_match_scikit_learn(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_knn, "MAX_BLOCK_DISTANCES", block)
    rng = np.random.default_rng(0)
    reference, points = rng.normal(size=(80, 5)) + 100, rng.normal(size=(30, 5)) + 100
    neighbors = NearestNeighbors(n_neighbors=7).fit(reference)
    np.testing.assert_allclose(
        mean_distances(points, reference, 7), neighbors.kneighbors(points)[0].mean(axis=1)
    )
    np.testing.assert_allclose(
        leave_one_out_distances(reference, 7), neighbors.kneighbors()[0].mean(axis=1)
    )


def test_all_rows_are_used_if_there_are_fewer_than_neighbours() -> None:
    reference = np.array([[0.0], [2.0]])
    assert mean_distances(np.array([[1.0]]), reference, 25).tolist() == [1.0]
    assert leave_one_out_distances(reference, 25).tolist() == [2.0, 2.0]
