"""Demographic disparity: the environments are the worst there are, and the rates are counted right."""

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


def seen(outputs: Predictions, **settings: Any) -> ModelView:
    return ModelView(ViewSource("toy", outputs=outputs, **settings))


def planted(n: int, k: int, *, seed: int, temperature: float = 1.0) -> Predictions:
    """Logits, and labels drawn from their softmax at a temperature."""
    rng = np.random.default_rng(seed)
    logits = 1.5 * rng.normal(size=(n, k)) - 0.4 * np.arange(k)
    chances = softmax_kernels.softmax(logits, "logits", temperature).cumsum(axis=1)
    labels = (rng.random((n, 1)) > chances[:, :-1]).sum(axis=1)
    return Predictions.from_logits(logits, labels=labels)


def slopes_of(said: Predictions) -> Floats:
    assert said.labels is not None
    return scale_slopes(said, said.labels)


def differentiated(logits: Array, labels: Ints) -> Floats:
    """The derivatives as torch takes them, one row at a time."""
    rows = []
    for z, y in zip(torch.tensor(logits), torch.tensor(labels), strict=True):
        w = torch.ones((), dtype=z.dtype, requires_grad=True)
        (slope,) = torch.autograd.grad(torch.nn.functional.cross_entropy(w * z, y), w)
        rows.append(slope.item())
    return np.array(rows)


def ascended(slopes: Floats, seed: int) -> Floats:
    """Soft shares by gradient ascent on EIIL's penalty, as it is usually done."""
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
    found: Floats = free.sigmoid().detach().numpy()
    return found


# Slopes --------------------------------------------------------------------------------------


@given(SEEDS, st.integers(1, 12), st.integers(2, 6))
@settings(max_examples=25)
def test_slopes_are_derivatives(seed: int, n: int, k: int) -> None:
    said = planted(n, k, seed=seed)
    assert said.scores is not None
    assert said.labels is not None
    assert slopes_of(said) == pytest.approx(differentiated(said.scores, said.labels), abs=1e-9)


@given(SEEDS)
def test_a_constant_added_to_a_row_changes_nothing(seed: int) -> None:
    said = planted(20, 4, seed=seed)
    assert said.scores is not None
    shift = np.random.default_rng(seed).normal(size=(20, 1)) * 10
    moved = Predictions.from_logits(said.scores + shift, labels=said.labels)
    by_probs = Predictions.from_probs(said.probs, labels=said.labels)
    assert slopes_of(moved) == pytest.approx(slopes_of(said), abs=1e-9)
    assert slopes_of(by_probs) == pytest.approx(slopes_of(said), abs=1e-9)


def test_the_temperature_divides_logits() -> None:
    said = planted(20, 4, seed=0)
    assert said.scores is not None
    divided = Predictions.from_logits(said.scores / 3, labels=said.labels)
    assert slopes_of(said.at_temperature(3.0)) == pytest.approx(slopes_of(divided))


def test_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    said = planted(100, 4, seed=0)
    whole = slopes_of(said)
    monkeypatch.setattr(softmax_kernels, "BLOCK_CELLS", 80)
    assert slopes_of(said) == pytest.approx(whole)


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
def test_gradient_ascent_ends_there(seed: int) -> None:
    slopes = slopes_of(planted(60, 3, seed=seed))
    first, shares = first_environment(slopes), ascended(slopes, seed)
    assert environment_penalty(slopes, shares) == pytest.approx(
        environment_penalty(slopes, first), rel=0.01
    )
    found: Bools = shares > 0.5
    clear = np.abs(slopes) > 0.05
    assert (found == first)[clear].all() or (found != first)[clear].all()


def test_the_penalty_is_that_of_both_environments() -> None:
    slopes, shares = np.array([1.0, 2.0, -4.0]), np.array([1.0, 0.5, 0.25])
    # (1 + 1 − 1) / 3 in the first, (0 + 1 − 3) / 3 in the second.
    assert environment_penalty(slopes, shares) == pytest.approx((1 / 3) ** 2 + (2 / 3) ** 2)


# The disparity -------------------------------------------------------------------------------


def test_by_hand() -> None:
    # Too sure: rows 2 and 4, wrong at 0.9, decided 0 and 2. The others are decided 0, 1, 1 and 2.
    sure, unlike = 0.9, 0.05
    decided, labels = [0, 1, 0, 1, 2, 2], [0, 1, 2, 1, 1, 2]
    probs = np.full((6, 3), unlike)
    probs[np.arange(6), decided] = sure
    found = DemographicDisparity().evaluate(seen(Predictions.from_probs(probs, labels=labels)))
    assert found.value == pytest.approx(
        (abs(1 / 2 - 1 / 4) + abs(0 - 1 / 2) + abs(1 / 2 - 1 / 4)) / 2
    )
    assert (found.facts["rows_too_sure"], found.facts["rows_not_too_sure"]) == (2, 4)


@given(SEEDS, st.integers(20, 60), st.integers(2, 5))
def test_it_is_a_literal_count_of_rates(seed: int, n: int, k: int) -> None:
    said = planted(n, k, seed=seed)
    slopes = slopes_of(said)
    first = [c for c, g in zip(said.classes, slopes, strict=True) if g > 0]
    second = [c for c, g in zip(said.classes, slopes, strict=True) if g <= 0]
    assume(first and second)
    gaps = [abs(first.count(c) / len(first) - second.count(c) / len(second)) for c in range(k)]
    found = DemographicDisparity().evaluate(seen(said))
    assert found.value == pytest.approx(sum(gaps) / 2)
    assert 0 <= found.value <= 1
    assert found.facts["penalty"] == pytest.approx(environment_penalty(slopes, slopes > 0))
    if k == 2:
        assert found.value == pytest.approx(gaps[0])


@given(SEEDS)
def test_row_order_changes_nothing(seed: int) -> None:
    said = planted(60, 3, seed=seed)
    assume(len(set(first_environment(slopes_of(said)))) == 2)
    order = np.random.default_rng(seed).permutation(60)
    one, other = (DemographicDisparity().evaluate(seen(each)) for each in (said, said.rows(order)))
    assert (one.value, one.low, one.high) == pytest.approx((other.value, other.low, other.high))


def test_the_interval_is_that_of_rows_drawn_one_by_one() -> None:
    """Environments are found anew each time; a row's sign stays, so that counting will do."""
    said = planted(500, 3, seed=3, temperature=3.0)
    found = DemographicDisparity().evaluate(seen(said))
    rng = np.random.default_rng(0)
    gaps = []
    for index in (np.arange(500), *rng.integers(0, 500, size=(600, 500))):
        again = said.rows(index)
        first = first_environment(slopes_of(again))
        rates = [
            np.bincount(again.classes[side], minlength=3) / side.sum() for side in (first, ~first)
        ]
        gaps.append((rates[0] - rates[1]) / 2)
    errors = np.array(gaps[1:]) - gaps[0]
    low = found.value - np.quantile(np.abs(errors).sum(axis=1), 0.975)
    high = found.value + np.quantile(-(errors @ np.sign(gaps[0])), 0.975)
    assert found.low == pytest.approx(max(low, 0.0), abs=0.02)
    assert found.high == pytest.approx(high, abs=0.02)


@pytest.mark.parametrize("temperature", [1.0, 3.0])
def test_the_interval_covers_the_truth(temperature: float) -> None:
    whole = planted(400_000, 3, seed=99, temperature=temperature)
    truth, inside = DemographicDisparity().evaluate(seen(whole)).value, 0
    for seed in range(100):
        said = planted(200, 3, seed=seed, temperature=temperature)
        found = DemographicDisparity().evaluate(seen(said))
        assert found.low is not None
        assert found.high is not None
        inside += found.low <= truth <= found.high
    assert inside >= 100 * wilson_interval(95, 100)[0]


# Refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize("labels", [[0, 0], [1, 1]])
def test_no_answer_with_an_empty_environment(labels: list[int]) -> None:
    said = Predictions.from_probs([[0.9, 0.1], [0.8, 0.2]], labels=labels)
    with pytest.raises(NotApplicable, match="one of the two environments is empty"):
        DemographicDisparity().evaluate(seen(said))


def test_no_answer_without_probabilities_or_labels() -> None:
    said = Predictions.from_classes([0, 1], k=2, labels=[0, 1])
    with pytest.raises(NotApplicable, match="can't be computed from classes alone"):
        DemographicDisparity().evaluate(seen(said))
    with pytest.raises(NotApplicable, match="it needs labels"):
        DemographicDisparity().evaluate(seen(planted(5, 3, seed=0).without_labels()))


def test_an_even_model_has_no_slopes() -> None:
    said = Predictions.from_probs(np.full((4, 3), 1 / 3), labels=[0, 1, 2, 0])
    assert (slopes_of(said) == 0).all()
    with pytest.raises(NotApplicable, match="empty"):
        DemographicDisparity().evaluate(seen(said))
