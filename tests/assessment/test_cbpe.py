"""Expected metrics against labels that were drawn many times, and scikit-learn."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from sklearn import metrics

from oodometer.assessment.cbpe import METRIC_NAMES, expected_metrics
from oodometer.core.array_types import Array
from oodometer.core.predictions import Predictions

DRAWS = 1500


def made(seed: int, n: int, k: int, digits: int = 2) -> Array:
    """Probabilities with ties."""
    probs = np.random.default_rng(seed).dirichlet(np.full(k, 0.8), size=n).round(digits)
    return np.asarray(probs / probs.sum(axis=1, keepdims=True))


def asked(metric: str, probs: Array, j: int) -> Callable[[Array], float]:
    called = probs.argmax(axis=1) == j
    return {
        "precision": lambda y: metrics.precision_score(y == j, called, zero_division=0.0),
        "recall": lambda y: metrics.recall_score(y == j, called, zero_division=0.0),
        "f1": lambda y: metrics.f1_score(y == j, called, zero_division=0.0),
        "auroc": lambda y: metrics.roc_auc_score(y == j, probs[:, j]),
        "average_precision": lambda y: metrics.average_precision_score(y == j, probs[:, j]),
    }[metric]


@pytest.mark.parametrize("metric", METRIC_NAMES[1:])
@pytest.mark.parametrize("k", [2, 3])
def test_values_and_intervals_are_those_of_drawn_labels(metric: str, k: int) -> None:
    probs = made(k, 150, k)
    found = {
        (one.metric, one.scope): one for one in expected_metrics(Predictions.from_probs(probs))
    }
    rng = np.random.default_rng(0)
    drawn = (rng.random((DRAWS, 150, 1)) > probs.cumsum(axis=1)[:, :-1]).sum(axis=2)
    values = np.array([asked(metric, probs, 0)(labels) for labels in drawn])
    one = found[metric, "0"]
    assert one.value is not None
    assert one.low is not None
    assert one.high is not None
    assert one.value == pytest.approx(values.mean(), abs=0.15 * values.std() + 0.002)
    assert (one.high - one.low) / 3.92 == pytest.approx(values.std(), rel=0.12)


def test_sure_answers_have_the_metrics_of_what_they_say() -> None:
    rows = np.eye(3)[[0, 1, 2, 2, 1]]
    for one in expected_metrics(Predictions.from_probs(rows)):
        assert one.value == pytest.approx(1.0)
        assert one.low == pytest.approx(1.0)


def test_macro_is_the_mean_over_classes_that_have_an_answer() -> None:
    probs = np.array([[0.6, 0.4, 0.0], [0.3, 0.7, 0.0]])
    found = {
        (one.metric, one.scope): one for one in expected_metrics(Predictions.from_probs(probs))
    }
    assert found["precision", "2"].value is None
    assert found["precision", "2"].reason == "no row is called this class"
    assert found["precision", "macro"].value == pytest.approx(0.65)
    assert "1 classes without an answer" in found["precision", "macro"].reason
    assert found["recall", "2"].reason == "no row is expected to be of this class"
    assert found["auroc", "2"].value is None


def test_one_row_and_a_thousand_classes_do() -> None:
    found = expected_metrics(Predictions.from_probs([[0.7, 0.3]]))
    assert [one.value for one in found if one.scope == "all"] == [0.7]
    probs = np.random.default_rng(0).dirichlet(np.ones(1000), size=20)
    many = expected_metrics(Predictions.from_probs(probs))
    assert len(many) == 1 + 5 * 1001
    assert all(one.value is None or 0 <= one.value <= 1 for one in many)


def test_they_have_the_names_of_classes() -> None:
    rows = Predictions.from_probs([[0.7, 0.3]], class_names=("ant", "bee"))
    assert {one.scope for one in expected_metrics(rows)} == {"all", "ant", "bee", "macro"}
