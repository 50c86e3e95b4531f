"""Agreement on the line against a literal solution, and on models that lie on one."""

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


def answers(rng: np.random.Generator, labels: Ints, right: list[float]) -> Ints:
    """Classes of models that are right that often, and else anything."""
    rows = [
        np.where(rng.random(len(labels)) < p, labels, rng.integers(0, 6, len(labels)))
        for p in right
    ]
    return np.stack(rows)


def literal(accuracy: Floats, source: Floats, target: Floats) -> tuple[Floats, Floats, float]:
    pairs = [
        (i, j, a, b)
        for (i, j), a, b in zip(combinations(range(len(accuracy)), 2), source, target, strict=True)
        if 0.05 <= a <= 0.98 and 0.05 <= b <= 0.98
    ]
    x = [norm.ppf(a) for _, _, a, _ in pairs]
    y = [norm.ppf(b) for _, _, _, b in pairs]
    line = linregress(x, y)
    known = norm.ppf(accuracy)
    s = norm.cdf(line.slope * known + line.intercept)
    rows, wanted = [], []
    for i, j, a, b in pairs:
        row = np.zeros(len(accuracy))
        row[i] = row[j] = 0.5
        rows.append(row)
        wanted.append(norm.ppf(b) + line.slope * ((known[i] + known[j]) / 2 - norm.ppf(a)))
    d = norm.cdf(np.linalg.lstsq(np.array(rows), np.array(wanted), rcond=None)[0])
    return s, d, line.rvalue**2


@pytest.mark.parametrize("models", [3, 5, 8])
def test_both_readings_are_those_of_a_literal_solution(models: int) -> None:
    rng = np.random.default_rng(models)
    labels = rng.integers(0, 6, 900)
    source = answers(rng, labels, list(rng.uniform(0.5, 0.9, models)))
    target = answers(rng, labels, list(rng.uniform(0.3, 0.7, models)))
    accuracy = (source == labels).mean(axis=1)
    found = fit_agreement_line(accuracy, agreements(source), agreements(target))
    s, d, r2 = literal(accuracy, agreements(source), agreements(target))
    np.testing.assert_allclose(found.aline_s, s)
    np.testing.assert_allclose(found.aline_d, d)
    assert found.r2 == pytest.approx(r2)


def world(rng: np.random.Generator, ability: Floats, harder: float) -> tuple[Ints, Ints]:
    """Rows that are hard for all models alike, and are all taken for one and the same other class."""
    labels, ease = rng.integers(0, 6, 20_000), rng.normal(size=20_000)
    taken_for = (labels + rng.integers(1, 6, 20_000)) % 6
    luck = 0.5 * rng.normal(size=(len(ability), 20_000))
    return np.where(ability[:, None] + ease + luck > harder, labels, taken_for), labels


@pytest.mark.parametrize("harder", [0.0, 0.2, 0.3])
def test_models_near_a_line_are_told_better_than_by_their_source_accuracy(harder: float) -> None:
    rng, ability = np.random.default_rng(0), np.array([1.6, 1.2, 0.9, 0.6, 0.3])
    source, labels = world(rng, ability, 0.0)
    target, others = world(rng, ability, harder)
    known, truth = (source == labels).mean(axis=1), (target == others).mean(axis=1)
    line = fit_agreement_line(known, agreements(source), agreements(target))
    assert line.r2 > 0.95
    for reading in (line.aline_s, line.aline_d):
        assert np.abs(reading - truth).mean() < 0.55 * np.abs(known - truth).mean() + 0.01


def test_agreements_by_weight_are_means_of_weighted_rows() -> None:
    rng = np.random.default_rng(1)
    classes, weights = rng.integers(0, 3, (4, 50)), rng.random((7, 50))
    found = agreements(classes, weights)
    for place, (i, j) in enumerate(zip(*model_pairs(4), strict=True)):
        same = np.array([classes[i, row] == classes[j, row] for row in range(50)])
        np.testing.assert_allclose(found[:, place], [w[same].sum() for w in weights])


def of_models(classes: Ints, labels: Ints | None = None) -> Predictions:
    made = [Predictions.from_classes(one, k=6, labels=labels) for one in classes]
    return made[0].with_other_models(*made[1:])


def test_it_is_refused_without_enough_models_or_pairs_that_have_a_say() -> None:
    rng = np.random.default_rng(2)
    labels = rng.integers(0, 6, 300)
    three = answers(rng, labels, [0.8, 0.7, 0.6])
    member = AgreementOnTheLine("s")
    with pytest.raises(NotApplicable, match="give the others' predictions of the source"):
        member.estimate(of_models(three[:2], labels), of_models(three))
    with pytest.raises(NotApplicable, match="give the others' predictions of the target"):
        member.estimate(of_models(three, labels), of_models(three[:2]))
    with pytest.raises(NotApplicable, match="0 pairs of models agree on 5% to 98%"):
        member.estimate(of_models(np.stack([labels] * 3), labels), of_models(three))
    with pytest.raises(InputError, match="reading must be 's' or 'd'"):
        AgreementOnTheLine("x")  # type: ignore[arg-type]


def test_agreements_off_the_line_are_told_of() -> None:
    rng = np.random.default_rng(3)
    labels = rng.integers(0, 6, 2000)
    source = answers(rng, labels, [0.9, 0.8, 0.7, 0.6])
    target = answers(rng, labels, [0.4, 0.9, 0.3, 0.8])
    found = AgreementOnTheLine("d").estimate(of_models(source, labels), of_models(target))
    assert found.facts["agreement_r2"] < 0.95
    assert found.facts["agreement_is_linear"] == 0.0
    assert "off the line" in found.notes[0]
