"""Intervals for shift: conformal, scaled, and honest about how few domains there were."""

from __future__ import annotations

import numpy as np
import pytest

from oodometer.assessment.conformal_interval import MIN_SPREAD, History
from oodometer.core.errors import InputError


def test_of_many_like_domains_nineteen_in_twenty_are_covered() -> None:
    rng = np.random.default_rng(0)
    hits, trials = 0, 2000
    for _ in range(trials):
        truths = rng.uniform(0.3, 0.7, 41)
        spreads = rng.uniform(0.02, 0.2, 41)
        estimates = np.clip(truths + spreads * rng.normal(size=41), 0, 1)
        past = History(estimates[:-1], truths[:-1], spreads[:-1])
        found = past.interval(float(estimates[-1]), float(spreads[-1]))
        hits += found.low <= truths[-1] <= found.high
    assert 0.94 <= hits / trials <= 0.99


def test_the_width_follows_the_spread_but_never_vanishes() -> None:
    past = History(np.full(20, 0.5), np.full(20, 0.45), np.full(20, 0.1))
    narrow, wide, none = (past.interval(0.5, spread) for spread in (0.0, 0.2, None))
    assert wide.high - 0.5 == pytest.approx(0.1)
    assert narrow.high - 0.5 == pytest.approx(0.05 / 0.1 * MIN_SPREAD)
    assert none.high - 0.5 == pytest.approx(0.05)
    assert (wide.scaled_by_spread, none.scaled_by_spread) == (True, False)
    assert wide.bias == pytest.approx(0.05)


def test_few_domains_promise_less_and_say_so() -> None:
    past = History(np.full(5, 0.8), np.array([0.7, 0.75, 0.8, 0.85, 0.6]))
    found = past.interval(0.9)
    assert found.level == pytest.approx(5 / 6)
    assert (found.low, found.high) == pytest.approx((0.7, 1.0))


@pytest.mark.parametrize(
    ("estimates", "truths", "said"),
    [
        ([0.5] * 4, [0.5] * 4, "has 4 domains; 5 are the fewest"),
        ([0.5] * 6, [0.5] * 5, "6 estimates and 5 truths"),
        ([0.5] * 5 + [50.0], [0.5] * 6, "row 5 has 50"),
        ([0.5] * 6, [0.5] * 5 + [np.nan], "row 5 has nan"),
    ],
)
def test_what_is_no_history_is_refused(
    estimates: list[float], truths: list[float], said: str
) -> None:
    with pytest.raises(InputError, match=said):
        History(np.array(estimates), np.array(truths))
