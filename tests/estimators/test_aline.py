"""Agreement-on-the-line against a literal solution, and on models that are on a line."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from scipy.stats import linregress, norm

from oodometer.core.array_types import Floats, Ints
from oodometer.core.errors import InputError, NotApplicable
from oodometer.core.predictions import Predictions
from oodometer.estimators.aline import (
    AgreementOnTheLine,
    agreements,
    fit_agreement_line,
    model_pairs,
)


def random_models(rng: np.random.Generator, labels: Ints, skills: list[float]) -> Ints:
    """Return classes of models that know each label with a probability, and guess otherwise."""
    rows = [
        np.where(rng.random(len(labels)) < p, labels, rng.integers(0, 6, len(labels)))
        for p in skills
    ]
    return np.stack(rows)


def literal_solution(
    accuracy: Floats, source: Floats, target: Floats
) -> tuple[Floats, Floats, float]:
    pairs = [
        (i, j, a, b)
        for (i, j), a, b in zip(combinations(range(len(accuracy)), 2), source, target, strict=True)
        if 0.05 <= a <= 0.98 and 0.05 <= b <= 0.98
    ]
    x = [norm.ppf(a) for _, _, a, _ in pairs]
    y = [norm.ppf(b) for _, _, _, b in pairs]
    line = linregress(x, y)
    probits = norm.ppf(accuracy)
    s = norm.cdf(line.slope * probits + line.intercept)
    rows, right_side = [], []
    for i, j, a, b in pairs:
        row = np.zeros(len(accuracy))
        row[i] = row[j] = 0.5
        rows.append(row)
        right_side.append(norm.ppf(b) + line.slope * ((probits[i] + probits[j]) / 2 - norm.ppf(a)))
    d = norm.cdf(np.linalg.lstsq(np.array(rows), np.array(right_side), rcond=None)[0])
    return s, d, line.rvalue**2


@pytest.mark.parametrize("models", [3, 5, 8])
def test_both_readings_match_the_literal_solution(models: int) -> None:
    rng = np.random.default_rng(models)
    labels = rng.integers(0, 6, 900)
    source = random_models(rng, labels, list(rng.uniform(0.5, 0.9, models)))
    target = random_models(rng, labels, list(rng.uniform(0.3, 0.7, models)))
    accuracy = (source == labels).mean(axis=1)
    line = fit_agreement_line(accuracy, agreements(source), agreements(target))
    s, d, r2 = literal_solution(accuracy, agreements(source), agreements(target))
    np.testing.assert_allclose(line.aline_s, s)
    np.testing.assert_allclose(line.aline_d, d)
    assert line.r2 == pytest.approx(r2)


def simulate(rng: np.random.Generator, ability: Floats, difficulty: float) -> tuple[Ints, Ints]:
    """Return classes of models that share the difficulty and the wrong class of every row."""
    labels, easiness = rng.integers(0, 6, 20_000), rng.normal(size=20_000)
    wrong_class = (labels + rng.integers(1, 6, 20_000)) % 6
    noise = 0.5 * rng.normal(size=(len(ability), 20_000))
    return np.where(ability[:, None] + easiness + noise > difficulty, labels, wrong_class), labels


@pytest.mark.parametrize("difficulty", [0.0, 0.2, 0.3])
def test_estimates_beat_the_source_accuracy_for_models_near_a_line(difficulty: float) -> None:
    rng, ability = np.random.default_rng(0), np.array([1.6, 1.2, 0.9, 0.6, 0.3])
    source, labels = simulate(rng, ability, 0.0)
    target, others = simulate(rng, ability, difficulty)
    source_accuracy, truth = (source == labels).mean(axis=1), (target == others).mean(axis=1)
    line = fit_agreement_line(source_accuracy, agreements(source), agreements(target))
    assert line.r2 > 0.95
    for reading in (line.aline_s, line.aline_d):
        assert np.abs(reading - truth).mean() < 0.55 * np.abs(source_accuracy - truth).mean() + 0.01


def test_weighted_agreements_are_weighted_means() -> None:
    rng = np.random.default_rng(1)
    classes, weights = rng.integers(0, 3, (4, 50)), rng.random((7, 50))
    weighted = agreements(classes, weights)
    for place, (i, j) in enumerate(zip(*model_pairs(4), strict=True)):
        same = np.array([classes[i, row] == classes[j, row] for row in range(50)])
        np.testing.assert_allclose(weighted[:, place], [w[same].sum() for w in weights])


def predictions_of(classes: Ints, labels: Ints | None = None) -> Predictions:
    first, *others = [Predictions.from_classes(row, k=6, labels=labels) for row in classes]
    return first.with_other_models(*others)


def test_not_applicable_without_enough_models_or_pairs() -> None:
    rng = np.random.default_rng(2)
    labels = rng.integers(0, 6, 300)
    three = random_models(rng, labels, [0.8, 0.7, 0.6])
    member = AgreementOnTheLine("s")
    with pytest.raises(NotApplicable, match="3 or more models on the source"):
        member.estimate(predictions_of(three[:2], labels), predictions_of(three))
    with pytest.raises(NotApplicable, match="3 or more models on the target"):
        member.estimate(predictions_of(three, labels), predictions_of(three[:2]))
    with pytest.raises(NotApplicable, match="0 pairs of models agree on 5% to 98%"):
        member.estimate(predictions_of(np.stack([labels] * 3), labels), predictions_of(three))
    with pytest.raises(InputError, match="reading must be 's' or 'd'"):
        AgreementOnTheLine("x")  # type: ignore[arg-type]


def test_agreements_that_are_not_linear_are_noted() -> None:
    rng = np.random.default_rng(3)
    labels = rng.integers(0, 6, 2000)
    source = random_models(rng, labels, [0.9, 0.8, 0.7, 0.6])
    target = random_models(rng, labels, [0.4, 0.9, 0.3, 0.8])
    result = AgreementOnTheLine("d").estimate(
        predictions_of(source, labels), predictions_of(target)
    )
    assert result.facts["agreement_r2"] < 0.95
    assert result.facts["agreement_is_linear"] == 0.0
    assert "not on a line" in result.notes[0]
