"""H-divergence: known values, a naive implementation, and invariances."""

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
from tests.support.feature_subjects import normal, shuffled, subject, subject_with_row_keys

HEADS: tuple[HeadName, ...] = ("linear", "larger")
HALVES: tuple[Half, ...] = ("test", "train")


def value(toy: Subject, head: HeadName = "linear", half: Half = "test") -> float:
    return measure_one(HDivergence(head, half), toy).value


# Known values -----------------------------------------------------------------------------------


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("head", HEADS)
def test_identical_sides_give_one_half(head: HeadName, half: Half) -> None:
    rows = normal(101, 5, seed=0)
    assert value(subject(rows, rows), head, half) == 0.5


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("head", HEADS)
def test_separable_sides_give_one(head: HeadName, half: Half) -> None:
    far = subject(normal(120, 5, seed=0), normal(90, 5, seed=1, shift=10.0))
    assert value(far, head, half) == 1.0


@pytest.mark.parametrize("head", HEADS)
def test_samples_of_one_distribution_give_about_one_half(head: HeadName) -> None:
    same_distribution = subject(normal(1000, 50, seed=0), normal(1000, 50, seed=1))
    assert value(same_distribution, head) == pytest.approx(0.5, abs=0.06)


def test_overfitting_shows_on_the_training_half_only() -> None:
    pure_noise = subject(normal(100, 200, seed=0), normal(100, 200, seed=1))
    assert value(pure_noise, half="train") == 1.0
    assert value(pure_noise, half="test") < 0.7


def test_accuracy_on_shifted_normals_matches_theory() -> None:
    """Two normal distributions at distance 2: the best threshold has accuracy Φ(1) = 84.1 %."""
    toy = subject(normal(2000, 1, seed=0), normal(2000, 1, seed=1, shift=2.0))
    assert value(toy) == pytest.approx(0.841, abs=0.03)


# Naive implementation ---------------------------------------------------------------------------


def naive_divergence(
    source: Floats, target: Floats, head: HeadName, seed: int, rows: int
) -> tuple[float, float]:
    """Return Algorithm 1 row by row: draw, split, label by origin, fit, count."""
    used = min(len(source), len(target), rows)
    train: list[tuple[list[float], int]] = []
    test: list[tuple[list[float], int]] = []
    for origin, side in enumerate((source, target)):
        draws = RowStreams(
            seed, inputs.hash_rows(side), np.zeros(len(side), dtype=np.int64)
        ).substream("divergence")
        ranked = sorted(zip(draws.initial_states.tolist(), side.tolist(), strict=True))[:used]
        for rank, (_, row) in enumerate(ranked):
            (train if 2 * rank < used else test).append((row, origin))
    scaler = StandardScaler().fit([row for row, _ in train])
    start = int(rng_for(seed, "larger head").integers(2**31))
    model: Any = LogisticRegression(max_iter=1000, tol=1e-6)
    if head == "larger":
        batch = min(200, len(train))
        model = MLPClassifier((16, 16, 16), batch_size=batch, max_iter=6000, random_state=start)
    model.fit(scaler.transform([row for row, _ in train]), [origin for _, origin in train])
    shares = []
    for part in (test, train):
        correct = [model.predict(scaler.transform([row]))[0] == origin for row, origin in part]
        shares.append(sum(correct) / len(correct))
    return shares[0], shares[1]


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize(("n", "m", "rows"), [(80, 61, 2000), (40, 90, 31)])
def test_values_match_naive_algorithm(head: HeadName, n: int, m: int, rows: int) -> None:
    source, target = normal(n, 6, seed=2), normal(m, 6, seed=3, shift=0.5)
    toy = subject(source, target, seed=5)
    result = [HDivergence(head, half, rows).measure(toy).value for half in HALVES]
    # The package fits the larger head in float32, the naive implementation in float64.
    assert result == pytest.approx(
        naive_divergence(source, target, head, 5, rows), abs=0.04 * (head == "larger")
    )


# Invariances ------------------------------------------------------------------------------------


@pytest.mark.parametrize("head", HEADS)
def test_row_order_and_repetition_do_not_matter(head: HeadName) -> None:
    toy = subject(normal(150, 30, seed=0), normal(130, 30, seed=1, shift=0.1))
    first = measure_one(HDivergence(head), toy)
    assert measure_one(HDivergence(head), toy) == first
    for seed in range(3):
        assert measure_one(HDivergence(head), shuffled(toy, seed)) == first


def test_batch_size_does_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    def measure_network() -> Score:
        model = as_model(torch.nn.Sequential(torch.nn.Linear(6, 3)), name="net")
        rows = (normal(60, 6, seed=0), normal(70, 6, seed=1, shift=0.6))
        sides = [
            ModelView(ViewSource("side", as_dataset(side.astype(np.float32)), model))
            for side in rows
        ]
        return measure_one(HDivergence(), Subject(sides[0], sides[1]))

    default_batches = measure_network()
    monkeypatch.setattr(inference, "DEFAULT_BATCH_ROWS", 7)
    assert measure_network() == default_batches


@settings(max_examples=25)
@given(
    scales=st.lists(st.floats(1e-3, 1e3), min_size=4, max_size=4),
    shifts=st.lists(st.floats(-100, 100), min_size=4, max_size=4),
    signs=st.lists(st.sampled_from([-1.0, 1.0]), min_size=4, max_size=4),
)
def test_scale_and_offset_of_features_do_not_matter(
    scales: list[float], shifts: list[float], signs: list[float]
) -> None:
    source, target = normal(60, 4, seed=0), normal(60, 4, seed=1, shift=0.7)
    factor = np.array(scales) * np.array(signs)
    moved = subject_with_row_keys(source * factor + shifts, target * factor + shifts)
    assert value(moved) == value(subject_with_row_keys(source, target))


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("power", [-900, 900])
def test_extreme_scales_do_not_matter(head: HeadName, power: int) -> None:
    source, target = normal(60, 4, seed=0), normal(60, 4, seed=1, shift=0.7)
    factor = 2.0**power
    assert value(subject_with_row_keys(source * factor, target * factor), head) == value(
        subject_with_row_keys(source, target), head
    )


def test_constant_features_do_not_matter() -> None:
    source, target = normal(60, 4, seed=0), normal(60, 4, seed=1, shift=0.7)
    wide = [np.hstack([side, np.full((60, 2), 0.1)]) for side in (source, target)]
    assert value(subject_with_row_keys(wide[0], wide[1])) == value(
        subject_with_row_keys(source, target)
    )


def test_seed_changes_the_split() -> None:
    source, target = normal(150, 4, seed=0), normal(150, 4, seed=1, shift=0.3)
    assert len({value(subject(source, target, seed=seed)) for seed in range(5)}) > 1


# Halves -----------------------------------------------------------------------------------------


def test_halves_are_balanced_disjoint_and_standardised() -> None:
    source, target = 5 + 3 * normal(41, 3, seed=0), normal(60, 3, seed=1)
    split = split_features(subject(source, target), 2000)
    assert (split.train.shape, split.test.shape) == ((2, 21, 3), (2, 20, 3))
    np.testing.assert_allclose(split.train.mean(axis=(0, 1)), 0, atol=1e-12)
    np.testing.assert_allclose(split.train.std(axis=(0, 1)), 1)
    rows = np.concatenate([split.train, split.test], axis=1)
    assert len(np.unique(rows.reshape(-1, 3), axis=0)) == 82
    # `source` has all source rows, the training half first.
    np.testing.assert_array_equal(np.sort(split.source.features, axis=0), np.sort(source, axis=0))
    learned = split.source.features[:21]
    both = np.corrcoef(learned[:, 0], split.train[0, :, 0])[0, 1]
    assert both == pytest.approx(1.0)


def test_row_on_both_sides_is_in_one_half() -> None:
    rows = normal(50, 3, seed=0)
    split = split_features(subject(rows, rows[::-1].copy()), 2000)
    assert split.train.shape == split.test.shape == (2, 25, 3)
    np.testing.assert_array_equal(split.train[0], split.train[1])
    np.testing.assert_array_equal(split.test[0], split.test[1])


def test_row_limit_is_noted() -> None:
    toy = subject(normal(1500, 3, seed=0), normal(1200, 3, seed=1))
    capped = HDivergence(rows=100).measure(toy)
    assert capped.notes == ("only 100 of 1,200 rows per side were used, drawn at random",)
    assert capped.facts["rows"] == 100
    assert HDivergence(rows=1200).measure(toy).notes == ()
    drawn = [side.rows(side.random_order("divergence")[:100]) for side in (toy.source, toy.target)]
    assert value(Subject(drawn[0], drawn[1])) == capped.value


# Sharing, notes, errors -------------------------------------------------------------------------


def test_both_halves_share_one_fit_on_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[set[int]] = []

    def counted(*args: Any, **named: Any) -> FittedHead:
        pools = threadpool_info()
        threads.append({pool["num_threads"] for pool in pools if pool["user_api"] == "blas"})
        return _domain_classifiers.fit_head(*args, **named)

    monkeypatch.setattr(h_divergence, "fit_head", counted)
    toy = subject(normal(40, 3, seed=0), normal(40, 3, seed=1))
    with threadpool_limits(2, user_api="blas"):
        for half in (*HALVES, *HALVES):
            value(toy, half=half)
    assert threads == [{1}]
    value(toy, head="larger")
    HDivergence(rows=20).measure(toy)
    assert len(threads) == 3


def test_facts_describe_the_fit() -> None:
    result = measure_one(HDivergence(), subject(normal(40, 3, seed=0), normal(50, 3, seed=1)))
    assert (result.facts["rows"], result.facts["width"], result.facts["settled"]) == (40, 3, 1)
    assert result.facts["steps"] >= 1


def test_missing_convergence_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(_domain_classifiers.MAX_FIT_STEPS, "linear", 1)
    result = measure_one(HDivergence(), subject(normal(40, 3, seed=0), normal(40, 3, seed=1)))
    assert result.notes == ("the head had not converged after 1 steps",)
    assert result.facts["settled"] == 0


def test_unequal_widths_raise() -> None:
    toy = subject(normal(9, 3, seed=0), normal(9, 4, seed=1))
    with pytest.raises(InputError, match=r"'source' has 3 features per row and 'target' has 4"):
        value(toy)


@pytest.mark.parametrize("invalid", [np.nan, np.inf])
def test_non_finite_features_raise(invalid: float) -> None:
    target = normal(9, 3, seed=1)
    target[4, 2] = invalid
    message = rf"finite; row 4 of 'target' has {invalid} in column 2\. Remove such rows\."
    with pytest.raises(InputError, match=message):
        value(subject(normal(9, 3, seed=0), target))


def test_constant_features_alone_are_not_applicable() -> None:
    flat = np.full((10, 3), 0.1)
    with pytest.raises(NotApplicable, match="all features are constant"):
        value(subject(flat, flat))
    assert value(subject(flat, flat + 1)) == 1.0


def test_four_rows_per_side_are_required() -> None:
    with pytest.raises(NotApplicable, match=r"it needs at least 4 rows per side .* there are 3"):
        value(subject(normal(3, 2, seed=0), normal(9, 2, seed=1)))
    assert value(subject(normal(4, 2, seed=0), normal(9, 2, seed=1, shift=50.0))) == 1.0


def test_features_are_required() -> None:
    with pytest.raises(NotApplicable, match="it needs features"):
        measure_one(
            HDivergence(), Subject(ModelView(ViewSource("source")), ModelView(ViewSource("target")))
        )


def test_invalid_settings_raise() -> None:
    wrong: Any = "wide"
    with pytest.raises(InputError, match="head must be linear or larger; got 'wide'"):
        HDivergence(wrong)
    with pytest.raises(InputError, match="half must be test or train; got 'wide'"):
        HDivergence(half=wrong)
    with pytest.raises(InputError, match="rows must be at least 4; got 3"):
        HDivergence(rows=3)


def test_larger_head_limits_the_feature_width(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(h_divergence, "MAX_FEATURES", 2)
    wide = subject(normal(20, 3, seed=0), normal(20, 3, seed=1))
    with pytest.raises(
        NotApplicable, match="there are 3 features per row, and a larger head accepts at most 2"
    ):
        value(wide, "larger")
    assert 0 <= value(wide, "linear") <= 1
