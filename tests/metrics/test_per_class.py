"""F1, balanced accuracy and AUROC: by hand, against scikit-learn, and their intervals."""

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


def seen(outputs: Predictions, **settings: Any) -> ModelView:
    return ModelView(ViewSource("toy", outputs=outputs, **settings))


def planted(n: int, k: int, *, seed: int, sharp: float = 1.0) -> Predictions:
    """Logits, and labels drawn from their softmax; the first classes are the more frequent."""
    rng = np.random.default_rng(seed)
    logits = sharp * (1.5 * rng.normal(size=(n, k)) - 0.4 * np.arange(k))
    chances = softmax_kernels.softmax(logits, "logits").cumsum(axis=1)
    labels = (rng.random((n, 1)) > chances[:, :-1]).sum(axis=1)
    return Predictions.from_logits(logits, labels=labels)


# By hand --------------------------------------------------------------------------------------


def test_by_hand() -> None:
    probs = [[0.8, 0.1, 0.1], [0.6, 0.3, 0.1], [0.5, 0.4, 0.1], [0.2, 0.7, 0.1]]
    names = ["ant", "bee", "cat"]
    said = Predictions.from_probs(probs, labels=[0, 1, 0, 1], class_names=names)
    notes = (
        "1 of 3 classes are left out, for no row is of them",
        "2 of 3 classes have fewer than 10 rows, so this is rough",
    )
    f1, accuracy, area = (metric.evaluate(seen(said)) for metric in METRICS)
    # Of the decisions 0 0 0 1, both ants and one of the bees are right.
    assert f1.by_class == {"ant": 4 / 5, "bee": 2 / 3}
    assert f1.value == pytest.approx((4 / 5 + 2 / 3) / 2)
    assert accuracy.by_class == {"ant": 1.0, "bee": 0.5}
    assert accuracy.value == 0.75
    # Ants have 0.8 and 0.5, bees 0.6 and 0.2: three of four pairs are in order. Bees' own
    # probability, 0.3 and 0.7 against 0.1 and 0.4, too.
    assert area.by_class == {"ant": 0.75, "bee": 0.75}
    assert area.value == 0.75
    assert f1.notes == accuracy.notes == area.notes == notes


def test_a_class_never_found_counts_as_zero() -> None:
    said = Predictions.from_classes([0, 0, 0], k=3, labels=[0, 0, 2])
    assert F1().evaluate(seen(said)).by_class == {"0": 0.8, "2": 0.0}
    assert BalancedAccuracy().evaluate(seen(said)).by_class == {"0": 1.0, "2": 0.0}


def test_no_row_is_wrong() -> None:
    labels = [0, 1] * 10
    said = Predictions.from_probs(np.eye(2)[labels] * 0.8 + 0.1, labels=labels)
    for metric in METRICS:
        found = metric.evaluate(seen(said))
        assert (found.value, found.low) == (1.0, None)
        assert found.notes == ("all bootstrap replicates are equal, so there is no interval",)


# Against others ------------------------------------------------------------------------------


@given(st.integers(0, 2**32 - 1), st.integers(2, 60), st.integers(2, 7))
def test_as_scikit_learn_computes_it(seed: int, n: int, k: int) -> None:
    said = planted(n, k, seed=seed)
    labels = said.labels
    assert labels is not None
    present = np.unique(labels)
    settings = {"labels": present, "average": None, "zero_division": 0.0}
    for metric, oracle in ((F1(), f1_score), (BalancedAccuracy(), recall_score)):
        found, theirs = metric.evaluate(seen(said)), oracle(labels, said.classes, **settings)
        assert list(found.by_class) == [str(j) for j in present]
        assert list(found.by_class.values()) == pytest.approx(theirs)
        assert found.value == pytest.approx(theirs.mean())
    if len(present) == 1:
        return
    areas = [roc_auc_score(labels == j, said.probs[:, j]) for j in present]
    area = Auroc().evaluate(seen(said))
    assert list(area.by_class.values()) == pytest.approx(areas)
    assert area.value == pytest.approx(np.mean(areas))


@given(st.integers(0, 2**32 - 1), st.integers(2, 40))
def test_winning_counts_pairs(seed: int, n: int) -> None:
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


def replicates(metric: Metric, said: Predictions, count: int) -> Floats:
    """The metric of rows drawn again, one by one."""
    rng = np.random.default_rng(0)
    draws = (said.rows(rng.integers(0, said.n, said.n)) for _ in range(count))
    return np.array([metric.evaluate(seen(again)).value for again in draws])


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_the_interval_is_that_of_rows_drawn_one_by_one(metric: Metric) -> None:
    said = planted(400, 4, seed=3)
    found = metric.evaluate(seen(said))
    low, high = np.quantile(replicates(metric, said, 300), (0.025, 0.975))
    width = high - low
    assert found.low == pytest.approx(low, abs=0.2 * width)
    assert found.high == pytest.approx(high, abs=0.2 * width)


def test_replicates_held_at_once_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    said = planted(100, 4, seed=0)
    at_once = F1().evaluate(seen(said))
    monkeypatch.setattr(per_class, "MAX_HELD_COUNTS", 100)
    assert F1().evaluate(seen(said)) == at_once


@pytest.mark.parametrize(("n", "sharp"), [(300, 1.0), (100, 5.0)])
def test_intervals_cover_the_truth(n: int, sharp: float) -> None:
    whole = planted(400_000, 3, seed=99, sharp=sharp)
    for metric in METRICS:
        truth, inside = metric.evaluate(seen(whole)).value, 0
        for seed in range(100):
            found = metric.evaluate(seen(planted(n, 3, seed=seed, sharp=sharp)))
            assert found.low is not None
            assert found.high is not None
            inside += found.low <= truth <= found.high
        assert inside >= 100 * wilson_interval(95, 100)[0], metric.name


# Laws ----------------------------------------------------------------------------------------


@given(st.integers(0, 2**32 - 1))
def test_neither_the_order_of_rows_nor_of_classes_changes_the_mean(seed: int) -> None:
    rng = np.random.default_rng(seed)
    said = planted(40, 3, seed=seed)
    names = ("ant", "bee", "cat")
    said = Predictions.from_logits(said.scores, labels=said.labels, class_names=names)
    mixed = said.rows(rng.permutation(40))
    turned = said.reorder_classes(("cat", "ant", "bee"))
    for metric in METRICS:
        one, other, third = (metric.evaluate(seen(each)) for each in (said, mixed, turned))
        assert (one.value, one.low, one.high) == pytest.approx((other.value, other.low, other.high))
        assert one.by_class == pytest.approx(dict(third.by_class))
        assert one.value == pytest.approx(third.value)


def test_a_seed_gives_the_same_interval_and_another_seed_another() -> None:
    said = planted(200, 3, seed=0)
    for metric in (F1(), BalancedAccuracy()):
        one, same, other = (metric.evaluate(seen(said, seed=seed)) for seed in (0, 0, 1))
        assert one == same
        assert (one.low, one.high) != (other.low, other.high)


# Refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_no_answer_without_labels(metric: Metric) -> None:
    with pytest.raises(NotApplicable, match="it needs labels: 'toy' has no labels"):
        metric.evaluate(seen(planted(5, 3, seed=0).without_labels()))


def test_auroc_needs_probabilities_and_two_classes() -> None:
    said = Predictions.from_classes([0, 1], k=2, labels=[0, 1])
    with pytest.raises(NotApplicable, match="can't be computed from classes alone"):
        Auroc().evaluate(seen(said))
    said = Predictions.from_probs([[0.9, 0.1], [0.6, 0.4]], labels=[0, 0])
    with pytest.raises(
        NotApplicable, match="all rows are of one class, and rows of two are compared"
    ):
        Auroc().evaluate(seen(said))
