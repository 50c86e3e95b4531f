"""HΔH-divergence: what theory says of it, a literal twin, and what must not change it."""

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


def value(one: Subject, head: HeadName = "linear", half: Half = "test") -> float:
    return measure_one(HDeltaHDivergence(head, half), one).value


# What theory says -------------------------------------------------------------------------------


@pytest.mark.parametrize("head", HEADS)
def test_far_apart_the_heads_agree_on_the_target_and_guess_on_the_source(head: HeadName) -> None:
    """Of two classes: 2 (½ · ½ + ½ · 1) = 1.5; rows of one distribution stay below it."""
    n, d = (400, 60) if head == "linear" else (200, 40)
    source = normal(n, d, seed=0)
    alike = value(subject(source, normal(n, d, seed=1)), head)
    apart = value(subject(source, normal(n, d, seed=1, shift=2.0)), head)
    assert apart == pytest.approx(1.5, abs=0.08)
    assert alike < apart - 0.1


def test_of_k_classes_the_source_is_guessed_once_in_k() -> None:
    one = with_classes(normal(600, 10, seed=0), normal(600, 10, seed=1, shift=3.0), 5)
    assert value(one) == pytest.approx(1 + 1 / 5, abs=0.08)


@pytest.mark.parametrize("head", HEADS)
def test_what_was_learned_by_heart_shows_on_the_training_half(head: HeadName) -> None:
    """More features than rows: every label is learned, and the sum is 2."""
    one = subject(normal(40, 100, seed=0), normal(40, 100, seed=1))
    assert value(one, head, "train") == 2.0
    assert value(one, head, "test") < 1.7


# A literal twin ---------------------------------------------------------------------------------


class Slow:
    """A linear head: gradients row by row, and Adam as its paper prints it."""

    def __init__(self, start: SoftmaxHead) -> None:
        # A last feature that is always 1 stands for the biases.
        self.w = np.vstack([start.weights[0], start.biases[0]]).astype(float)
        self.m, self.v, self.t = np.zeros_like(self.w), np.zeros_like(self.w), 0

    def probs(self, row: Floats) -> Floats:
        odds = np.exp(np.append(row, 1.0) @ self.w)
        return np.asarray(odds / odds.sum())

    def says(self, row: Floats) -> int:
        return int(np.argmax(self.probs(row)))

    def step(self, pairs: list[tuple[Floats, int]]) -> None:
        slope = np.zeros_like(self.w)
        for row, label in pairs:
            wrong = self.probs(row) - np.eye(self.w.shape[1])[label]
            slope += np.outer(np.append(row, 1.0), wrong) / len(pairs)
        self.t += 1
        self.m = 0.9 * self.m + 0.1 * slope
        self.v = 0.999 * self.v + 0.001 * slope**2
        m, v = self.m / (1 - 0.9**self.t), self.v / (1 - 0.999**self.t)
        self.w -= 0.01 * m / (np.sqrt(v) + 1e-8)


def drawn(side: Floats, used: int, k: int) -> list[tuple[Floats, list[int]]]:
    """Rows by their content's order, each with a random label for either head."""
    draws = RowStreams(0, inputs.hash_rows(side), np.zeros(len(side), dtype=np.int64))
    labels = [
        [math.floor(k * u) for u in row] for row in draws.substream("random labels").uniforms(2)
    ]
    order = sorted(
        range(len(side)), key=lambda i: int(draws.substream("divergence").initial_states[i])
    )
    return [(side[i], labels[i]) for i in order[:used]]


def twin(source: Floats, target: Floats, k: int, *, batch: int, steps: int) -> dict[str, float]:
    """Algorithms 2 and 4, a row at a time."""
    used, d = min(len(source), len(target)), source.shape[1]
    known, new = drawn(source, used, k), drawn(target, used, k)
    cut = math.ceil(used / 2)
    learned = np.array([row for row, _ in known[:cut] + new[:cut]])
    mean, deviation = learned.mean(axis=0), learned.std(axis=0)
    z_known = [((row - mean) / deviation, labels) for row, labels in known]
    z_new = [(row - mean) / deviation for row, _ in new]
    pair = [Slow(SoftmaxHead("linear", d, k, rng_for(0, "head", i))) for i in (1, 2)]

    def targets(me: int, rows: list[int]) -> list[tuple[Floats, int]]:
        random = [(z_known[i][0], z_known[i][1][me]) for i in rows]
        return random + [(z_new[i], pair[1 - me].says(z_new[i])) for i in rows]

    batches = np.array_split(np.arange(cut), math.ceil(2 * cut / batch))
    for step in range(steps):
        rows = batches[step % len(batches)].tolist()
        for me in (0, 1):
            pair[me].step(targets(me, rows))
    found = {}
    for half, rows in (("train", list(range(cut))), ("test", list(range(cut, used)))):
        each = [[pair[me].says(z) == y for z, y in targets(me, rows)] for me in (0, 1)]
        found[half] = sum(sum(right) / len(right) for right in each)
    return found


@pytest.mark.parametrize(("k", "batch"), [(2, 200), (3, 200), (3, 8)])
def test_it_is_the_algorithm_of_the_paper(
    k: int, batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hdh_divergence, "STEP_ROWS", batch)
    source, target = normal(31, 4, seed=2), normal(27, 4, seed=3, shift=0.5)
    one = with_classes(source, target, k)
    literal = twin(source, target, k, batch=batch, steps=50)
    for half in HALVES:
        found = HDeltaHDivergence(half=half, steps=50).measure(one)
        assert found.value == pytest.approx(literal[half], abs=1e-12)
        assert found.facts["steps"] == 50
    assert literal["train"] != literal["test"]


# What must not change it ------------------------------------------------------------------------


@pytest.mark.parametrize("head", HEADS)
def test_neither_the_order_of_rows_nor_asking_again_changes_it(head: HeadName) -> None:
    one = with_classes(normal(260, 12, seed=0), normal(230, 12, seed=1, shift=0.3), 3)
    measure = HDeltaHDivergence(head, steps=150)
    first = measure_one(measure, one)
    assert measure_one(measure, one) == first
    for seed in range(3):
        assert measure_one(measure, shuffled(one, seed)) == first


def test_another_seed_starts_other_heads() -> None:
    source, target = normal(100, 12, seed=0), normal(100, 12, seed=1)
    sides = subject(source, target)
    values = {value(Subject(sides.source, sides.target, seed=seed)) for seed in range(4)}
    assert len(values) > 1


# Random labels ----------------------------------------------------------------------------------


def test_random_labels_are_even_and_differ_between_heads() -> None:
    labels = random_labels(subject(normal(6000, 1, seed=0), normal(4, 1, seed=1)).source, 3)
    assert labels.shape == (2, 6000)
    for own in labels:
        np.testing.assert_allclose(np.bincount(own) / 6000, 1 / 3, atol=0.03)
    assert (labels[0] == labels[1]).mean() == pytest.approx(1 / 3, abs=0.03)


def test_random_labels_go_with_the_row() -> None:
    rows = normal(50, 2, seed=0)
    labels = random_labels(subject(rows, rows).source, 10)
    turned = random_labels(subject(rows[::-1].copy(), rows).source, 10)
    np.testing.assert_array_equal(labels, turned[:, ::-1])


# Settling ---------------------------------------------------------------------------------------


class Told:
    """A head that says class 0 and whose losses are given."""

    def __init__(self, losses: list[float]) -> None:
        self.losses = losses
        self.seen: list[tuple[Floats, Ints]] = []

    def classes(self, features: Floats) -> Ints:
        return np.zeros(len(features), dtype=np.int64)

    def step(self, features: Floats, labels: Ints) -> float:
        self.seen.append((features, labels))
        return self.losses[min(len(self.seen), len(self.losses)) - 1]


def taught(first: list[float], second: list[float], *, n: int, steps: int) -> tuple[int, bool]:
    pair = cast(HeadPair, (Told(first), Told(second)))
    return train_heads(pair, np.zeros((2, n, 1)), np.ones((2, n), dtype=np.int64), max_steps=steps)


@pytest.mark.parametrize(("n", "window"), [(80, 100), (100, 100), (250, 102), (15000, 150)])
def test_flat_losses_have_settled_after_two_windows_of_whole_passes(n: int, window: int) -> None:
    assert taught([1.0], [2.0], n=n, steps=3000) == (2 * window, True)


def test_both_losses_must_settle() -> None:
    falling = [0.01 * (500 - step) for step in range(500)]
    steps, settled = taught([1.0], falling, n=10, steps=3000)
    assert settled
    assert 600 <= steps <= 700
    assert taught(falling, [1.0], n=10, steps=3000) == (steps, True)
    assert taught([1.0], falling, n=10, steps=450) == (450, False)


def test_every_step_has_as_many_rows_of_either_side() -> None:
    pair = (Told([1.0]), Told([1.0]))
    sides = np.stack([np.zeros((250, 1)), np.ones((250, 1))])
    labels = np.ones((2, 250), dtype=np.int64)
    train_heads(cast(HeadPair, pair), sides, labels, max_steps=3)
    assert [len(seen) for seen, _ in pair[0].seen] == [168, 166, 166]
    for seen, told in pair[1].seen:
        np.testing.assert_array_equal(seen[:, 0], np.repeat([0, 1], len(seen) // 2))
        # The source's are the random labels, the target's what the other head says.
        np.testing.assert_array_equal(told, 1 - seen[:, 0])


# Sharing, notes, refusals -----------------------------------------------------------------------


def test_both_halves_share_one_training(monkeypatch: pytest.MonkeyPatch) -> None:
    times: list[int] = []

    def counted(*args: Any, **named: Any) -> tuple[int, bool]:
        times.append(1)
        return train_heads(*args, **named)

    monkeypatch.setattr(hdh_divergence, "train_heads", counted)
    one = subject(normal(40, 3, seed=0), normal(40, 3, seed=1))
    for half in (*HALVES, *HALVES):
        value(one, half=half)
    assert len(times) == 1


def test_what_was_used_and_what_was_not_known_is_told() -> None:
    alone = subject(normal(60, 3, seed=0), normal(70, 3, seed=1))
    found = HDeltaHDivergence(rows=50, steps=7).measure(alone)
    assert found.notes == (
        "only 50 of 60 rows a side were used, drawn at random",
        "how many classes there are is not known: the random labels are of 2",
        "the losses had not settled after 7 steps",
    )
    assert found.facts == {"rows": 50, "width": 3, "classes": 2, "steps": 7, "settled": 0}
    known = measure_one(
        HDeltaHDivergence(), with_classes(normal(60, 3, seed=0), normal(60, 3, seed=1), 4)
    )
    assert known.notes == ()
    assert (known.facts["classes"], known.facts["settled"]) == (4, 1)


def test_bad_features_and_settings_are_refused() -> None:
    with pytest.raises(NotApplicable, match="3 rows a side are less than 4"):
        value(subject(normal(3, 2, seed=0), normal(9, 2, seed=1)))
    with pytest.raises(InputError, match="'source' are 2 wide, those of 'target' 3"):
        value(subject(normal(9, 2, seed=0), normal(9, 3, seed=1)))
    with pytest.raises(NotApplicable, match="nothing to tell apart"):
        value(subject(np.ones((9, 2)), np.ones((9, 2))))
    with pytest.raises(InputError, match=r"steps must be at least 1; got 0\. 3000 is usual"):
        HDeltaHDivergence(steps=0)
    with pytest.raises(InputError, match="rows must be at least 4; got 0"):
        HDeltaHDivergence(rows=0)
