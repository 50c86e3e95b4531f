"""Leaderboard: order, known accuracies, and their summaries."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oodometer.core.errors import InputError
from oodometer.data import as_dataset
from oodometer.report.leaderboard import (
    LeaderboardRow,
    accuracies,
    best_known_summary,
    concordant_pairs,
    format_probability,
    leaderboard_from_neighborhoods,
    leaderboard_from_ranking,
    leaderboard_summary,
)
from tests.support import invariance_runs
from tests.support.invariance_runs import Hashed, run_invariance

VECTORS = np.random.default_rng(0).normal(size=(30, 3))
MODELS = Hashed("a"), Hashed("b", salt=7, sure=0.8), Hashed("c", salt=2**64 - 1)


def test_leaderboard_keeps_the_ranking() -> None:
    result, _ = invariance_runs.run_ranking(VECTORS, *MODELS, score="pa")
    rows = leaderboard_from_ranking(result, {"b": 0.25})
    assert [row.model for row in rows] == list(result.names)
    for row, one in zip(rows, result, strict=True):
        assert (row.value, row.low, row.high) == (one.value, one.low, one.high)
        assert row.higher_in_resamples == one.higher_in_resamples
        assert row.known_accuracy == (0.25 if row.model == "b" else None)
        assert set(row.readings) == (
            {"ni", "ne", "ei", "pa"} if row.model == "b" else {"ni", "ne", "pa"}
        )
        assert row.notes == one.notes
    assert rows[0].model == "c"


def test_models_of_a_run_are_sorted() -> None:
    run = run_invariance(VECTORS, *MODELS)
    rows = leaderboard_from_neighborhoods(run.found, "ni", {})
    assert [row.value for row in rows] == sorted((r.value for r in rows), reverse=True)
    for row in rows:
        read = run.found[row.model].mean_with_interval("ni")
        assert (row.value, row.low, row.high, row.higher_in_resamples) == (
            read.value,
            read.low,
            read.high,
            None,
        )


def test_main_measure_is_pa_with_partial_draws() -> None:
    assert run_invariance(VECTORS).found.main_measure == "ni"
    many = np.random.default_rng(0).normal(size=(250, 3))
    assert run_invariance(many, draws=8, max_inputs=630).found.main_measure == "pa"


NAMES = ("cat", "dog & co", "größe")


@pytest.mark.parametrize(
    ("names", "labels"),
    [
        (None, lambda c: c),
        (None, lambda c: c.astype(float)),
        (NAMES, lambda c: c),
        (NAMES, lambda c: np.array(NAMES)[c]),
        (("2", "0", "1"), lambda c: np.array(("2", "0", "1"))[c]),
        (("2", "0", "1"), lambda c: np.array((2, 0, 1))[c]),
    ],
)  # fmt: skip
def test_accuracy_is_the_share_of_correct_examples(names: Any, labels: Any) -> None:
    model = Hashed("a", names=names)
    classes = model.classify(VECTORS).classes.copy()
    classes[:6] = (classes[:6] + 1) % 3
    data = as_dataset(VECTORS, labels=labels(classes))
    run = run_invariance(data, model)
    assert accuracies(run.found, data.labels) == {"a": 0.8}


def test_accuracy_uses_the_sampled_examples() -> None:
    data = np.random.default_rng(0).normal(size=(250, 3))
    truth = Hashed("a").classify(data).classes.copy()
    truth[::2] = (truth[::2] + 1) % 3
    run = run_invariance(as_dataset(data, labels=truth), draws=8, max_inputs=630)
    seen = run.found[0].positions
    assert len(seen) < 250
    right = float(np.mean(seen % 2 == 1))
    assert accuracies(run.found, run.show.dataset.labels) == {"first": pytest.approx(right)}


def test_unknown_labels_are_rejected_and_missing_labels_give_none() -> None:
    run = run_invariance(VECTORS)
    assert accuracies(run.found, None) == {}
    with pytest.raises(InputError, match="bird"):
        accuracies(run.found, np.array(["bird"] * 30))


known = st.one_of(st.none(), st.sampled_from([0.1, 0.5, 0.5, 0.9]))


@given(st.lists(st.tuples(st.sampled_from([0.2, 0.4, 0.6]), known), min_size=1, max_size=8))
def test_concordant_pairs_match_a_naive_loop(pairs: list[tuple[float, float | None]]) -> None:
    rows = [
        LeaderboardRow(str(i), value, value, value, known_accuracy=k)
        for i, (value, k) in enumerate(pairs)
    ]
    right = total = 0
    for i in range(len(pairs)):
        for j in range(i):
            (value, truth), (other, other_truth) = pairs[i], pairs[j]
            if truth is not None and other_truth is not None and truth != other_truth:
                total += 1
                right += value != other and (value > other) == (truth > other_truth)
    assert concordant_pairs(rows) == (right, total)


def test_summary_describes_the_order_and_its_reliability() -> None:
    rows = [
        LeaderboardRow("a", 0.9, 0.8, 1.0, 0.96),
        LeaderboardRow("b", 0.8, 0.7, 0.9, 0.6),
        LeaderboardRow("c", 0.7, 0.6, 0.8),
    ]
    assert leaderboard_summary(rows, "NI-X") == (
        "a has the highest NI-X; it is higher than that of b (0.800) in 96 % of resamples. "
        "1 of the 2 steps from one model to the next is certain (95 % of resamples or more)."
    )
    plain = [LeaderboardRow("a", 0.9, 0.8, 1.0), LeaderboardRow("b" * 100, 0.8, 0.7, 0.9)]
    assert (
        leaderboard_summary(plain, "NI-X")
        == f"a has the highest NI-X; next is {'b' * 59}… (0.800)."
    )


def test_tied_first_models_are_both_named() -> None:
    rows = [LeaderboardRow("a", 0.5, 0.4, 0.6, 0.3), LeaderboardRow("b", 0.5, 0.4, 0.6)]
    assert leaderboard_summary(rows, "NI-X + doc") == (
        "a and b have the same NI-X + doc (0.500), and no model has a higher one; that of a is "
        "higher in 30 % of resamples."
    )


def test_caution_follows_the_order() -> None:
    rows = [
        LeaderboardRow("a", 0.9, 0.8, 1.0, 0.99, caution="The rank of a is not to be trusted."),
        LeaderboardRow("b", 0.8, 0.7, 0.9),
    ]
    assert leaderboard_summary(rows, "NI-X").endswith(
        "in 99 % of resamples. The rank of a is not to be trusted."
    )


def test_right_to_left_names_are_isolated() -> None:
    name = "\u202eabc"
    rows = [LeaderboardRow(name, 0.9, 0.8, 1.0, 0.9), LeaderboardRow("b", 0.8, 0.7, 0.9)]
    assert leaderboard_summary(rows, "NI").startswith(f"\u2068{name}\u2069 has the highest NI")


@given(st.floats(0, 1))
def test_probabilities_are_never_0_or_100_percent(probability: float) -> None:
    text = format_probability(probability)
    assert text not in ("0 %", "100 %")
    assert text.endswith(" %")


def test_best_model_of_known_accuracy_is_named() -> None:
    first, other = (
        LeaderboardRow("a", 0.9, 0.8, 1.0, known_accuracy=0.9),
        LeaderboardRow("b", 0.8, 0.7, 0.9, known_accuracy=0.8),
    )
    assert (
        best_known_summary([first, other]) == "Of the models of known accuracy, a is best (90.0 %)."
    )
    assert best_known_summary([first]) == ""
    assert best_known_summary([LeaderboardRow("c", 1.0, 1.0, 1.0), first, other]).endswith(
        "a is best (90.0 %)."
    )
