"""Expected metrics against scikit-learn, with drawn labels and with the labels of the source."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from sklearn import metrics

from oodometer.assessment._estimate import learn_source
from oodometer.assessment.bootstrap import LearnedSource
from oodometer.assessment.cbpe import METRIC_NAMES, expected_metrics
from oodometer.core.array_types import Array
from oodometer.core.calibration import (
    Calibration,
    CalibrationMethod,
    ClassCalibrator,
    IsotonicMap,
)
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


def imbalanced_rows(
    share: float, *, n: int = 20_000, calibrated: bool = True, decimals: int | None = None,
    threshold: float = 0.5, seed: int = 0,
) -> Predictions:  # fmt: skip
    """Return labelled predictions of two classes, of which the second has the given share."""
    rng = np.random.default_rng(seed)
    labels = rng.random(n) < share
    signal = 2 * rng.normal(size=n) + np.where(labels, 3.0, -1.0)
    log_odds = signal - 1 + np.log(share / (1 - share))
    if not calibrated:
        log_odds = 0.6 * np.sign(log_odds) * np.abs(log_odds) ** 1.5 + 0.7
    second = 1 / (1 + np.exp(-log_odds))
    if decimals is not None:
        second = second.round(decimals)
    probs = np.column_stack([1 - second, second])
    rows = Predictions.from_probs(probs.round(decimals or 9), labels=labels.astype(int))
    return rows if threshold == 0.5 else rows.decide(threshold)


def learn(source: Predictions, calibration: CalibrationMethod = "auto") -> LearnedSource:
    return learn_source(source, "fit", calibration, seed=0)[0]


@pytest.mark.parametrize(
    ("decimals", "threshold"),
    [(None, 0.5), (None, 0.3), (None, 0.8), (1, 0.5), (1, 0.3), (2, 0.3), (2, 0.8), (3, 0.8)],
)
@pytest.mark.parametrize("share", [0.01, 0.03, 0.1, 0.5])
@pytest.mark.parametrize("calibrated", [True, False])
def test_source_as_its_own_target_has_the_metrics_of_the_source(
    calibrated: bool, share: float, decimals: int | None, threshold: float
) -> None:
    rows = imbalanced_rows(
        share, calibrated=calibrated, decimals=decimals, threshold=threshold, seed=1
    )
    learned = learn(rows)
    results = expected_metrics(learned.predictions.without_labels(), learned)
    assert {result.metric for result in results} == set(METRIC_NAMES)
    for result in results:
        if result.value is None:
            assert result.source_value is None
            continue
        assert result.source_value is not None
        assert result.low is not None
        assert result.high is not None
        assert result.low - 1e-9 <= result.source_value <= result.high + 1e-9, result


@pytest.mark.parametrize("metric", METRIC_NAMES[1:])
def test_source_values_equal_scikit_learn(metric: str) -> None:
    rows = imbalanced_rows(0.1, n=3000, decimals=2, threshold=0.3, calibrated=False)
    learned = learn(rows)
    results = {(r.metric, r.scope): r for r in expected_metrics(learned.predictions, learned)}
    labels, score = rows.labels == 1, rows.probs[:, 1]
    decided = rows.classes == 1
    expected = {
        "precision": lambda: metrics.precision_score(labels, decided),
        "recall": lambda: metrics.recall_score(labels, decided),
        "f1": lambda: metrics.f1_score(labels, decided),
        "auroc": lambda: metrics.roc_auc_score(labels, score),
        "average_precision": lambda: metrics.average_precision_score(labels, score),
    }[metric]()
    assert results[metric, "1"].source_value == pytest.approx(expected)
    assert results["accuracy", "all"].source_value == pytest.approx((labels == decided).mean())


def test_intervals_contain_the_metrics_of_new_rows() -> None:
    """Of 40 pairs without shift, nearly all intervals contain the metric on the target rows."""
    hits: list[bool] = []
    for seed in range(40):
        calibrated = seed % 2 == 0
        source = imbalanced_rows(0.1, n=2000, calibrated=calibrated, seed=seed)
        target = imbalanced_rows(0.1, n=1000, calibrated=calibrated, seed=seed + 100)
        learned = learn(source)
        rows = target.without_labels().at_temperature(learned.temperature or 1.0)
        own = expected_metrics(rows, learn(target))
        for result, truth in zip(expected_metrics(rows, learned), own, strict=True):
            if result.scope in ("all", "1"):
                assert result.low is not None
                assert result.high is not None
                assert truth.source_value is not None
                hits.append(result.low <= truth.source_value <= result.high)
    assert len(hits) == 240
    assert np.mean(hits) >= 0.93


def test_miscalibration_on_the_predicted_rows_is_corrected() -> None:
    """Temperature scaling alone leaves the precision of a rare class far too high."""
    learned = learn(imbalanced_rows(0.03, calibrated=False), "temperature")
    rows = imbalanced_rows(0.03, calibrated=False, seed=9).at_temperature(learned.temperature or 1)
    plain = {(r.metric, r.scope): r for r in expected_metrics(rows)}["precision", "1"]
    corrected = {(r.metric, r.scope): r for r in expected_metrics(rows, learned)}["precision", "1"]
    truth = float(rows.correct[rows.classes == 1].mean())
    assert plain.low is not None
    assert corrected.low is not None
    assert corrected.high is not None
    assert plain.low > truth
    assert corrected.low <= truth <= corrected.high


def test_ranking_metrics_do_not_depend_on_the_calibration_of_the_ranks() -> None:
    """A constant calibration makes all rows equal; the uncalibrated scores still rank them."""
    source = imbalanced_rows(0.1, n=5000, calibrated=False)
    constant = IsotonicMap(np.array([0.5]), np.array([0.1]))
    calibration = Calibration("isotonic", ClassCalibrator((constant,)), source)
    learned = LearnedSource(source, 1.0, calibration)
    results = {(r.metric, r.scope): r for r in expected_metrics(source.without_labels(), learned)}
    expected = metrics.roc_auc_score(source.labels, source.probs[:, 1])
    assert expected > 0.8
    assert results["auroc", "1"].source_value == pytest.approx(expected)
    assert results["auroc", "1"].value == pytest.approx(expected, abs=0.03)


def test_isotonic_calibration_estimates_ranking_metrics_of_the_source() -> None:
    learned = learn(imbalanced_rows(0.1, n=5000, calibrated=False), "isotonic")
    rows = learned.predictions.without_labels()
    for result in expected_metrics(rows, learned, metrics=("auroc", "average_precision")):
        assert result.value == pytest.approx(result.source_value, abs=0.02)


def test_source_without_rows_of_a_segment_has_no_values() -> None:
    learned = learn(imbalanced_rows(0.1, n=2000))
    results = expected_metrics(
        learned.predictions, learned, source_rows=np.empty(0, dtype=np.int64), classes=(1,)
    )
    assert len(results) == len(METRIC_NAMES)
    assert all(result.source_value is None and result.value is not None for result in results)
