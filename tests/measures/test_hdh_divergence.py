"""HΔH-divergence: theoretical values, a naive implementation, and invariances."""

from __future__ import annotations

import math
from typing import Any, cast

import numpy as np
import pytest

from oodometer.core import inputs
from oodometer.core.array_types import Floats, Ints
from oodometer.core.errors import InputError, NotApplicable
from oodometer.core.random_streams import RowStreams
from oodometer.core.stats import rng_for
from oodometer.measures import hdh_divergence
from oodometer.measures._domain_classifiers import HeadName, SoftmaxHead
from oodometer.measures.h_divergence import Half
from oodometer.measures.hdh_divergence import (
    HDeltaHDivergence,
    HeadPair,
    random_labels,
    train_heads,
)
from oodometer.measures.subject import Subject, measure_one
from tests.support.feature_subjects import normal, shuffled, subject, with_classes

HEADS: tuple[HeadName, ...] = ("linear", "larger")
HALVES: tuple[Half, ...] = ("test", "train")


def value(toy: Subject, head: HeadName = "linear", half: Half = "test") -> float:
    return measure_one(HDeltaHDivergence(head, half), toy).value


# Theoretical values -----------------------------------------------------------------------------


@pytest.mark.parametrize("head", HEADS)
def test_value_of_separable_sides_matches_theory(head: HeadName) -> None:
    """Two classes: 2 (½ · ½ + ½ · 1) = 1.5; samples of one distribution stay below it."""
    n, d = (400, 60) if head == "linear" else (200, 40)
    source = normal(n, d, seed=0)
    same_distribution = value(subject(source, normal(n, d, seed=1)), head)
    shifted = value(subject(source, normal(n, d, seed=1, shift=2.0)), head)
    assert shifted == pytest.approx(1.5, abs=0.08)
    assert same_distribution < shifted - 0.1


def test_value_with_k_classes_matches_theory() -> None:
    toy = with_classes(normal(600, 10, seed=0), normal(600, 10, seed=1, shift=3.0), 5)
    assert value(toy) == pytest.approx(1 + 1 / 5, abs=0.08)


@pytest.mark.parametrize("head", HEADS)
def test_overfitting_shows_on_the_training_half(head: HeadName) -> None:
    """With more features than rows every label is fitted, and the sum is 2."""
    toy = subject(normal(40, 100, seed=0), normal(40, 100, seed=1))
    assert value(toy, head, "train") == 2.0
    assert value(toy, head, "test") < 1.7


# Naive implementation ---------------------------------------------------------------------------


class NaiveHead:
    """Linear head with gradients row by row and Adam as in its paper."""

    def __init__(self, start: SoftmaxHead) -> None:
        # A last feature of constant 1 replaces the biases.
        self.w = np.vstack([start.weights[0], start.biases[0]]).astype(float)
        self.m, self.v, self.t = np.zeros_like(self.w), np.zeros_like(self.w), 0

    def probs(self, row: Floats) -> Floats:
        odds = np.exp(np.append(row, 1.0) @ self.w)
        return np.asarray(odds / odds.sum())

    def predict(self, row: Floats) -> int:
        return int(np.argmax(self.probs(row)))

    def step(self, pairs: list[tuple[Floats, int]]) -> None:
        gradient = np.zeros_like(self.w)
        for row, label in pairs:
            wrong = self.probs(row) - np.eye(self.w.shape[1])[label]
            gradient += np.outer(np.append(row, 1.0), wrong) / len(pairs)
        self.t += 1
        self.m = 0.9 * self.m + 0.1 * gradient
        self.v = 0.999 * self.v + 0.001 * gradient**2
        m, v = self.m / (1 - 0.9**self.t), self.v / (1 - 0.999**self.t)
        self.w -= 0.01 * m / (np.sqrt(v) + 1e-8)


def drawn(side: Floats, used: int, k: int) -> list[tuple[Floats, list[int]]]:
    """Return rows in the order derived from their content, each with a random label per head."""
    draws = RowStreams(0, inputs.hash_rows(side), np.zeros(len(side), dtype=np.int64))
    labels = [
        [math.floor(k * u) for u in row] for row in draws.substream("random labels").uniforms(2)
    ]
    order = sorted(
        range(len(side)), key=lambda i: int(draws.substream("divergence").initial_states[i])
    )
    return [(side[i], labels[i]) for i in order[:used]]


def naive_divergence(
    source: Floats, target: Floats, k: int, *, batch: int, steps: int
) -> dict[str, float]:
    """Return Algorithms 2 and 4, row by row."""
    used, d = min(len(source), len(target)), source.shape[1]
    known, new = drawn(source, used, k), drawn(target, used, k)
    cut = math.ceil(used / 2)
    learned = np.array([row for row, _ in known[:cut] + new[:cut]])
    mean, deviation = learned.mean(axis=0), learned.std(axis=0)
    z_known = [((row - mean) / deviation, labels) for row, labels in known]
    z_new = [(row - mean) / deviation for row, _ in new]
    pair = [NaiveHead(SoftmaxHead("linear", d, k, rng_for(0, "head", i))) for i in (1, 2)]

    def targets(number: int, rows: list[int]) -> list[tuple[Floats, int]]:
        random = [(z_known[i][0], z_known[i][1][number]) for i in rows]
        return random + [(z_new[i], pair[1 - number].predict(z_new[i])) for i in rows]

    batches = np.array_split(np.arange(cut), math.ceil(2 * cut / batch))
    for step in range(steps):
        rows = batches[step % len(batches)].tolist()
        for number in (0, 1):
            pair[number].step(targets(number, rows))
    result = {}
    for half, rows in (("train", list(range(cut))), ("test", list(range(cut, used)))):
        each = [
            [pair[number].predict(z) == y for z, y in targets(number, rows)] for number in (0, 1)
        ]
        result[half] = sum(sum(right) / len(right) for right in each)
    return result


@pytest.mark.parametrize(("k", "batch"), [(2, 200), (3, 200), (3, 8)])
def test_values_match_naive_algorithm(k: int, batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hdh_divergence, "STEP_ROWS", batch)
    source, target = normal(31, 4, seed=2), normal(27, 4, seed=3, shift=0.5)
    toy = with_classes(source, target, k)
    expected = naive_divergence(source, target, k, batch=batch, steps=50)
    for half in HALVES:
        result = HDeltaHDivergence(half=half, steps=50).measure(toy)
        assert result.value == pytest.approx(expected[half], abs=1e-12)
        assert result.facts["steps"] == 50
    assert expected["train"] != expected["test"]


# Invariances ------------------------------------------------------------------------------------


@pytest.mark.parametrize("head", HEADS)
def test_row_order_and_repetition_do_not_matter(head: HeadName) -> None:
    toy = with_classes(normal(260, 12, seed=0), normal(230, 12, seed=1, shift=0.3), 3)
    measure = HDeltaHDivergence(head, steps=150)
    first = measure_one(measure, toy)
    assert measure_one(measure, toy) == first
    for seed in range(3):
        assert measure_one(measure, shuffled(toy, seed)) == first


def test_seed_changes_the_initial_heads() -> None:
    source, target = normal(100, 12, seed=0), normal(100, 12, seed=1)
    sides = subject(source, target)
    values = {value(Subject(sides.source, sides.target, seed=seed)) for seed in range(4)}
    assert len(values) > 1


# Random labels ----------------------------------------------------------------------------------


def test_random_labels_are_uniform_and_independent() -> None:
    labels = random_labels(subject(normal(6000, 1, seed=0), normal(4, 1, seed=1)).source, 3)
    assert labels.shape == (2, 6000)
    for own in labels:
        np.testing.assert_allclose(np.bincount(own) / 6000, 1 / 3, atol=0.03)
    assert (labels[0] == labels[1]).mean() == pytest.approx(1 / 3, abs=0.03)


def test_random_labels_depend_on_row_content() -> None:
    rows = normal(50, 2, seed=0)
    labels = random_labels(subject(rows, rows).source, 10)
    reversed_labels = random_labels(subject(rows[::-1].copy(), rows).source, 10)
    np.testing.assert_array_equal(labels, reversed_labels[:, ::-1])


# Convergence ------------------------------------------------------------------------------------


class ScriptedHead:
    """Head that predicts class 0 and returns a given sequence of losses."""

    def __init__(self, losses: list[float]) -> None:
        self.losses = losses
        self.seen: list[tuple[Floats, Ints]] = []

    def classes(self, features: Floats) -> Ints:
        return np.zeros(len(features), dtype=np.int64)

    def step(self, features: Floats, labels: Ints) -> float:
        self.seen.append((features, labels))
        return self.losses[min(len(self.seen), len(self.losses)) - 1]


def train_scripted(
    first: list[float], second: list[float], *, n: int, steps: int
) -> tuple[int, bool]:
    pair = cast(HeadPair, (ScriptedHead(first), ScriptedHead(second)))
    return train_heads(pair, np.zeros((2, n, 1)), np.ones((2, n), dtype=np.int64), max_steps=steps)


@pytest.mark.parametrize(("n", "window"), [(80, 100), (100, 100), (250, 102), (15000, 150)])
def test_constant_losses_converge_after_two_windows(n: int, window: int) -> None:
    assert train_scripted([1.0], [2.0], n=n, steps=3000) == (2 * window, True)


def test_both_losses_must_converge() -> None:
    falling = [0.01 * (500 - step) for step in range(500)]
    steps, converged = train_scripted([1.0], falling, n=10, steps=3000)
    assert converged
    assert 600 <= steps <= 700
    assert train_scripted(falling, [1.0], n=10, steps=3000) == (steps, True)
    assert train_scripted([1.0], falling, n=10, steps=450) == (450, False)


def test_every_step_has_equally_many_rows_of_both_sides() -> None:
    pair = (ScriptedHead([1.0]), ScriptedHead([1.0]))
    sides = np.stack([np.zeros((250, 1)), np.ones((250, 1))])
    labels = np.ones((2, 250), dtype=np.int64)
    train_heads(cast(HeadPair, pair), sides, labels, max_steps=3)
    assert [len(seen) for seen, _ in pair[0].seen] == [168, 166, 166]
    for seen, step_labels in pair[1].seen:
        np.testing.assert_array_equal(seen[:, 0], np.repeat([0, 1], len(seen) // 2))
        # Source labels are random; target labels are the predictions of the other head.
        np.testing.assert_array_equal(step_labels, 1 - seen[:, 0])


# Sharing, notes, errors -------------------------------------------------------------------------


def test_both_halves_share_one_training(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    def counted(*args: Any, **named: Any) -> tuple[int, bool]:
        calls.append(1)
        return train_heads(*args, **named)

    monkeypatch.setattr(hdh_divergence, "train_heads", counted)
    toy = subject(normal(40, 3, seed=0), normal(40, 3, seed=1))
    for half in (*HALVES, *HALVES):
        value(toy, half=half)
    assert len(calls) == 1


def test_notes_and_facts_describe_the_training() -> None:
    features_only = subject(normal(60, 3, seed=0), normal(70, 3, seed=1))
    result = HDeltaHDivergence(rows=50, steps=7).measure(features_only)
    assert result.notes == (
        "only 50 of 60 rows per side were used, drawn at random",
        "the number of classes is not known: the random labels have 2 classes",
        "the losses had not converged after 7 steps",
    )
    assert result.facts == {"rows": 50, "width": 3, "classes": 2, "steps": 7, "settled": 0}
    known = measure_one(
        HDeltaHDivergence(), with_classes(normal(60, 3, seed=0), normal(60, 3, seed=1), 4)
    )
    assert known.notes == ()
    assert (known.facts["classes"], known.facts["settled"]) == (4, 1)


def test_invalid_features_and_settings_are_rejected() -> None:
    with pytest.raises(NotApplicable, match=r"it needs at least 4 rows per side .* there are 3"):
        value(subject(normal(3, 2, seed=0), normal(9, 2, seed=1)))
    with pytest.raises(InputError, match="'source' has 2 features per row and 'target' has 3"):
        value(subject(normal(9, 2, seed=0), normal(9, 3, seed=1)))
    with pytest.raises(NotApplicable, match="all features are constant"):
        value(subject(np.ones((9, 2)), np.ones((9, 2))))
    with pytest.raises(InputError, match=r"steps must be at least 1; got 0\."):
        HDeltaHDivergence(steps=0)
    with pytest.raises(InputError, match="rows must be at least 4; got 0"):
        HDeltaHDivergence(rows=0)
