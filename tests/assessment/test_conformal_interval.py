"""Typical range: coverage, scaling by the spread, and the level with few domains."""

from __future__ import annotations

import numpy as np
import pytest

from oodometer.assessment.conformal_interval import MIN_SPREAD, History
from oodometer.core.errors import InputError


def test_exchangeable_domains_are_covered_at_the_nominal_level() -> None:
    rng = np.random.default_rng(0)
    hits, trials = 0, 2000
    for _ in range(trials):
        truths = rng.uniform(0.3, 0.7, 41)
        spreads = rng.uniform(0.02, 0.2, 41)
        estimates = np.clip(truths + spreads * rng.normal(size=41), 0, 1)
        history = History(estimates[:-1], truths[:-1], spreads[:-1])
        result = history.interval(float(estimates[-1]), float(spreads[-1]))
        hits += result.low <= truths[-1] <= result.high
    assert 0.94 <= hits / trials <= 0.99


def test_width_scales_with_the_spread_above_a_minimum() -> None:
    history = History(np.full(20, 0.5), np.full(20, 0.45), np.full(20, 0.1))
    narrow, wide, none = (history.interval(0.5, spread) for spread in (0.0, 0.2, None))
    assert wide.high - 0.5 == pytest.approx(0.1)
    assert narrow.high - 0.5 == pytest.approx(0.05 / 0.1 * MIN_SPREAD)
    assert none.high - 0.5 == pytest.approx(0.05)
    assert (wide.scaled_by_spread, none.scaled_by_spread) == (True, False)
    assert wide.bias == pytest.approx(0.05)


def test_few_domains_have_a_lower_level() -> None:
    history = History(np.full(5, 0.8), np.array([0.7, 0.75, 0.8, 0.85, 0.6]))
    result = history.interval(0.9)
    assert result.level == pytest.approx(5 / 6)
    assert (result.low, result.high) == pytest.approx((0.7, 1.0))


@pytest.mark.parametrize(
    ("estimates", "truths", "message"),
    [
        ([0.5] * 4, [0.5] * 4, "has 4 domains; at least 5 are required"),
        ([0.5] * 6, [0.5] * 5, "6 estimates and 5 truths"),
        ([0.5] * 5 + [50.0], [0.5] * 6, "row 5 has 50"),
        ([0.5] * 6, [0.5] * 5 + [np.nan], "row 5 has nan"),
    ],
)
def test_invalid_history_is_rejected(
    estimates: list[float], truths: list[float], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        History(np.array(estimates), np.array(truths))
