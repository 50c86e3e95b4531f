"""Standard normal numbers per row."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import kstest

from oodometer.core.array_types import Floats
from oodometer.core.random_streams import RowStreams, standard_normals


def test_draws_are_standard_normal() -> None:
    draws = RowStreams(0, np.arange(20_000, dtype=np.uint64), np.ones(20_000, dtype=np.int64))
    values = standard_normals(draws, 2)
    assert kstest(values.ravel(), "norm").pvalue > 1e-4
    assert abs(np.asarray(np.corrcoef(values.T))[0, 1]) < 5 / np.sqrt(20_000)


@pytest.mark.parametrize("uniform", [0.0, 1 - 2.0**-53])
def test_extreme_uniforms_give_finite_normals(
    uniform: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ends(draws: RowStreams, count: int) -> Floats:
        return np.full((1, count), uniform)

    monkeypatch.setattr(RowStreams, "uniforms", ends)
    found = standard_normals(
        RowStreams(0, np.zeros(1, dtype=np.uint64), np.ones(1, dtype=np.int64)), 2
    )
    assert (np.abs(found) > 8).all()
    assert np.isfinite(found).all()
