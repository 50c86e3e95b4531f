"""H-divergence: known values, a literal twin, and what must not change it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_info, threadpool_limits

from oodometer.core import inputs
from oodometer.core.array_types import Floats
from oodometer.core.errors import InputError, NotApplicable
from oodometer.core.random_streams import RowStreams
from oodometer.core.results import Score
from oodometer.core.stats import rng_for
from oodometer.data import as_dataset
from oodometer.measures import _domain_classifiers, h_divergence
from oodometer.measures._domain_classifiers import FittedHead, HeadName
from oodometer.measures.h_divergence import Half, HDivergence, split_features
from oodometer.measures.subject import Subject, measure_one
from oodometer.models import as_model, inference
from oodometer.models.model_view import ModelView, ViewSource
from tests.support.feature_subjects import keyed, normal, shuffled, subject

HEADS: tuple[HeadName, ...] = ("linear", "larger")
HALVES: tuple[Half, ...] = ("test", "train")


def value(one: Subject, head: HeadName = "linear", half: Half = "test") -> float:
    return measure_one(HDivergence(head, half), one).value


# Known values -----------------------------------------------------------------------------------


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("head", HEADS)
def test_the_same_rows_on_both_sides_can_not_be_told_apart(head: HeadName, half: Half) -> None:
    rows = normal(101, 5, seed=0)
    assert value(subject(rows, rows), head, half) == 0.5


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("head", HEADS)
def test_sides_far_apart_are_told_apart_always(head: HeadName, half: Half) -> None:
    far = subject(normal(120, 5, seed=0), normal(90, 5, seed=1, shift=10.0))
    assert value(far, head, half) == 1.0


@pytest.mark.parametrize("head", HEADS)
def test_other_rows_of_one_distribution_are_told_apart_by_chance(head: HeadName) -> None:
    alike = subject(normal(1000, 50, seed=0), normal(1000, 50, seed=1))
    assert value(alike, head) == pytest.approx(0.5, abs=0.06)


def test_what_was_learned_by_heart_shows_on_the_training_half_alone() -> None:
    noise = subject(normal(100, 200, seed=0), normal(100, 200, seed=1))
    assert value(noise, half="train") == 1.0
    assert value(noise, half="test") < 0.7


def test_a_shift_of_one_deviation_is_told_as_often_as_theory_says() -> None:
    """Two normals a distance of 2 apart: the best cut is right in Φ(1) = 84.1 % of rows."""
    one = subject(normal(2000, 1, seed=0), normal(2000, 1, seed=1, shift=2.0))
    assert value(one) == pytest.approx(0.841, abs=0.03)


# A literal twin ---------------------------------------------------------------------------------


def twin(
    source: Floats, target: Floats, head: HeadName, seed: int, rows: int
) -> tuple[float, float]:
    """Algorithm 1, a row at a time: draw, split, label by origin, fit, count."""
    used = min(len(source), len(target), rows)
    learn: list[tuple[list[float], int]] = []
    test: list[tuple[list[float], int]] = []
    for origin, side in enumerate((source, target)):
        draws = RowStreams(
            seed, inputs.hash_rows(side), np.zeros(len(side), dtype=np.int64)
        ).substream("divergence")
        ranked = sorted(zip(draws.initial_states.tolist(), side.tolist(), strict=True))[:used]
        for place, (_, row) in enumerate(ranked):
            (learn if 2 * place < used else test).append((row, origin))
    scaler = StandardScaler().fit([row for row, _ in learn])
    start = int(rng_for(seed, "larger head").integers(2**31))
    model: Any = LogisticRegression(max_iter=1000, tol=1e-6)
    if head == "larger":
        batch = min(200, len(learn))
        model = MLPClassifier((16, 16, 16), batch_size=batch, max_iter=6000, random_state=start)
    model.fit(scaler.transform([row for row, _ in learn]), [origin for _, origin in learn])
    shares = []
    for part in (test, learn):
        right = [model.predict(scaler.transform([row]))[0] == origin for row, origin in part]
        shares.append(sum(right) / len(right))
    return shares[0], shares[1]


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize(("n", "m", "rows"), [(80, 61, 2000), (40, 90, 31)])
def test_it_is_the_algorithm_of_the_paper(head: HeadName, n: int, m: int, rows: int) -> None:
    source, target = normal(n, 6, seed=2), normal(m, 6, seed=3, shift=0.5)
    one = subject(source, target, seed=5)
    found = [HDivergence(head, half, rows).measure(one).value for half in HALVES]
    # The larger head works in single precision here, and in double in the twin.
    assert found == pytest.approx(
        twin(source, target, head, 5, rows), abs=0.04 * (head == "larger")
    )


# What must not change it ------------------------------------------------------------------------


@pytest.mark.parametrize("head", HEADS)
def test_neither_the_order_of_rows_nor_asking_again_changes_it(head: HeadName) -> None:
    one = subject(normal(150, 30, seed=0), normal(130, 30, seed=1, shift=0.1))
    first = measure_one(HDivergence(head), one)
    assert measure_one(HDivergence(head), one) == first
    for seed in range(3):
        assert measure_one(HDivergence(head), shuffled(one, seed)) == first


def test_the_batch_does_not_change_it(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    def looked_at() -> Score:
        model = as_model(torch.nn.Sequential(torch.nn.Linear(6, 3)), name="net")
        rows = (normal(60, 6, seed=0), normal(70, 6, seed=1, shift=0.6))
        sides = [
            ModelView(ViewSource("side", as_dataset(side.astype(np.float32)), model))
            for side in rows
        ]
        return measure_one(HDivergence(), Subject(sides[0], sides[1]))

    whole = looked_at()
    monkeypatch.setattr(inference, "DEFAULT_BATCH_ROWS", 7)
    assert looked_at() == whole


@settings(max_examples=25)
@given(
    scales=st.lists(st.floats(1e-3, 1e3), min_size=4, max_size=4),
    shifts=st.lists(st.floats(-100, 100), min_size=4, max_size=4),
    signs=st.lists(st.sampled_from([-1.0, 1.0]), min_size=4, max_size=4),
)
def test_scaling_and_moving_a_feature_does_not_change_it(
    scales: list[float], shifts: list[float], signs: list[float]
) -> None:
    source, target = normal(60, 4, seed=0), normal(60, 4, seed=1, shift=0.7)
    by = np.array(scales) * np.array(signs)
    moved = keyed(source * by + shifts, target * by + shifts)
    assert value(moved) == value(keyed(source, target))


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("power", [-900, 900])
def test_very_large_and_very_small_features_are_like_others(head: HeadName, power: int) -> None:
    source, target = normal(60, 4, seed=0), normal(60, 4, seed=1, shift=0.7)
    by = 2.0**power
    assert value(keyed(source * by, target * by), head) == value(keyed(source, target), head)


def test_features_that_do_not_vary_count_for_nothing() -> None:
    source, target = normal(60, 4, seed=0), normal(60, 4, seed=1, shift=0.7)
    wide = [np.hstack([side, np.full((60, 2), 0.1)]) for side in (source, target)]
    assert value(keyed(wide[0], wide[1])) == value(keyed(source, target))


def test_another_seed_draws_and_splits_otherwise() -> None:
    source, target = normal(150, 4, seed=0), normal(150, 4, seed=1, shift=0.3)
    assert len({value(subject(source, target, seed=seed)) for seed in range(5)}) > 1


# Halves -----------------------------------------------------------------------------------------


def test_halves_are_balanced_and_disjoint_and_standardised_on_the_first() -> None:
    source, target = 5 + 3 * normal(41, 3, seed=0), normal(60, 3, seed=1)
    parts = split_features(subject(source, target), 2000)
    assert (parts.train.shape, parts.test.shape) == ((2, 21, 3), (2, 20, 3))
    np.testing.assert_allclose(parts.train.mean(axis=(0, 1)), 0, atol=1e-12)
    np.testing.assert_allclose(parts.train.std(axis=(0, 1)), 1)
    rows = np.concatenate([parts.train, parts.test], axis=1)
    assert len(np.unique(rows.reshape(-1, 3), axis=0)) == 82
    # The source's rows are all of the source, the first of them those to learn from.
    np.testing.assert_array_equal(np.sort(parts.source.features, axis=0), np.sort(source, axis=0))
    learned = parts.source.features[:21]
    both = np.corrcoef(learned[:, 0], parts.train[0, :, 0])[0, 1]
    assert both == pytest.approx(1.0)


def test_a_row_on_both_sides_is_in_one_half() -> None:
    rows = normal(50, 3, seed=0)
    parts = split_features(subject(rows, rows[::-1].copy()), 2000)
    assert parts.train.shape == parts.test.shape == (2, 25, 3)
    np.testing.assert_array_equal(parts.train[0], parts.train[1])
    np.testing.assert_array_equal(parts.test[0], parts.test[1])


def test_a_cap_that_bites_is_told() -> None:
    one = subject(normal(1500, 3, seed=0), normal(1200, 3, seed=1))
    capped = HDivergence(rows=100).measure(one)
    assert capped.notes == ("only 100 of 1,200 rows a side were used, drawn at random",)
    assert capped.facts["rows"] == 100
    assert HDivergence(rows=1200).measure(one).notes == ()
    drawn = [side.rows(side.random_order("divergence")[:100]) for side in (one.source, one.target)]
    assert value(Subject(drawn[0], drawn[1])) == capped.value


# Sharing, notes, refusals -----------------------------------------------------------------------


def test_both_halves_share_one_fit_on_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[set[int]] = []

    def counted(*args: Any, **named: Any) -> FittedHead:
        pools = threadpool_info()
        threads.append({pool["num_threads"] for pool in pools if pool["user_api"] == "blas"})
        return _domain_classifiers.fit_head(*args, **named)

    monkeypatch.setattr(h_divergence, "fit_head", counted)
    one = subject(normal(40, 3, seed=0), normal(40, 3, seed=1))
    with threadpool_limits(2, user_api="blas"):
        for half in (*HALVES, *HALVES):
            value(one, half=half)
    assert threads == [{1}]
    value(one, head="larger")
    HDivergence(rows=20).measure(one)
    assert len(threads) == 3


def test_facts_tell_what_was_used() -> None:
    found = measure_one(HDivergence(), subject(normal(40, 3, seed=0), normal(50, 3, seed=1)))
    assert (found.facts["rows"], found.facts["width"], found.facts["settled"]) == (40, 3, 1)
    assert found.facts["steps"] >= 1


def test_a_head_that_was_not_done_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(_domain_classifiers.MAX_FIT_STEPS, "linear", 1)
    found = measure_one(HDivergence(), subject(normal(40, 3, seed=0), normal(40, 3, seed=1)))
    assert found.notes == ("the head was not done learning after 1 steps",)
    assert found.facts["settled"] == 0


def test_widths_must_be_equal() -> None:
    one = subject(normal(9, 3, seed=0), normal(9, 4, seed=1))
    with pytest.raises(InputError, match=r"'source' are 3 wide, those of 'target' 4; both must"):
        value(one)


@pytest.mark.parametrize("odd", [np.nan, np.inf])
def test_features_must_be_finite(odd: float) -> None:
    target = normal(9, 3, seed=1)
    target[4, 2] = odd
    message = rf"finite; row 4 of 'target' has {odd} in column 2\. Leave such rows out\."
    with pytest.raises(InputError, match=message):
        value(subject(normal(9, 3, seed=0), target))


def test_features_that_never_vary_are_refused() -> None:
    flat = np.full((10, 3), 0.1)
    with pytest.raises(NotApplicable, match="nothing to tell apart"):
        value(subject(flat, flat))
    assert value(subject(flat, flat + 1)) == 1.0


def test_three_rows_are_too_few_and_four_are_enough() -> None:
    with pytest.raises(NotApplicable, match="3 rows a side are less than 4"):
        value(subject(normal(3, 2, seed=0), normal(9, 2, seed=1)))
    assert value(subject(normal(4, 2, seed=0), normal(9, 2, seed=1, shift=50.0))) == 1.0


def test_without_features_it_is_refused() -> None:
    with pytest.raises(NotApplicable, match="it needs features"):
        measure_one(
            HDivergence(), Subject(ModelView(ViewSource("source")), ModelView(ViewSource("target")))
        )


def test_settings_are_checked() -> None:
    wrong: Any = "wide"
    with pytest.raises(InputError, match="head must be 'linear' or 'larger'; got 'wide'"):
        HDivergence(wrong)
    with pytest.raises(InputError, match="half must be 'test' or 'train'; got 'wide'"):
        HDivergence(half=wrong)
    with pytest.raises(InputError, match="rows must be at least 4; got 3"):
        HDivergence(rows=3)


def test_a_larger_head_is_not_put_on_features_that_are_too_wide(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(h_divergence, "MAX_FEATURES", 2)
    wide = subject(normal(20, 3, seed=0), normal(20, 3, seed=1))
    with pytest.raises(
        NotApplicable, match="features are 3 wide, and a larger head is put on 2 at most"
    ):
        value(wide, "larger")
    assert 0 <= value(wide, "linear") <= 1
