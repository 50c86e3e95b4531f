"""Expected metrics against scikit-learn on many draws of the labels."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from sklearn import metrics

from oodometer.assessment.cbpe import METRIC_NAMES, expected_metrics
from oodometer.core.array_types import Array
from oodometer.core.predictions import Predictions

DRAWS = 1500


def random_probs(seed: int, n: int, k: int, digits: int = 2) -> Array:
    """Return probabilities with ties."""
    probs = np.random.default_rng(seed).dirichlet(np.full(k, 0.8), size=n).round(digits)
    return np.asarray(probs / probs.sum(axis=1, keepdims=True))


def metric_of_labels(metric: str, probs: Array, j: int) -> Callable[[Array], float]:
    predicted = probs.argmax(axis=1) == j
    return {
        "precision": lambda y: metrics.precision_score(y == j, predicted, zero_division=0.0),
        "recall": lambda y: metrics.recall_score(y == j, predicted, zero_division=0.0),
        "f1": lambda y: metrics.f1_score(y == j, predicted, zero_division=0.0),
        "auroc": lambda y: metrics.roc_auc_score(y == j, probs[:, j]),
        "average_precision": lambda y: metrics.average_precision_score(y == j, probs[:, j]),
    }[metric]


@pytest.mark.parametrize("metric", METRIC_NAMES[1:])
@pytest.mark.parametrize("k", [2, 3])
def test_values_and_intervals_match_drawn_labels(metric: str, k: int) -> None:
    probs = random_probs(k, 150, k)
    results = {
        (result.metric, result.scope): result
        for result in expected_metrics(Predictions.from_probs(probs))
    }
    rng = np.random.default_rng(0)
    drawn = (rng.random((DRAWS, 150, 1)) > probs.cumsum(axis=1)[:, :-1]).sum(axis=2)
    values = np.array([metric_of_labels(metric, probs, 0)(labels) for labels in drawn])
    result = results[metric, "0"]
    assert result.value is not None
    assert result.low is not None
    assert result.high is not None
    assert result.value == pytest.approx(values.mean(), abs=0.15 * values.std() + 0.002)
    assert (result.high - result.low) / 3.92 == pytest.approx(values.std(), rel=0.12)


def test_one_hot_probabilities_give_perfect_metrics() -> None:
    rows = np.eye(3)[[0, 1, 2, 2, 1]]
    for result in expected_metrics(Predictions.from_probs(rows)):
        assert result.value == pytest.approx(1.0)
        assert result.low == pytest.approx(1.0)


def test_macro_is_the_mean_over_classes_with_a_value() -> None:
    probs = np.array([[0.6, 0.4, 0.0], [0.3, 0.7, 0.0]])
    results = {
        (result.metric, result.scope): result
        for result in expected_metrics(Predictions.from_probs(probs))
    }
    assert results["precision", "2"].value is None
    assert results["precision", "2"].reason == "this class is predicted for no row"
    assert results["precision", "macro"].value == pytest.approx(0.65)
    assert "1 classes without a value" in results["precision", "macro"].reason
    assert results["recall", "2"].reason == "no row is expected to have this class"
    assert results["auroc", "2"].value is None


def test_one_row_and_a_thousand_classes_are_accepted() -> None:
    results = expected_metrics(Predictions.from_probs([[0.7, 0.3]]))
    assert [result.value for result in results if result.scope == "all"] == [0.7]
    probs = np.random.default_rng(0).dirichlet(np.ones(1000), size=20)
    many = expected_metrics(Predictions.from_probs(probs))
    assert len(many) == 1 + 5 * 1001
    assert all(result.value is None or 0 <= result.value <= 1 for result in many)


def test_scopes_are_class_names() -> None:
    rows = Predictions.from_probs([[0.7, 0.3]], class_names=("ant", "bee"))
    assert {result.scope for result in expected_metrics(rows)} == {"all", "ant", "bee", "macro"}
