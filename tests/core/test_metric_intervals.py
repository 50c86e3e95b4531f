"""Intervals reach the truth where sums of sizes are biased, and there are none where rows are alike."""

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
    """Means of n rows around the truth, and those of the rows drawn again."""
    rows = truth + rng.normal(size=(n, len(truth)))
    again = rng.integers(0, n, size=(200, n))
    return rows.mean(axis=0), rows[again].mean(axis=1)


@pytest.mark.parametrize("truth", [[0.0] * 8, [0.1] * 8, [1.0, -1.0] * 4, [2.0] + [0.0] * 7])
def test_the_true_sum_is_inside_as_often_as_it_should_be(truth: list[float]) -> None:
    rng = np.random.default_rng(0)
    true = np.array(truth)
    inside = 0
    for _ in range(150):
        low, high = absolute_sum_interval(*drawn(true, 60, rng))
        inside += low <= np.abs(true).sum() <= high
    # By Wilson's interval, 150 of which 95 % are inside have no fewer than that.
    assert inside >= 150 * wilson_interval(0.95 * 150, 150)[0]


def test_percentiles_would_miss_a_true_zero() -> None:
    rng = np.random.default_rng(0)
    _, again = drawn(np.zeros(8), 60, rng)
    assert np.quantile(np.abs(again).sum(axis=1), 0.025) > 0


@given(st.integers(0, 2**32 - 1), st.integers(1, 6))
def test_the_sum_itself_is_inside(seed: int, m: int) -> None:
    rng = np.random.default_rng(seed)
    parts, again = drawn(rng.normal(size=m), 20, rng)
    low, high = absolute_sum_interval(parts, again)
    assert low <= np.abs(parts).sum() <= high


@given(st.integers(0, 2**32 - 1), st.floats(-1.0, 1.0))
def test_the_value_is_inside_however_biased_its_replicates_are(seed: int, bias: float) -> None:
    rng = np.random.default_rng(seed)
    drawn = 0.5 + bias + 0.1 * rng.normal(size=200)
    low, high = interval_from_replicates(0.5, drawn)
    assert low <= 0.5 <= high
    assert low <= np.quantile(drawn, 0.025)
    assert high >= np.quantile(drawn, 0.975)
    # Were the errors of replicates those of the value, the truth would be as far on the other side.
    assert low <= 0.5 - bias <= high


def test_ends_are_kept_to_where_values_can_be() -> None:
    made = score_with_interval(0.9, (-0.5, 1.5), notes=("so",), facts={"rows": 3})
    assert (made.value, made.low, made.high, made.notes, made.facts) == (
        0.9, 0.0, 1.0, ("so",), {"rows": 3},
    )  # fmt: skip
    assert score_with_interval(2.0, (-1.0, 5.0), max_value=np.inf).high == 5.0


def test_rows_that_are_all_alike_have_no_interval() -> None:
    made = score_with_interval(1.0, (1.0, 1.0), notes=("so",), facts={"rows": 3})
    assert (made.low, made.high, made.facts) == (None, None, {"rows": 3})
    assert made.notes == ("so", "all bootstrap replicates are equal, so there is no interval")
