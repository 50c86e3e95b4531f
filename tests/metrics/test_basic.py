"""Error, likelihood and calibration error: by hand, against scikit-learn, and their intervals."""

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


def seen(outputs: Predictions, **settings: Any) -> ModelView:
    return ModelView(ViewSource("toy", outputs=outputs, **settings))


def planted(n: int, k: int, *, seed: int, temperature: float = 1.0) -> Predictions:
    """Logits whose labels were drawn at a temperature: at 1 they are calibrated."""
    rng = np.random.default_rng(seed)
    logits = 1.5 * rng.normal(size=(n, k))
    chances = softmax_kernels.softmax(logits, "logits", temperature).cumsum(axis=1)
    return Predictions.from_logits(
        logits, labels=(rng.random((n, 1)) > chances[:, :-1]).sum(axis=1)
    )


# By hand --------------------------------------------------------------------------------------


BY_HAND = Predictions.from_probs(
    [[0.75, 0.25], [0.75, 0.25], [0.25, 0.75], [0.5, 0.5]], labels=[0, 1, 1, 0]
)


def test_error_by_hand() -> None:
    found = Error().evaluate(seen(BY_HAND))
    assert (found.value, (found.low, found.high)) == (0.25, wilson_interval(1, 4))


def test_error_of_classes_alone() -> None:
    said = Predictions.from_classes(["a", "b"], class_names=["a", "b"], labels=["b", "b"])
    assert Error().evaluate(seen(said)).value == 0.5


def test_likelihood_by_hand() -> None:
    found = NegativeLogLikelihood().evaluate(seen(BY_HAND))
    losses = [-math.log(p) for p in (0.75, 0.25, 0.75, 0.5)]
    mean = sum(losses) / 4
    half = 1.959964 * math.sqrt(sum((loss - mean) ** 2 for loss in losses) / 3 / 4)
    assert found.value == pytest.approx(mean)
    assert (found.low, found.high) == pytest.approx((mean - half, mean + half))
    assert found.facts["squashed"] == pytest.approx(10 * (1 - math.exp(-mean / 10)))
    assert found.notes == ()


def test_calibration_error_by_hand() -> None:
    # Two bins: 0.75 three times, two of them right; 0.5 once, right.
    found = CalibrationError().evaluate(seen(BY_HAND))
    assert found.value == pytest.approx(3 / 4 * abs(0.75 - 2 / 3) + 1 / 4 * 0.5)
    assert found.notes == ("it comes out too high on few rows, and there are 4",)


def test_an_impossible_label_is_floored_and_told_of() -> None:
    said = Predictions.from_probs([[1.0, 0.0], [1.0, 0.0]], labels=[1, 0])
    found = NegativeLogLikelihood().evaluate(seen(said))
    assert found.value == pytest.approx(-math.log(1e-12) / 2)
    assert found.notes == ("the labels of 1 rows are less likely than 1e-12, and taken for that",)


def test_one_row_has_no_interval() -> None:
    said = Predictions.from_probs([[0.6, 0.4]], labels=[0])
    for metric in (NegativeLogLikelihood(), CalibrationError()):
        found = metric.evaluate(seen(said))
        assert found.low is None
        assert found.notes[-1].startswith("all bootstrap replicates are equal")


def test_squashed_is_near_the_value_and_below_ten() -> None:
    assert squash_nll(0.01) == pytest.approx(0.01, rel=1e-3)
    values = [squash_nll(x) for x in (0.0, 0.5, 3.0, 30.0, 300.0)]
    assert values == sorted(values)
    assert values[-1] <= 10.0


# Against others ------------------------------------------------------------------------------


@given(st.integers(0, 2**32 - 1), st.integers(1, 60), st.integers(2, 7))
def test_as_others_compute_it(seed: int, n: int, k: int) -> None:
    said = planted(n, k, seed=seed)
    assert said.labels is not None
    assert Error().evaluate(seen(said)).value == pytest.approx(1 - said.correct.mean())
    theirs = log_loss(said.labels, said.probs, labels=range(k))
    assert NegativeLogLikelihood().evaluate(seen(said)).value == pytest.approx(theirs)


@given(st.integers(0, 2**32 - 1), st.integers(1, 60), st.integers(1, 12))
def test_calibration_error_is_that_of_a_loop_over_bins(seed: int, n: int, bins: int) -> None:
    said = planted(n, 3, seed=seed)
    total = 0.0
    for b in range(bins):
        last = b == bins - 1
        inside = [b <= c * bins and (c * bins < b + 1 or last) for c in said.confidence]
        total += abs(said.confidence[inside].sum() - said.correct[inside].sum()) / n
    assert CalibrationError(bins).evaluate(seen(said)).value == pytest.approx(total)


# Intervals -----------------------------------------------------------------------------------


def test_the_interval_of_ece_is_that_of_rows_drawn_one_by_one() -> None:
    """Rows are counted by a thousandth of confidence; drawing each by itself gives the same."""
    said = planted(3000, 3, seed=1, temperature=2.0)
    found = CalibrationError().evaluate(seen(said))
    rng = np.random.default_rng(0)
    bins = np.minimum((said.confidence * 10).astype(int), 9)
    gaps = said.confidence - said.correct
    parts = np.bincount(bins, gaps, minlength=10) / 3000
    above, below = [], []
    for _ in range(1000):
        again = rng.integers(0, 3000, 3000)
        errors = np.bincount(bins[again], gaps[again], minlength=10) / 3000 - parts
        above.append(np.abs(errors).sum())
        below.append(-(errors @ np.sign(parts)))
    assert found.low == pytest.approx(found.value - np.quantile(above, 0.975), abs=0.004)
    assert found.high == pytest.approx(found.value + np.quantile(below, 0.975), abs=0.004)


@pytest.mark.parametrize("temperature", [1.0, 2.0])
def test_intervals_cover_the_truth(temperature: float) -> None:
    whole = planted(400_000, 3, seed=99, temperature=temperature)
    for metric in METRICS:
        truth, inside = metric.evaluate(seen(whole)).value, 0
        if temperature == 1.0 and metric.name == "ece":
            truth = 0.0  # what chance leaves of it in any sample is not the truth
        for seed in range(100):
            found = metric.evaluate(seen(planted(300, 3, seed=seed, temperature=temperature)))
            assert found.low is not None
            assert found.high is not None
            assert found.low <= found.value <= found.high
            inside += found.low <= truth <= found.high
        assert inside >= 100 * wilson_interval(95, 100)[0], metric.name


@given(st.integers(0, 2**32 - 1))
def test_row_order_changes_nothing(seed: int) -> None:
    said = planted(50, 3, seed=seed)
    order = np.random.default_rng(seed).permutation(50)
    for metric in METRICS:
        one, other = metric.evaluate(seen(said)), metric.evaluate(seen(said.rows(order)))
        assert (one.value, one.low, one.high) == pytest.approx((other.value, other.low, other.high))


def test_a_seed_gives_the_same_interval_and_another_seed_another() -> None:
    said = planted(200, 3, seed=0)
    one, same, other = (CalibrationError().evaluate(seen(said, seed=seed)) for seed in (0, 0, 1))
    assert one == same
    assert one.value == other.value
    assert one.high != other.high


def test_temperature_counts() -> None:
    said = planted(200, 3, seed=0)
    assert (
        CalibrationError().evaluate(seen(said.at_temperature(5.0))).value
        != CalibrationError().evaluate(seen(said)).value
    )


# Refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_no_answer_without_labels(metric: Metric) -> None:
    with pytest.raises(NotApplicable, match="it needs labels: 'toy' has no labels"):
        metric.evaluate(seen(planted(5, 3, seed=0).without_labels()))
    with pytest.raises(NotApplicable, match="it needs labels"):
        metric.evaluate(seen(planted(5, 3, seed=0), labelled=False))


def test_no_answer_of_classes_alone() -> None:
    said = Predictions.from_classes([0, 1], k=2, labels=[0, 1])
    for metric in (NegativeLogLikelihood(), CalibrationError()):
        with pytest.raises(NotApplicable, match="can't be computed from classes alone"):
            metric.evaluate(seen(said))


def test_bins_are_counted_from_one() -> None:
    with pytest.raises(InputError, match=r"bins must be 1 or more; got 0\. 10 is usual\."):
        CalibrationError(bins=0)
