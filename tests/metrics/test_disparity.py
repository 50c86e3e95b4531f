"""Demographic disparity: environments maximise the penalty; rates match explicit counts."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from oodometer.core import softmax_kernels
from oodometer.core.array_types import Array, Bools, Floats, Ints
from oodometer.core.errors import NotApplicable
from oodometer.core.predictions import Predictions
from oodometer.core.stats import wilson_interval
from oodometer.metrics.disparity import (
    DemographicDisparity,
    environment_penalty,
    first_environment,
    scale_slopes,
)
from oodometer.models.model_view import ModelView, ViewSource

SEEDS = st.integers(0, 2**32 - 1)


def view_of(outputs: Predictions, **settings: Any) -> ModelView:
    return ModelView(ViewSource("toy", outputs=outputs, **settings))


def random_outputs(n: int, k: int, *, seed: int, temperature: float = 1.0) -> Predictions:
    """Return logits with labels drawn from their softmax at a temperature."""
    rng = np.random.default_rng(seed)
    logits = 1.5 * rng.normal(size=(n, k)) - 0.4 * np.arange(k)
    cumulative = softmax_kernels.softmax(logits, "logits", temperature).cumsum(axis=1)
    labels = (rng.random((n, 1)) > cumulative[:, :-1]).sum(axis=1)
    return Predictions.from_logits(logits, labels=labels)


def slopes_of(outputs: Predictions) -> Floats:
    assert outputs.labels is not None
    return scale_slopes(outputs, outputs.labels)


def autograd_slopes(logits: Array, labels: Ints) -> Floats:
    """Return the derivatives by torch, row by row."""
    rows = []
    for z, y in zip(torch.tensor(logits), torch.tensor(labels), strict=True):
        w = torch.ones((), dtype=z.dtype, requires_grad=True)
        (slope,) = torch.autograd.grad(torch.nn.functional.cross_entropy(w * z, y), w)
        rows.append(slope.item())
    return np.array(rows)


def gradient_ascent_shares(slopes: Floats, seed: int) -> Floats:
    """Return soft assignments by gradient ascent on the EIIL penalty."""
    torch.manual_seed(seed)
    given = torch.tensor(slopes)
    free = torch.randn(len(slopes), dtype=given.dtype, requires_grad=True)
    adam = torch.optim.Adam([free], lr=0.1)
    for _ in range(300):
        shares = free.sigmoid()
        sides = torch.stack([(shares * given).mean(), ((1 - shares) * given).mean()])
        loss = -(sides**2).sum()
        adam.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        adam.step()
    score: Floats = free.sigmoid().detach().numpy()
    return score


# Slopes --------------------------------------------------------------------------------------


@given(SEEDS, st.integers(1, 12), st.integers(2, 6))
@settings(max_examples=25)
def test_slopes_match_automatic_differentiation(seed: int, n: int, k: int) -> None:
    outputs = random_outputs(n, k, seed=seed)
    assert outputs.scores is not None
    assert outputs.labels is not None
    assert slopes_of(outputs) == pytest.approx(
        autograd_slopes(outputs.scores, outputs.labels), abs=1e-9
    )


@given(SEEDS)
def test_constant_offset_of_logits_does_not_matter(seed: int) -> None:
    outputs = random_outputs(20, 4, seed=seed)
    assert outputs.scores is not None
    shift = np.random.default_rng(seed).normal(size=(20, 1)) * 10
    shifted = Predictions.from_logits(outputs.scores + shift, labels=outputs.labels)
    by_probs = Predictions.from_probs(outputs.probs, labels=outputs.labels)
    assert slopes_of(shifted) == pytest.approx(slopes_of(outputs), abs=1e-9)
    assert slopes_of(by_probs) == pytest.approx(slopes_of(outputs), abs=1e-9)


def test_temperature_divides_logits() -> None:
    outputs = random_outputs(20, 4, seed=0)
    assert outputs.scores is not None
    divided = Predictions.from_logits(outputs.scores / 3, labels=outputs.labels)
    assert slopes_of(outputs.at_temperature(3.0)) == pytest.approx(slopes_of(divided))


def test_blocks_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    outputs = random_outputs(100, 4, seed=0)
    whole = slopes_of(outputs)
    monkeypatch.setattr(softmax_kernels, "BLOCK_CELLS", 80)
    assert slopes_of(outputs) == pytest.approx(whole)


# Environments --------------------------------------------------------------------------------


@given(SEEDS, st.integers(1, 8))
@settings(max_examples=30)
def test_no_hard_assignment_has_a_larger_penalty(seed: int, n: int) -> None:
    slopes = np.random.default_rng(seed).normal(size=n)
    worst = max(
        environment_penalty(slopes, np.array(shares))
        for shares in itertools.product([False, True], repeat=n)
    )
    assert environment_penalty(slopes, first_environment(slopes)) == pytest.approx(worst)


@given(SEEDS, st.integers(1, 30))
def test_no_soft_assignment_has_a_larger_penalty(seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    slopes = rng.normal(size=n)
    assert (
        environment_penalty(slopes, rng.random(n))
        <= environment_penalty(slopes, first_environment(slopes)) + 1e-12
    )


@pytest.mark.parametrize("seed", range(3))
def test_gradient_ascent_finds_the_same_environments(seed: int) -> None:
    slopes = slopes_of(random_outputs(60, 3, seed=seed))
    first, shares = first_environment(slopes), gradient_ascent_shares(slopes, seed)
    assert environment_penalty(slopes, shares) == pytest.approx(
        environment_penalty(slopes, first), rel=0.01
    )
    score: Bools = shares > 0.5
    clear = np.abs(slopes) > 0.05
    assert (score == first)[clear].all() or (score != first)[clear].all()


def test_penalty_sums_both_environments() -> None:
    slopes, shares = np.array([1.0, 2.0, -4.0]), np.array([1.0, 0.5, 0.25])
    # (1 + 1 − 1) / 3 in the first, (0 + 1 − 3) / 3 in the second.
    assert environment_penalty(slopes, shares) == pytest.approx((1 / 3) ** 2 + (2 / 3) ** 2)


# The disparity -------------------------------------------------------------------------------


def test_value_matches_explicit_rates() -> None:
    # Overconfident: rows 2 and 4, wrong at 0.9, predicted 0 and 2. The others: 0, 1, 1 and 2.
    sure, unlike = 0.9, 0.05
    predicted, labels = [0, 1, 0, 1, 2, 2], [0, 1, 2, 1, 1, 2]
    probs = np.full((6, 3), unlike)
    probs[np.arange(6), predicted] = sure
    score = DemographicDisparity().evaluate(view_of(Predictions.from_probs(probs, labels=labels)))
    assert score.value == pytest.approx(
        (abs(1 / 2 - 1 / 4) + abs(0 - 1 / 2) + abs(1 / 2 - 1 / 4)) / 2
    )
    assert (score.facts["rows_too_sure"], score.facts["rows_not_too_sure"]) == (2, 4)


@given(SEEDS, st.integers(20, 60), st.integers(2, 5))
def test_value_matches_naive_count(seed: int, n: int, k: int) -> None:
    outputs = random_outputs(n, k, seed=seed)
    slopes = slopes_of(outputs)
    first = [c for c, g in zip(outputs.classes, slopes, strict=True) if g > 0]
    second = [c for c, g in zip(outputs.classes, slopes, strict=True) if g <= 0]
    assume(first and second)
    gaps = [abs(first.count(c) / len(first) - second.count(c) / len(second)) for c in range(k)]
    score = DemographicDisparity().evaluate(view_of(outputs))
    assert score.value == pytest.approx(sum(gaps) / 2)
    assert 0 <= score.value <= 1
    assert score.facts["penalty"] == pytest.approx(environment_penalty(slopes, slopes > 0))
    if k == 2:
        assert score.value == pytest.approx(gaps[0])


@given(SEEDS)
def test_row_order_does_not_matter(seed: int) -> None:
    outputs = random_outputs(60, 3, seed=seed)
    assume(len(set(first_environment(slopes_of(outputs)))) == 2)
    order = np.random.default_rng(seed).permutation(60)
    original, permuted = (
        DemographicDisparity().evaluate(view_of(each)) for each in (outputs, outputs.rows(order))
    )
    assert (original.value, original.low, original.high) == pytest.approx(
        (permuted.value, permuted.low, permuted.high)
    )


def test_interval_matches_a_bootstrap_of_rows() -> None:
    """The sign of a row's slope does not change, so resampling counts matches resampling rows."""
    outputs = random_outputs(500, 3, seed=3, temperature=3.0)
    score = DemographicDisparity().evaluate(view_of(outputs))
    rng = np.random.default_rng(0)
    gaps = []
    for index in (np.arange(500), *rng.integers(0, 500, size=(600, 500))):
        resampled = outputs.rows(index)
        first = first_environment(slopes_of(resampled))
        rates = [
            np.bincount(resampled.classes[side], minlength=3) / side.sum()
            for side in (first, ~first)
        ]
        gaps.append((rates[0] - rates[1]) / 2)
    errors = np.array(gaps[1:]) - gaps[0]
    low = score.value - np.quantile(np.abs(errors).sum(axis=1), 0.975)
    high = score.value + np.quantile(-(errors @ np.sign(gaps[0])), 0.975)
    assert score.low == pytest.approx(max(low, 0.0), abs=0.02)
    assert score.high == pytest.approx(high, abs=0.02)


@pytest.mark.parametrize("temperature", [1.0, 3.0])
def test_interval_covers_the_truth(temperature: float) -> None:
    whole = random_outputs(400_000, 3, seed=99, temperature=temperature)
    truth, inside = DemographicDisparity().evaluate(view_of(whole)).value, 0
    for seed in range(100):
        outputs = random_outputs(200, 3, seed=seed, temperature=temperature)
        score = DemographicDisparity().evaluate(view_of(outputs))
        assert score.low is not None
        assert score.high is not None
        inside += score.low <= truth <= score.high
    assert inside >= 100 * wilson_interval(95, 100)[0]


# Errors --------------------------------------------------------------------------------------


@pytest.mark.parametrize("labels", [[0, 0], [1, 1]])
def test_empty_environment_is_not_applicable(labels: list[int]) -> None:
    outputs = Predictions.from_probs([[0.9, 0.1], [0.8, 0.2]], labels=labels)
    with pytest.raises(NotApplicable, match="one environment is empty"):
        DemographicDisparity().evaluate(view_of(outputs))


def test_probabilities_and_labels_are_required() -> None:
    outputs = Predictions.from_classes([0, 1], k=2, labels=[0, 1])
    with pytest.raises(NotApplicable, match="cannot be computed from classes alone"):
        DemographicDisparity().evaluate(view_of(outputs))
    with pytest.raises(NotApplicable, match="it needs labels"):
        DemographicDisparity().evaluate(view_of(random_outputs(5, 3, seed=0).without_labels()))


def test_uniform_model_is_not_applicable() -> None:
    outputs = Predictions.from_probs(np.full((4, 3), 1 / 3), labels=[0, 1, 2, 0])
    assert (slopes_of(outputs) == 0).all()
    with pytest.raises(NotApplicable, match="empty"):
        DemographicDisparity().evaluate(view_of(outputs))
