"""Error, likelihood and calibration error: explicit sums, scikit-learn, and intervals."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import log_loss

from oodometer.core import softmax_kernels
from oodometer.core.errors import InputError, NotApplicable
from oodometer.core.predictions import Predictions
from oodometer.core.protocols import Metric
from oodometer.core.stats import wilson_interval
from oodometer.metrics.basic import CalibrationError, Error, NegativeLogLikelihood, squash_nll
from oodometer.models.model_view import ModelView, ViewSource

METRICS: tuple[Metric, ...] = (Error(), NegativeLogLikelihood(), CalibrationError())


def view_of(outputs: Predictions, **settings: Any) -> ModelView:
    return ModelView(ViewSource("toy", outputs=outputs, **settings))


def random_outputs(n: int, k: int, *, seed: int, temperature: float = 1.0) -> Predictions:
    """Return logits with labels drawn at a temperature; at 1 the model is calibrated."""
    rng = np.random.default_rng(seed)
    logits = 1.5 * rng.normal(size=(n, k))
    cumulative = softmax_kernels.softmax(logits, "logits", temperature).cumsum(axis=1)
    return Predictions.from_logits(
        logits, labels=(rng.random((n, 1)) > cumulative[:, :-1]).sum(axis=1)
    )


# Explicit sums --------------------------------------------------------------------------------


BY_HAND = Predictions.from_probs(
    [[0.75, 0.25], [0.75, 0.25], [0.25, 0.75], [0.5, 0.5]], labels=[0, 1, 1, 0]
)


def test_error_matches_explicit_sum() -> None:
    score = Error().evaluate(view_of(BY_HAND))
    assert (score.value, (score.low, score.high)) == (0.25, wilson_interval(1, 4))


def test_error_of_classes_only() -> None:
    outputs = Predictions.from_classes(["a", "b"], class_names=["a", "b"], labels=["b", "b"])
    assert Error().evaluate(view_of(outputs)).value == 0.5


def test_nll_matches_explicit_sum() -> None:
    score = NegativeLogLikelihood().evaluate(view_of(BY_HAND))
    losses = [-math.log(p) for p in (0.75, 0.25, 0.75, 0.5)]
    mean = sum(losses) / 4
    half = 1.959964 * math.sqrt(sum((loss - mean) ** 2 for loss in losses) / 3 / 4)
    assert score.value == pytest.approx(mean)
    assert (score.low, score.high) == pytest.approx((mean - half, mean + half))
    assert score.facts["squashed"] == pytest.approx(10 * (1 - math.exp(-mean / 10)))
    assert score.notes == ()


def test_calibration_error_matches_explicit_sum() -> None:
    # Two bins: 0.75 three times, two of them correct; 0.5 once, correct.
    score = CalibrationError().evaluate(view_of(BY_HAND))
    assert score.value == pytest.approx(3 / 4 * abs(0.75 - 2 / 3) + 1 / 4 * 0.5)
    assert score.notes == ("biased upwards on few rows (fewer than 1,000); there are 4",)


def test_zero_label_probability_is_clipped_with_a_note() -> None:
    outputs = Predictions.from_probs([[1.0, 0.0], [1.0, 0.0]], labels=[1, 0])
    score = NegativeLogLikelihood().evaluate(view_of(outputs))
    assert score.value == pytest.approx(-math.log(1e-12) / 2)
    assert score.notes == ("the label probability of 1 rows was raised to 1e-12",)


def test_one_row_has_no_interval() -> None:
    outputs = Predictions.from_probs([[0.6, 0.4]], labels=[0])
    for metric in (NegativeLogLikelihood(), CalibrationError()):
        score = metric.evaluate(view_of(outputs))
        assert score.low is None
        assert score.notes[-1].startswith("all bootstrap replicates are equal")


def test_squashed_nll_is_close_to_small_values_and_below_ten() -> None:
    assert squash_nll(0.01) == pytest.approx(0.01, rel=1e-3)
    values = [float(squash_nll(x)) for x in (0.0, 0.5, 3.0, 30.0, 300.0)]
    assert values == sorted(values)
    assert values[-1] <= 10.0


# Other libraries -----------------------------------------------------------------------------


@given(st.integers(0, 2**32 - 1), st.integers(1, 60), st.integers(2, 7))
def test_error_and_nll_match_scikit_learn(seed: int, n: int, k: int) -> None:
    outputs = random_outputs(n, k, seed=seed)
    assert outputs.labels is not None
    assert Error().evaluate(view_of(outputs)).value == pytest.approx(1 - outputs.correct.mean())
    expected = log_loss(outputs.labels, outputs.probs, labels=range(k))
    assert NegativeLogLikelihood().evaluate(view_of(outputs)).value == pytest.approx(expected)


@given(st.integers(0, 2**32 - 1), st.integers(1, 60), st.integers(1, 12))
def test_calibration_error_matches_a_loop_over_bins(seed: int, n: int, bins: int) -> None:
    outputs = random_outputs(n, 3, seed=seed)
    total = 0.0
    for b in range(bins):
        last = b == bins - 1
        inside = [b <= c * bins and (c * bins < b + 1 or last) for c in outputs.confidence]
        total += abs(outputs.confidence[inside].sum() - outputs.correct[inside].sum()) / n
    assert CalibrationError(bins).evaluate(view_of(outputs)).value == pytest.approx(total)


# Intervals -----------------------------------------------------------------------------------


def test_ece_interval_matches_a_bootstrap_of_rows() -> None:
    """Resampling counts per thousandth of confidence matches resampling rows."""
    outputs = random_outputs(3000, 3, seed=1, temperature=2.0)
    score = CalibrationError().evaluate(view_of(outputs))
    rng = np.random.default_rng(0)
    bins = np.minimum((outputs.confidence * 10).astype(int), 9)
    gaps = outputs.confidence - outputs.correct
    parts = np.bincount(bins, gaps, minlength=10) / 3000
    above, below = [], []
    for _ in range(1000):
        index = rng.integers(0, 3000, 3000)
        errors = np.bincount(bins[index], gaps[index], minlength=10) / 3000 - parts
        above.append(np.abs(errors).sum())
        below.append(-(errors @ np.sign(parts)))
    assert score.low == pytest.approx(score.value - np.quantile(above, 0.975), abs=0.004)
    assert score.high == pytest.approx(score.value + np.quantile(below, 0.975), abs=0.004)


@pytest.mark.parametrize("temperature", [1.0, 2.0])
def test_intervals_cover_the_truth(temperature: float) -> None:
    population = random_outputs(400_000, 3, seed=99, temperature=temperature)
    for metric in METRICS:
        truth, inside = metric.evaluate(view_of(population)).value, 0
        if temperature == 1.0 and metric.name == "ece":
            truth = 0.0  # a finite sample overestimates it
        for seed in range(100):
            score = metric.evaluate(
                view_of(random_outputs(300, 3, seed=seed, temperature=temperature))
            )
            assert score.low is not None
            assert score.high is not None
            assert score.low <= score.value <= score.high
            inside += score.low <= truth <= score.high
        assert inside >= 100 * wilson_interval(95, 100)[0], metric.name


@given(st.integers(0, 2**32 - 1))
def test_row_order_does_not_matter(seed: int) -> None:
    outputs = random_outputs(50, 3, seed=seed)
    order = np.random.default_rng(seed).permutation(50)
    for metric in METRICS:
        first, second = (
            metric.evaluate(view_of(outputs)),
            metric.evaluate(view_of(outputs.rows(order))),
        )
        assert (first.value, first.low, first.high) == pytest.approx(
            (second.value, second.low, second.high)
        )


def test_interval_depends_on_the_seed_only() -> None:
    outputs = random_outputs(200, 3, seed=0)
    first, repeated, second = (
        CalibrationError().evaluate(view_of(outputs, seed=seed)) for seed in (0, 0, 1)
    )
    assert first == repeated
    assert first.value == second.value
    assert first.high != second.high


def test_temperature_changes_the_calibration_error() -> None:
    outputs = random_outputs(200, 3, seed=0)
    assert (
        CalibrationError().evaluate(view_of(outputs.at_temperature(5.0))).value
        != CalibrationError().evaluate(view_of(outputs)).value
    )


# Errors --------------------------------------------------------------------------------------


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_labels_are_required(metric: Metric) -> None:
    with pytest.raises(NotApplicable, match="it needs labels: 'toy' has no labels"):
        metric.evaluate(view_of(random_outputs(5, 3, seed=0).without_labels()))
    with pytest.raises(NotApplicable, match="it needs labels"):
        metric.evaluate(view_of(random_outputs(5, 3, seed=0), labelled=False))


def test_probabilities_are_required() -> None:
    outputs = Predictions.from_classes([0, 1], k=2, labels=[0, 1])
    for metric in (NegativeLogLikelihood(), CalibrationError()):
        with pytest.raises(NotApplicable, match="cannot be computed from classes alone"):
            metric.evaluate(view_of(outputs))


def test_invalid_bins_raise() -> None:
    with pytest.raises(InputError, match=r"bins must be at least 1; got 0\."):
        CalibrationError(bins=0)
