"""Bootstrap intervals of metrics: coverage of biased sums, clipping, equal replicates."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oodometer.core.array_types import Floats
from oodometer.core.stats import (
    absolute_sum_interval,
    interval_from_replicates,
    score_with_interval,
    wilson_interval,
)


def drawn(truth: Floats, n: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Return means of n rows around the truth, and their bootstrap replicates."""
    rows = truth + rng.normal(size=(n, len(truth)))
    again = rng.integers(0, n, size=(200, n))
    return rows.mean(axis=0), rows[again].mean(axis=1)


@pytest.mark.parametrize("truth", [[0.0] * 8, [0.1] * 8, [1.0, -1.0] * 4, [2.0] + [0.0] * 7])
def test_interval_of_absolute_sum_has_nominal_coverage(truth: list[float]) -> None:
    rng = np.random.default_rng(0)
    true = np.array(truth)
    inside = 0
    for _ in range(150):
        low, high = absolute_sum_interval(*drawn(true, 60, rng))
        inside += low <= np.abs(true).sum() <= high
    # Lower end of Wilson's interval for 150 trials with a coverage of 95 %.
    assert inside >= 150 * wilson_interval(0.95 * 150, 150)[0]


def test_percentile_interval_would_miss_a_true_zero() -> None:
    rng = np.random.default_rng(0)
    _, again = drawn(np.zeros(8), 60, rng)
    assert np.quantile(np.abs(again).sum(axis=1), 0.025) > 0


@given(st.integers(0, 2**32 - 1), st.integers(1, 6))
def test_interval_contains_the_sum(seed: int, m: int) -> None:
    rng = np.random.default_rng(seed)
    parts, again = drawn(rng.normal(size=m), 20, rng)
    low, high = absolute_sum_interval(parts, again)
    assert low <= np.abs(parts).sum() <= high


@given(st.integers(0, 2**32 - 1), st.floats(-1.0, 1.0))
def test_interval_contains_the_value_for_biased_replicates(seed: int, bias: float) -> None:
    rng = np.random.default_rng(seed)
    drawn = 0.5 + bias + 0.1 * rng.normal(size=200)
    low, high = interval_from_replicates(0.5, drawn)
    assert low <= 0.5 <= high
    assert low <= np.quantile(drawn, 0.025)
    assert high >= np.quantile(drawn, 0.975)
    # If replicates have the error of the value, the truth is as far on the other side.
    assert low <= 0.5 - bias <= high


def test_interval_is_clipped_to_the_range_of_values() -> None:
    made = score_with_interval(0.9, (-0.5, 1.5), notes=("so",), facts={"rows": 3})
    assert (made.value, made.low, made.high, made.notes, made.facts) == (
        0.9, 0.0, 1.0, ("so",), {"rows": 3},
    )  # fmt: skip
    assert score_with_interval(2.0, (-1.0, 5.0), max_value=np.inf).high == 5.0


def test_equal_replicates_give_no_interval() -> None:
    made = score_with_interval(1.0, (1.0, 1.0), notes=("so",), facts={"rows": 3})
    assert (made.low, made.high, made.facts) == (None, None, {"rows": 3})
    assert made.notes == ("so", "all bootstrap replicates are equal, so there is no interval")
