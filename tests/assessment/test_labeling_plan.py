"""Labeling plans: the planned precision, and equal inclusion probabilities."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oodometer.assessment.labeling_plan import plan_from_scores
from oodometer.assessment.ppi import ppi_estimate
from oodometer.core.errors import InputError


def test_planned_labels_give_the_requested_half_width() -> None:
    rng = np.random.default_rng(0)
    halves, hits = [], 0
    for seed in range(200):
        scores = rng.beta(3, 1, size=8000)
        correct = rng.random(8000) < scores
        plan = plan_from_scores(scores, half_width=0.03, seed=seed)
        rest = np.delete(scores, plan.rows)
        result = ppi_estimate(correct[plan.rows], scores[plan.rows], rest, rng=rng)
        halves.append((result.high - result.low) / 2)
        hits += result.low <= 0.75 <= result.high
    assert np.mean(halves) == pytest.approx(0.03, rel=0.1)
    assert hits >= 180
    assert 0.1 < plan.label_savings < 0.5


@given(n=st.integers(1, 300), seed=st.integers(0, 20), width=st.floats(0.01, 0.4))
def test_rows_are_distinct_and_as_many_as_planned(n: int, seed: int, width: float) -> None:
    scores = np.random.default_rng(seed).random(n)
    plan = plan_from_scores(scores, half_width=width, seed=seed)
    assert (
        len(set(plan.rows.tolist()))
        == len(plan.rows)
        == plan.n_labels
        <= plan.n_labels_without_scores
        <= n
    )


def test_every_row_has_the_same_inclusion_probability() -> None:
    scores = np.sort(np.random.default_rng(1).random(90))
    counts = np.zeros(90)
    for seed in range(2000):
        counts[plan_from_scores(scores, half_width=0.17, seed=seed).rows] += 1
    share = plan_from_scores(scores, half_width=0.17).n_labels / 90
    assert counts / 2000 == pytest.approx(np.full(90, share), abs=0.05)


@pytest.mark.parametrize(
    ("width", "hint"), [(2.0, "Did you mean 0.02"), (0.0, "got 0"), (0.5, "0.5")]
)
def test_half_width_must_be_a_fraction(width: float, hint: str) -> None:
    with pytest.raises(InputError, match=hint):
        plan_from_scores(np.ones(10), half_width=width)
