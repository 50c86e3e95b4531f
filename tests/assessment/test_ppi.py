"""PPI++ against its formulas, and the coverage of its intervals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from oodometer.assessment.ppi import (
    MIN_LABELS,
    N_BINS,
    best_weight,
    expected_correctness,
    labelled_rows,
    ppi_estimate,
    ppi_from_labels,
)
from oodometer.core.errors import InputError
from oodometer.core.predictions import Predictions
from oodometer.core.stats import wilson_interval
from oodometer.testing import toy_predictions


def test_weight_matches_the_formula() -> None:
    rng = np.random.default_rng(0)
    scores = rng.random(50)
    correct = (rng.random(50) < scores).astype(float)
    literal = np.cov(correct, scores)[0, 1] / ((1 + 50 / 400) * np.var(scores, ddof=1))
    assert best_weight(correct, scores, 400) == pytest.approx(literal)
    assert best_weight(correct, np.full(50, 0.3), 400) == 0.0


def test_wilson_interval_with_few_labels_or_constant_correctness() -> None:
    rng = np.random.default_rng(0)
    for correct in (np.arange(MIN_LABELS - 1) % 3 > 0, np.ones(200, dtype=bool)):
        result = ppi_estimate(correct, np.ones(len(correct)), np.ones(500), rng=rng)
        assert result.method == "wilson"
        assert (result.low, result.high) == wilson_interval(int(correct.sum()), len(correct))


@pytest.mark.parametrize("n", [30, 100, 400])
@pytest.mark.parametrize("informativeness", [0.0, 1.0])
def test_intervals_have_nominal_coverage(n: int, informativeness: float) -> None:
    """Coverage holds for informative and uninformative scores, both biased by 0.2."""
    rng = np.random.default_rng(n)
    hits, widths, trials = 0, [], 600
    for _ in range(trials):
        accuracy = rng.beta(2, 1, size=n + 3000)
        correct = rng.random(n + 3000) < accuracy
        scores = np.clip(
            informativeness * accuracy + (1 - informativeness) * rng.random(n + 3000) + 0.2, 0, 1
        )
        result = ppi_estimate(correct[:n], scores[:n], scores[n:], rng=rng)
        hits += result.low <= 2 / 3 <= result.high
        widths.append(result.label_savings)
    assert 0.925 <= hits / trials <= 0.975
    assert np.mean(widths) > 0.1 if informativeness else abs(np.mean(widths)) < 0.12


def test_labels_and_scores_must_have_equal_lengths() -> None:
    with pytest.raises(InputError, match="There are 2 labels and 3 scores"):
        ppi_estimate(np.ones(2, bool), np.ones(3), np.ones(9), rng=np.random.default_rng(0))
    with pytest.raises(InputError, match="at least one"):
        ppi_estimate(np.ones(0, bool), np.ones(0), np.ones(9), rng=np.random.default_rng(0))


def test_all_kinds_of_blanks_and_class_names_are_accepted() -> None:
    probs = [[0.9, 0.1], [0.2, 0.8], [0.6, 0.4], [0.3, 0.7]]
    plain = Predictions.from_probs(probs)
    named = Predictions.from_probs(probs, class_names=("ant", "bee"))
    for labels, target in (
        ([0, None, 1, float("nan")], plain),
        (np.array([0.0, np.nan, 1.0, np.nan]), plain),
        (["ant", "", "bee", None], named),
        (([0, 2], ["ant", "bee"]), named),
    ):
        rows, correct = labelled_rows(labels, target)
        assert (rows.tolist(), correct.tolist()) == ([0, 2], [True, False])
    known = Predictions.from_probs(probs, labels=[0, 1, 0, 1])
    assert ppi_from_labels(known, plain, [None] * 4, 0) is None


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (([0, 0], [1, 1]), "Row 0 has more than one label"),
        (([0, 9], [1, 1]), "labelled rows must be at least 0 and at most 3; got 9"),
        (([0.5], [1]), "must be integers"),
        (([0, 1], [1]), "labels of the target"),
        ([0, None], "labels of the target"),
        ([7, None, None, None], "must be between 0 and 1"),
    ],
)
def test_invalid_labels_are_rejected(labels: Any, message: str) -> None:
    target = Predictions.from_probs([[0.9, 0.1]] * 4)
    with pytest.raises(InputError, match=message):
        labelled_rows(labels, target)


def test_predictions_without_scores_are_accepted() -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 500)
    predicted = np.where(rng.random(500) < 0.7, labels, (labels + 1) % 3)
    target = Predictions.from_classes(predicted, k=3)
    source = Predictions.from_classes(predicted, k=3, labels=labels)
    result = ppi_from_labels(source, target, (np.arange(100), labels[:100]), 0)
    assert result is not None
    assert result.low < 0.7 < result.high
    assert result.estimate.method == "ppi++"


def test_expected_correctness_is_the_source_accuracy_of_the_bin() -> None:
    source, target = toy_predictions(500), toy_predictions(200, seed=1)
    edges = np.quantile(source.confidence, np.arange(1, N_BINS) / N_BINS)
    for row, result in enumerate(expected_correctness(source, target)):
        same_bin = [
            correct
            for confidence, correct in zip(source.confidence, source.correct, strict=True)
            if sum(confidence >= edges) == sum(target.confidence[row] >= edges)
        ]
        assert result == pytest.approx(np.mean(same_bin))


def test_expected_correctness_of_equal_confidences() -> None:
    source = Predictions.from_probs([[1.0, 0.0]] * 30, labels=[0] * 20 + [1] * 10)
    result = expected_correctness(source, Predictions.from_probs([[1.0, 0.0], [0.6, 0.4]]))
    assert result == pytest.approx([2 / 3, 2 / 3])
