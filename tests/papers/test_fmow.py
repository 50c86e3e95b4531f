"""Outputs of five FMoW-WILDS models on out-of-domain folds (signals only, no temperature)."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.studies.fmow import errors_by_method
from tests.support.research_data import require_data

pytestmark = pytest.mark.realdata


@pytest.fixture(scope="module")
def errors() -> dict[str, np.ndarray]:
    return errors_by_method(require_data("outputs/wilds_fmow_signals.npz"), ("val", "test"))


@pytest.mark.parametrize(("method", "published"), [("atc-mc", 2.3), ("atc-ne", 2.3), ("doc", 4.8)])
def test_mean_absolute_errors_match_earlier_runs(
    errors: dict[str, np.ndarray], method: str, published: float
) -> None:
    assert len(errors[method]) == 150
    assert np.abs(errors[method]).mean() * 100 == pytest.approx(published, abs=0.1)


def test_every_method_overestimates_out_of_domain(errors: dict[str, np.ndarray]) -> None:
    for method, gaps in errors.items():
        assert gaps.mean() > 0, method
