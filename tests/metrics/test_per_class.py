"""F1, balanced accuracy and AUROC: explicit counts, scikit-learn, and intervals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import f1_score, recall_score, roc_auc_score

from oodometer.core import softmax_kernels
from oodometer.core.array_types import Floats
from oodometer.core.errors import NotApplicable
from oodometer.core.predictions import Predictions
from oodometer.core.protocols import Metric
from oodometer.core.stats import auroc, wilson_interval
from oodometer.metrics import per_class
from oodometer.metrics.per_class import F1, Auroc, BalancedAccuracy, win_shares
from oodometer.models.model_view import ModelView, ViewSource

METRICS: tuple[Metric, ...] = (F1(), BalancedAccuracy(), Auroc())


def view_of(outputs: Predictions, **settings: Any) -> ModelView:
    return ModelView(ViewSource("toy", outputs=outputs, **settings))


def random_outputs(n: int, k: int, *, seed: int, sharp: float = 1.0) -> Predictions:
    """Return logits with labels drawn from their softmax; low classes are more frequent."""
    rng = np.random.default_rng(seed)
    logits = sharp * (1.5 * rng.normal(size=(n, k)) - 0.4 * np.arange(k))
    cumulative = softmax_kernels.softmax(logits, "logits").cumsum(axis=1)
    labels = (rng.random((n, 1)) > cumulative[:, :-1]).sum(axis=1)
    return Predictions.from_logits(logits, labels=labels)


# Explicit counts ------------------------------------------------------------------------------


def test_values_match_explicit_counts() -> None:
    probs = [[0.8, 0.1, 0.1], [0.6, 0.3, 0.1], [0.5, 0.4, 0.1], [0.2, 0.7, 0.1]]
    names = ["ant", "bee", "cat"]
    outputs = Predictions.from_probs(probs, labels=[0, 1, 0, 1], class_names=names)
    notes = (
        "1 of 3 classes have no rows and are left out",
        "2 of 3 classes have fewer than 10 rows, so the value is rough",
    )
    f1, accuracy, area = (metric.evaluate(view_of(outputs)) for metric in METRICS)
    # Of the predictions 0 0 0 1, both ants and one of the bees are correct.
    assert f1.by_class == {"ant": 4 / 5, "bee": 2 / 3}
    assert f1.value == pytest.approx((4 / 5 + 2 / 3) / 2)
    assert accuracy.by_class == {"ant": 1.0, "bee": 0.5}
    assert accuracy.value == 0.75
    # Class ant: 0.8 and 0.5 against 0.6 and 0.2, three of four pairs in order. Class bee: 0.3 and
    # 0.7 against 0.1 and 0.4, also three.
    assert area.by_class == {"ant": 0.75, "bee": 0.75}
    assert area.value == 0.75
    assert f1.notes == accuracy.notes == area.notes == notes


def test_class_without_hits_counts_as_zero() -> None:
    outputs = Predictions.from_classes([0, 0, 0], k=3, labels=[0, 0, 2])
    assert F1().evaluate(view_of(outputs)).by_class == {"0": 0.8, "2": 0.0}
    assert BalancedAccuracy().evaluate(view_of(outputs)).by_class == {"0": 1.0, "2": 0.0}


def test_perfect_predictions_have_no_interval() -> None:
    labels = [0, 1] * 10
    outputs = Predictions.from_probs(np.eye(2)[labels] * 0.8 + 0.1, labels=labels)
    for metric in METRICS:
        score = metric.evaluate(view_of(outputs))
        assert (score.value, score.low) == (1.0, None)
        assert score.notes == ("all bootstrap replicates are equal, so there is no interval",)


# scikit-learn --------------------------------------------------------------------------------


@given(st.integers(0, 2**32 - 1), st.integers(2, 60), st.integers(2, 7))
def test_values_match_scikit_learn(seed: int, n: int, k: int) -> None:
    outputs = random_outputs(n, k, seed=seed)
    labels = outputs.labels
    assert labels is not None
    present = np.unique(labels)
    settings = {"labels": present, "average": None, "zero_division": 0.0}
    for metric, oracle in ((F1(), f1_score), (BalancedAccuracy(), recall_score)):
        score, expected = (
            metric.evaluate(view_of(outputs)),
            oracle(labels, outputs.classes, **settings),
        )
        assert list(score.by_class) == [str(j) for j in present]
        assert list(score.by_class.values()) == pytest.approx(expected)
        assert score.value == pytest.approx(expected.mean())
    if len(present) == 1:
        return
    areas = [roc_auc_score(labels == j, outputs.probs[:, j]) for j in present]
    area = Auroc().evaluate(view_of(outputs))
    assert list(area.by_class.values()) == pytest.approx(areas)
    assert area.value == pytest.approx(np.mean(areas))


@given(st.integers(0, 2**32 - 1), st.integers(2, 40))
def test_win_shares_count_pairs(seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    scores, positive = rng.integers(0, 5, n) / 4, rng.random(n) < 0.5
    positive[:2] = True, False
    wins = win_shares(scores, positive)
    for i in range(n):
        others = scores[positive != positive[i]]
        ahead = scores[i] > others if positive[i] else scores[i] < others
        assert wins[i] == pytest.approx(np.mean(ahead + 0.5 * (scores[i] == others)))
    area = auroc(scores, positive)
    assert wins[positive].mean() == pytest.approx(area)
    assert wins[~positive].mean() == pytest.approx(area)


# Intervals -----------------------------------------------------------------------------------


def replicates(metric: Metric, outputs: Predictions, count: int) -> Floats:
    """Return the metric on bootstrap samples of the rows."""
    rng = np.random.default_rng(0)
    draws = (outputs.rows(rng.integers(0, outputs.n, outputs.n)) for _ in range(count))
    return np.array([metric.evaluate(view_of(resampled)).value for resampled in draws])


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_interval_matches_a_bootstrap_of_rows(metric: Metric) -> None:
    outputs = random_outputs(400, 4, seed=3)
    score = metric.evaluate(view_of(outputs))
    low, high = np.quantile(replicates(metric, outputs, 300), (0.025, 0.975))
    width = high - low
    assert score.low == pytest.approx(low, abs=0.2 * width)
    assert score.high == pytest.approx(high, abs=0.2 * width)


def test_memory_limit_does_not_change_the_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    outputs = random_outputs(100, 4, seed=0)
    at_once = F1().evaluate(view_of(outputs))
    monkeypatch.setattr(per_class, "MAX_HELD_COUNTS", 100)
    assert F1().evaluate(view_of(outputs)) == at_once


@pytest.mark.parametrize(("n", "sharp"), [(300, 1.0), (100, 5.0)])
def test_intervals_cover_the_truth(n: int, sharp: float) -> None:
    population = random_outputs(400_000, 3, seed=99, sharp=sharp)
    for metric in METRICS:
        truth, inside = metric.evaluate(view_of(population)).value, 0
        for seed in range(100):
            score = metric.evaluate(view_of(random_outputs(n, 3, seed=seed, sharp=sharp)))
            assert score.low is not None
            assert score.high is not None
            inside += score.low <= truth <= score.high
        assert inside >= 100 * wilson_interval(95, 100)[0], metric.name


# Invariances ---------------------------------------------------------------------------------


@given(st.integers(0, 2**32 - 1))
def test_row_and_class_order_do_not_matter(seed: int) -> None:
    rng = np.random.default_rng(seed)
    outputs = random_outputs(40, 3, seed=seed)
    names = ("ant", "bee", "cat")
    outputs = Predictions.from_logits(outputs.scores, labels=outputs.labels, class_names=names)
    permuted = outputs.rows(rng.permutation(40))
    reordered = outputs.reorder_classes(("cat", "ant", "bee"))
    for metric in METRICS:
        original, other, third = (
            metric.evaluate(view_of(each)) for each in (outputs, permuted, reordered)
        )
        assert (original.value, original.low, original.high) == pytest.approx(
            (other.value, other.low, other.high)
        )
        assert original.by_class == pytest.approx(dict(third.by_class))
        assert original.value == pytest.approx(third.value)


def test_interval_depends_on_the_seed() -> None:
    outputs = random_outputs(200, 3, seed=0)
    for metric in (F1(), BalancedAccuracy()):
        original, repeated, other = (
            metric.evaluate(view_of(outputs, seed=seed)) for seed in (0, 0, 1)
        )
        assert original == repeated
        assert (original.low, original.high) != (other.low, other.high)


# Errors --------------------------------------------------------------------------------------


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_labels_are_required(metric: Metric) -> None:
    with pytest.raises(NotApplicable, match="it needs labels: 'toy' has no labels"):
        metric.evaluate(view_of(random_outputs(5, 3, seed=0).without_labels()))


def test_auroc_needs_probabilities_and_two_classes() -> None:
    outputs = Predictions.from_classes([0, 1], k=2, labels=[0, 1])
    with pytest.raises(NotApplicable, match="cannot be computed from classes alone"):
        Auroc().evaluate(view_of(outputs))
    outputs = Predictions.from_probs([[0.9, 0.1], [0.6, 0.4]], labels=[0, 0])
    with pytest.raises(
        NotApplicable, match="all rows have the same label, and it compares rows of two classes"
    ):
        Auroc().evaluate(view_of(outputs))
