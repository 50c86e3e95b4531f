"""ATC against a literal implementation of the definition in the paper."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oodometer.core.array_types import Floats
from oodometer.core.errors import InputError
from oodometer.core.predictions import Predictions
from oodometer.estimators import ATC, FalselyIdentified, atc_source_bound, falsely_identified
from oodometer.estimators.atc import threshold_value
from oodometer.testing import toy_predictions

MC, NE = ATC("mc"), ATC("ne")


def naive_threshold(scores: Floats, errors: int) -> float:
    """Return the candidate whose count below is closest to `errors`, the lower one if tied."""
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
def test_threshold_with_ties_matches_naive_search(scores: list[float], share: float) -> None:
    errors = round(share * len(scores))
    array = np.array(scores)
    assert threshold_value(array, errors) == naive_threshold(array, errors)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_exactly_n_errors_distinct_scores_are_below_threshold(dtype: type) -> None:
    scores: Floats = np.random.default_rng(0).random(1001).astype(dtype)
    for errors in range(1001):
        assert np.count_nonzero(scores < threshold_value(scores, errors)) == errors


def test_non_contiguous_scores_give_the_same_threshold() -> None:
    scores = np.random.default_rng(0).random((500, 2))
    assert threshold_value(scores[:, 0], 77) == threshold_value(scores[:, 0].copy(), 77)


def test_estimate_is_one_without_source_errors_and_zero_without_correct_rows() -> None:
    source, target = toy_predictions(50), toy_predictions(40, seed=3)
    right = Predictions.from_logits(source.scores, labels=source.classes)
    wrong = Predictions.from_logits(source.scores, labels=(source.classes + 1) % 4)
    for member in (MC, NE):
        perfect, hopeless = member.estimate(right, target), member.estimate(wrong, target)
        assert (perfect.value, hopeless.value) == (1.0, 0.0)
        assert "no errors" in perfect.notes[0]
        assert "no correct rows" in hopeless.notes[0]
        assert "threshold" not in perfect.facts


@settings(max_examples=40)
@given(
    seed=st.integers(0, 10_000), k=st.integers(2, 6), temperature=st.sampled_from([1.0, 0.4, 3.0])
)
def test_estimate_is_the_share_at_or_above_the_naive_threshold(
    seed: int, k: int, temperature: float
) -> None:
    source = toy_predictions(60, k, seed=seed).at_temperature(temperature)
    target = toy_predictions(50, k, sharpness=1.0, seed=seed + 1).at_temperature(temperature)
    errors = int((~source.correct).sum())
    for member, score in ((MC, "confidence"), (NE, "negative_entropy")):
        cut = naive_threshold(getattr(source, score), errors)
        expected = sum(1 for value in getattr(target, score) if value >= cut) / target.n
        assert member.estimate(source, target).value == pytest.approx(expected, abs=1e-12)


def test_estimate_of_the_source_is_its_accuracy() -> None:
    source = toy_predictions(1000)
    for member in (MC, NE):
        assert member.estimate(source, source).value == pytest.approx(source.correct.mean())


@pytest.mark.parametrize("temperature", [1.0, 0.3, 2.5])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("scale", [1.0, 8.0])
def test_both_scores_give_the_same_estimate_for_two_classes(
    temperature: float, dtype: type, scale: float
) -> None:
    """Both scores must rank rows equally even if float32 logits saturate."""
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
def test_both_scores_give_the_same_estimate_for_two_probability_columns(temperature: float) -> None:
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


def test_facts_have_threshold_and_source_errors() -> None:
    source = toy_predictions(300)
    facts = MC.estimate(source, source).facts
    assert facts["source_errors"] == (~source.correct).sum()
    assert facts["threshold"] == threshold_value(source.confidence, int(facts["source_errors"]))


def test_unknown_score_is_rejected() -> None:
    with pytest.raises(InputError, match="score must be 'mc' or 'ne'; got 'max'"):
        ATC("max")  # type: ignore[arg-type]


def test_estimate_is_exact_with_more_scores_than_edges() -> None:
    """Above MAX_EDGES source rows near the threshold the counts are coarser, the threshold is not."""
    source, target = toy_predictions(60_000, seed=1), toy_predictions(5_000, sharpness=1.0, seed=2)
    cut = threshold_value(source.confidence, int((~source.correct).sum()))
    expected = float((target.confidence >= cut).mean())
    assert MC.estimate(source, target).value == pytest.approx(expected, abs=1e-12)


# Bound on the source distribution (Proposition 2) ------------------------------------------------


def test_source_bound_matches_the_formula() -> None:
    """2 · sqrt(log(80) / 2000) = 0.093617, and four times as many rows halve it."""
    assert atc_source_bound(1000) == pytest.approx(0.093617, abs=1e-6)
    assert atc_source_bound(4000) == pytest.approx(atc_source_bound(1000) / 2)
    assert atc_source_bound(1000, delta=0.5) == pytest.approx(2 * math.sqrt(math.log(8) / 2000))


@pytest.mark.parametrize(("n", "delta"), [(0, 0.05), (10, 0.0), (10, 1.0)])
def test_source_bound_rejects_invalid_arguments(n: int, delta: float) -> None:
    with pytest.raises(InputError, match="must be"):
        atc_source_bound(n, delta)


@pytest.mark.parametrize("delta", [0.05, 0.5])
def test_source_bound_holds_at_its_level(delta: float) -> None:
    """The score is uniform, and a row with score s is correct with probability s².

    A share t of all rows has a score below t, and 2/3 of all rows are wrong, so the error of a
    threshold t is abs(t − 2/3).
    """
    n, rng = 200, np.random.default_rng(3)
    errors = []
    for _ in range(2000):
        scores = rng.random(n)
        wrong = rng.random(n) >= scores**2
        errors.append(abs(threshold_value(scores, int(wrong.sum())) - 2 / 3))
    covered = np.mean(np.array(errors) <= atc_source_bound(n, delta))
    assert covered >= 1 - delta
    # The sample varies enough to exceed a bound that is a third as large.
    assert np.mean(np.array(errors) <= atc_source_bound(n, delta) / 3) < covered


# Falsely identified predictions (App. C, D.1) -----------------------------------------------------


@settings(max_examples=60)
@given(seed=st.integers(0, 10_000), sharpness=st.sampled_from([0.2, 1.0, 2.5]))
def test_difference_of_falsely_identified_shares_is_the_error(seed: int, sharpness: float) -> None:
    source = toy_predictions(80, seed=seed)
    target = toy_predictions(70, sharpness=sharpness, seed=seed + 1)
    for member in (MC, NE):
        shares = member.falsely_identified(source, target)
        error = member.estimate(source, target.without_labels()).value - target.correct.mean()
        assert shares.bias == pytest.approx(error, abs=1e-12)
        assert (shares.correct == pytest.approx(shares.incorrect)) == (abs(error) < 1e-12)


def test_falsely_identified_shares_are_equal_on_the_source_without_ties() -> None:
    source = toy_predictions(500)
    shares = MC.falsely_identified(source, source)
    assert shares.correct == shares.incorrect > 0


def test_falsely_identified_by_hand() -> None:
    scores = np.array([0.9, 0.8, 0.7, 0.6, 0.5])
    correct = np.array([True, False, False, True, True])
    assert falsely_identified(scores, correct, 0.7) == FalselyIdentified(0.4, 0.4)
    assert falsely_identified(scores, correct, -math.inf) == FalselyIdentified(0.4, 0.0)
    with pytest.raises(InputError, match="no labelled rows"):
        falsely_identified(scores[:0], correct[:0], 0.5)
