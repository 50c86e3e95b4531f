"""PPI++ by literal formulas, and its coverage."""

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


def test_the_weight_is_the_one_of_the_formula() -> None:
    rng = np.random.default_rng(0)
    scores = rng.random(50)
    right = (rng.random(50) < scores).astype(float)
    literal = np.cov(right, scores)[0, 1] / ((1 + 50 / 400) * np.var(scores, ddof=1))
    assert best_weight(right, scores, 400) == pytest.approx(literal)
    assert best_weight(right, np.full(50, 0.3), 400) == 0.0


def test_below_25_labels_and_without_both_answers_it_is_wilson_s_interval() -> None:
    rng = np.random.default_rng(0)
    for right in (np.arange(MIN_LABELS - 1) % 3 > 0, np.ones(200, dtype=bool)):
        found = ppi_estimate(right, np.ones(len(right)), np.ones(500), rng=rng)
        assert found.method == "wilson"
        assert (found.low, found.high) == wilson_interval(int(right.sum()), len(right))


@pytest.mark.parametrize("n", [30, 100, 400])
@pytest.mark.parametrize("told", [0.0, 1.0])
def test_nineteen_of_twenty_intervals_hold_the_truth(n: int, told: float) -> None:
    """Whether the scores tell everything or nothing, and although they are off by 0.2."""
    rng = np.random.default_rng(n)
    hits, widths, trials = 0, [], 600
    for _ in range(trials):
        chance = rng.beta(2, 1, size=n + 3000)
        right = rng.random(n + 3000) < chance
        scores = np.clip(told * chance + (1 - told) * rng.random(n + 3000) + 0.2, 0, 1)
        found = ppi_estimate(right[:n], scores[:n], scores[n:], rng=rng)
        hits += found.low <= 2 / 3 <= found.high
        widths.append(found.label_savings)
    assert 0.925 <= hits / trials <= 0.975
    assert np.mean(widths) > 0.1 if told else abs(np.mean(widths)) < 0.12


def test_lengths_must_fit() -> None:
    with pytest.raises(InputError, match="2 labels and 3 scores"):
        ppi_estimate(np.ones(2, bool), np.ones(3), np.ones(9), rng=np.random.default_rng(0))
    with pytest.raises(InputError, match="at least one"):
        ppi_estimate(np.ones(0, bool), np.ones(0), np.ones(9), rng=np.random.default_rng(0))


def test_blanks_of_any_kind_and_names_of_classes_are_understood() -> None:
    probs = [[0.9, 0.1], [0.2, 0.8], [0.6, 0.4], [0.3, 0.7]]
    plain = Predictions.from_probs(probs)
    named = Predictions.from_probs(probs, class_names=("ant", "bee"))
    for given, target in (
        ([0, None, 1, float("nan")], plain),
        (np.array([0.0, np.nan, 1.0, np.nan]), plain),
        (["ant", "", "bee", None], named),
        (([0, 2], ["ant", "bee"]), named),
    ):
        rows, correct = labelled_rows(given, target)
        assert (rows.tolist(), correct.tolist()) == ([0, 2], [True, False])
    known = Predictions.from_probs(probs, labels=[0, 1, 0, 1])
    assert ppi_from_labels(known, plain, [None] * 4, 0) is None


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (([0, 0], [1, 1]), "labelled twice"),
        (([0, 9], [1, 1]), "must lie in 0…3; one is 9"),
        (([0.5], [1]), "whole numbers"),
        (([0, 1], [1]), "labels of the target"),
        ([0, None], "labels of the target"),
        ([7, None, None, None], "must be between 0 and 1"),
    ],
)
def test_what_are_no_labels_is_refused(given: Any, said: str) -> None:
    target = Predictions.from_probs([[0.9, 0.1]] * 4)
    with pytest.raises(InputError, match=said):
        labelled_rows(given, target)


def test_hard_classes_have_no_scores_and_do_all_the_same() -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 500)
    said = np.where(rng.random(500) < 0.7, labels, (labels + 1) % 3)
    target = Predictions.from_classes(said, k=3)
    source = Predictions.from_classes(said, k=3, labels=labels)
    found = ppi_from_labels(source, target, (np.arange(100), labels[:100]), 0)
    assert found is not None
    assert found.low < 0.7 < found.high
    assert found.estimate.method == "ppi++"


def test_chances_are_shares_of_right_source_rows_of_the_same_bin() -> None:
    source, target = toy_predictions(500), toy_predictions(200, seed=1)
    edges = np.quantile(source.confidence, np.arange(1, N_BINS) / N_BINS)
    for row, found in enumerate(expected_correctness(source, target)):
        alike = [
            right
            for sure, right in zip(source.confidence, source.correct, strict=True)
            if sum(sure >= edges) == sum(target.confidence[row] >= edges)
        ]
        assert found == pytest.approx(np.mean(alike))


def test_chances_of_crowded_confidences_stay_chances() -> None:
    source = Predictions.from_probs([[1.0, 0.0]] * 30, labels=[0] * 20 + [1] * 10)
    found = expected_correctness(source, Predictions.from_probs([[1.0, 0.0], [0.6, 0.4]]))
    assert found == pytest.approx([2 / 3, 2 / 3])
