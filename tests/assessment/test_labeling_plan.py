"""Labeling plans: the planned precision, and equal inclusion probabilities."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oodometer.assessment.labeling_plan import (
    labels_for_accuracy,
    plan_from_scores,
    plan_labels,
)
from oodometer.assessment.ppi import MIN_LABELS, ppi_estimate
from oodometer.core.errors import InputError
from oodometer.core.predictions import Predictions
from oodometer.testing import toy_predictions


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


# A given number of labels -------------------------------------------------------------------------


def test_number_of_labels_is_kept_and_gives_the_half_width() -> None:
    """The planned half-width is that of PPI++ with these labels."""
    rng = np.random.default_rng(0)
    halves, planned = [], []
    for seed in range(60):
        scores = rng.beta(3, 1, size=4000)
        rows = Predictions.from_probs(np.stack([scores, 1 - scores], axis=1), decisions=[0] * 4000)
        correct = rng.random(4000) < scores
        plan = plan_labels(rows, n_labels=300, seed=seed)
        assert plan.n_labels == len(set(plan.rows.tolist())) == 300
        rest = np.delete(scores, plan.rows)
        result = ppi_estimate(correct[plan.rows], scores[plan.rows], rest, rng=rng)
        halves.append((result.high - result.low) / 2)
        planned.append(plan.half_width)
    assert np.mean(halves) == pytest.approx(np.mean(planned), rel=0.1)


@given(n=st.integers(1, 200), n_labels=st.integers(1, 300), seed=st.integers(0, 20))
def test_plan_of_a_number_has_at_most_all_rows(n: int, n_labels: int, seed: int) -> None:
    target = toy_predictions(n, seed=seed)
    plan = plan_labels(target, n_labels=n_labels, seed=seed)
    assert plan.n_labels == len(np.unique(plan.rows)) == min(n, n_labels)
    assert plan.n_labels <= plan.n_labels_without_scores <= n
    assert 0 < plan.half_width < 0.5


def test_plan_of_a_number_inverts_the_plan_of_a_half_width() -> None:
    target = toy_predictions(5000, sharpness=1.0)
    by_width = plan_labels(target, half_width=0.03)
    by_number = plan_labels(target, n_labels=by_width.n_labels, half_width=0.4)
    assert by_number.half_width == pytest.approx(0.03, rel=0.01)
    assert by_number.rows.tolist() == by_width.rows.tolist()
    # With four times the labels, the interval is half as wide.
    more = plan_labels(target, n_labels=4 * by_width.n_labels)
    assert more.half_width == pytest.approx(by_number.half_width / 2, rel=0.01)


@pytest.mark.parametrize("n_labels", [0, -3])
def test_number_of_labels_must_be_positive(n_labels: int) -> None:
    with pytest.raises(InputError, match="n_labels must be at least 1"):
        plan_labels(toy_predictions(50), n_labels=n_labels)


def test_labels_for_an_accuracy_give_its_half_width() -> None:
    rng = np.random.default_rng(0)
    for accuracy in (0.5, 0.8, 0.95):
        needed = labels_for_accuracy(accuracy, 100_000)
        means = rng.binomial(needed, accuracy, 20_000) / needed
        assert 1.96 * means.std() == pytest.approx(0.03, rel=0.03)
    assert labels_for_accuracy(0.5, 200) == 200
    assert labels_for_accuracy(1.0, 5000) == MIN_LABELS
    assert labels_for_accuracy(0.5, 100_000) == max(
        labels_for_accuracy(accuracy / 20, 100_000) for accuracy in range(21)
    )
