"""Level of a stream: bound of the source mean, margin, and the cost of the size of the source."""

from __future__ import annotations

import numpy as np
import pytest

from oodometer.core.errors import InputError
from oodometer.monitor.baseline import Baseline


@pytest.mark.parametrize(("n", "points"), [(500, 4.1), (2000, 2.1), (10_000, 0.9), (50_000, 0.4)])
def test_cost_of_the_size_of_the_source(n: int, points: float) -> None:
    scores = (np.arange(n) < 0.85 * n).astype(float)
    baseline = Baseline.fit(scores, scores > 0, margin=0.01, alpha=0.01)
    assert round(100 * baseline.cost, 1) == points
    assert baseline.level == pytest.approx(0.85 - baseline.cost - 0.01)
    assert baseline.detector("batch").alpha == 0.005


def test_source_bound_holds_with_the_promised_probability() -> None:
    rng = np.random.default_rng(0)
    alpha = 0.2
    missed = 0
    for _ in range(400):
        scores = (rng.random(300) < 0.85).astype(float)
        missed += Baseline.fit(scores, scores > 0, margin=0.0, alpha=alpha).level > 0.85
    assert missed / 400 < alpha / 2 + 3 * np.sqrt(0.1 * 0.9 / 400)
    assert missed / 400 > 0.03


def test_row_variance_of_indicators_is_binomial_at_the_level() -> None:
    scores = np.array([1.0, 0.0] * 500)
    baseline = Baseline.fit(scores, scores > 0, margin=0.1, alpha=0.01)
    assert baseline.row_variance == baseline.level * (1 - baseline.level)
    smooth = Baseline.fit(scores * 0.5 + 0.2, scores > 0, margin=0.1, alpha=0.01)
    assert smooth.row_variance == pytest.approx(0.0625, rel=0.01)


@pytest.mark.parametrize(
    ("n", "values", "message"),
    [
        (20, {}, "at least 30"),
        (100, {"margin": 0.9}, "must be above 0"),
        (100, {"margin": -0.1}, "alarm_margin"),
        (100, {"alpha": 0.0}, "false_alarms"),
    ],
)
def test_invalid_baselines_are_rejected(n: int, values: dict[str, float], message: str) -> None:
    scores = (np.arange(n) < n / 2).astype(float)
    with pytest.raises(InputError, match=message):
        Baseline.fit(scores, scores > 0, **{"margin": 0.01, "alpha": 0.01, **values})
