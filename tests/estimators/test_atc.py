"""ATC's threshold and estimate against the definition, read literally."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oodometer.core.array_types import Floats
from oodometer.core.errors import InputError
from oodometer.core.predictions import Predictions
from oodometer.estimators import ATC
from oodometer.estimators.atc import threshold_value
from oodometer.testing import toy_predictions

MC, NE = ATC("mc"), ATC("ne")


def literal_threshold(scores: Floats, errors: int) -> float:
    """Try every candidate; keep the nearest to as many below as errors, the lower on a draw."""
    if errors == 0:
        return -math.inf
    if errors == len(scores):
        return math.inf
    best, best_gap = math.inf, math.inf
    for candidate in [*sorted(set(scores.tolist())), math.inf]:
        gap = abs(sum(1 for score in scores if score < candidate) - errors)
        if gap < best_gap:
            best, best_gap = candidate, gap
    return best


@given(
    scores=st.lists(st.sampled_from([0.1, 0.2, 0.3, 0.5, 0.8, 0.9]), min_size=1, max_size=30),
    share=st.floats(0, 1),
)
def test_the_threshold_with_ties_is_the_literal_one(scores: list[float], share: float) -> None:
    errors = round(share * len(scores))
    array = np.array(scores)
    assert threshold_value(array, errors) == literal_threshold(array, errors)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_as_many_distinct_scores_lie_below_as_there_are_errors(dtype: type) -> None:
    scores: Floats = np.random.default_rng(0).random(1001).astype(dtype)
    for errors in range(1001):
        assert np.count_nonzero(scores < threshold_value(scores, errors)) == errors


def test_a_strided_view_gives_the_same_threshold() -> None:
    scores = np.random.default_rng(0).random((500, 2))
    assert threshold_value(scores[:, 0], 77) == threshold_value(scores[:, 0].copy(), 77)


def test_without_source_errors_the_estimate_is_1_and_with_nothing_else_0() -> None:
    source, target = toy_predictions(50), toy_predictions(40, seed=3)
    right = Predictions.from_logits(source.scores, labels=source.classes)
    wrong = Predictions.from_logits(source.scores, labels=(source.classes + 1) % 4)
    for member in (MC, NE):
        perfect, hopeless = member.estimate(right, target), member.estimate(wrong, target)
        assert (perfect.value, hopeless.value) == (1.0, 0.0)
        assert "no errors" in perfect.notes[0]
        assert "no right answers" in hopeless.notes[0]
        assert "threshold" not in perfect.facts


@settings(max_examples=40)
@given(
    seed=st.integers(0, 10_000), k=st.integers(2, 6), temperature=st.sampled_from([1.0, 0.4, 3.0])
)
def test_the_estimate_is_the_share_at_or_above_the_literal_threshold(
    seed: int, k: int, temperature: float
) -> None:
    source = toy_predictions(60, k, seed=seed).at_temperature(temperature)
    target = toy_predictions(50, k, sharpness=1.0, seed=seed + 1).at_temperature(temperature)
    errors = int((~source.correct).sum())
    for member, score in ((MC, "confidence"), (NE, "negative_entropy")):
        cut = literal_threshold(getattr(source, score), errors)
        expected = sum(1 for value in getattr(target, score) if value >= cut) / target.n
        assert member.estimate(source, target).value == pytest.approx(expected, abs=1e-12)


def test_on_the_source_itself_the_estimate_is_its_accuracy() -> None:
    source = toy_predictions(1000)
    for member in (MC, NE):
        assert member.estimate(source, source).value == pytest.approx(source.correct.mean())


@pytest.mark.parametrize("temperature", [1.0, 0.3, 2.5])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("scale", [1.0, 8.0])
def test_for_two_classes_both_scores_give_one_estimate(
    temperature: float, dtype: type, scale: float
) -> None:
    """Also where float32 logits saturate: the scores must rank rows alike."""
    for seed in range(20):
        pair = [toy_predictions(2000, 2, sharpness=s, seed=seed) for s in (2.0, 1.0)]
        source, target = (
            Predictions.from_logits(
                (np.asarray(rows.scores) * scale).astype(dtype), labels=rows.labels
            ).at_temperature(temperature)
            for rows in pair
        )
        assert MC.estimate(source, target).value == NE.estimate(source, target).value


@pytest.mark.parametrize("temperature", [1.0, 2.5])
def test_for_two_columns_of_probabilities_too(temperature: float) -> None:
    for seed in range(20):
        source, target = (
            Predictions.from_probs(rows.probs.astype(np.float32), labels=rows.labels)
            for rows in (
                toy_predictions(500, 2, seed=seed),
                toy_predictions(400, 2, seed=seed + 50),
            )
        )
        both = [m.estimate(source.at_temperature(temperature), target.at_temperature(temperature))
                for m in (MC, NE)]  # fmt: skip
        assert both[0].value == both[1].value


def test_facts_name_the_threshold_and_the_errors_it_rests_on() -> None:
    source = toy_predictions(300)
    facts = MC.estimate(source, source).facts
    assert facts["source_errors"] == (~source.correct).sum()
    assert facts["threshold"] == threshold_value(source.confidence, int(facts["source_errors"]))


def test_an_unknown_score_is_refused() -> None:
    with pytest.raises(InputError, match="score must be 'mc' or 'ne'; got 'max'"):
        ATC("max")  # type: ignore[arg-type]


def test_more_edges_than_are_kept_change_no_estimate() -> None:
    """Beyond EDGES source rows near the threshold, the counts are coarser but the cut is exact."""
    source, target = toy_predictions(60_000, seed=1), toy_predictions(5_000, sharpness=1.0, seed=2)
    cut = threshold_value(source.confidence, int((~source.correct).sum()))
    expected = float((target.confidence >= cut).mean())
    assert MC.estimate(source, target).value == pytest.approx(expected, abs=1e-12)
