"""Counts behind charts against naive loops."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oodometer import Predictions
from oodometer.report.histograms import (
    MAX_BARS,
    MAX_CLASSES,
    class_shares,
    confidence_histogram,
    histogram_bars,
    reliability_bins,
    unique_labels,
)

finite = st.floats(-3, 1).map(lambda value: round(value, 3))


def random(seed: int, n: int, k: int) -> Predictions:
    rng = np.random.default_rng(seed)
    return Predictions.from_probs(rng.dirichlet(np.full(k, 0.4), n), labels=rng.integers(k, size=n))


def test_confidence_histogram_matches_a_naive_count() -> None:
    source, target = random(0, 300, 5), random(1, 200, 5)
    histogram = confidence_histogram(source, target)
    assert histogram.edges[0] == 0.2
    for rows, shares in ((source, histogram.source), (target, histogram.target)):
        assert shares.sum() == pytest.approx(1.0)
        last = len(shares) - 1
        for j, share in enumerate(shares):
            low, high = histogram.edges[j], histogram.edges[j + 1]
            inside = [c for c in rows.confidence if low <= c < high or (j == last and c == high)]
            assert share == pytest.approx(len(inside) / rows.n)


def test_reliability_bins_contain_every_row_once() -> None:
    source = random(2, 500, 3)
    bins = reliability_bins(source)
    assert sum(one.n for one in bins) == source.n
    right = sum(one.n * one.accuracy for one in bins)
    assert right == pytest.approx(np.count_nonzero(source.correct))
    assert all(one.low <= one.accuracy <= one.high for one in bins)


def test_few_classes_are_all_shown() -> None:
    shares = class_shares(random(3, 100, 3), random(4, 100, 3))
    assert [one.name for one in shares] == ["0", "1", "2"]


def test_rare_classes_are_grouped() -> None:
    source, target = random(5, 2_000, 100), random(6, 1_000, 100)
    shares = class_shares(source, target)
    assert len(shares) == MAX_CLASSES + 1
    assert shares[-1].name == "other (70 classes)"
    assert sum(one.source for one in shares) == pytest.approx(1.0)
    assert sum(one.target for one in shares) == pytest.approx(1.0)
    for one in shares[:-1]:
        assert one.source == pytest.approx(np.mean(source.classes == int(one.name)))


@given(st.lists(st.text(max_size=3) | st.just("a" * 70), max_size=20))
def test_labels_are_distinct_and_short(names: list[str]) -> None:
    labels = unique_labels(names)
    assert len(set(labels)) == len(names)
    assert all(len(label) <= 65 for label in labels)


@given(st.lists(finite, min_size=1, max_size=80), st.lists(finite, min_size=1, max_size=80))
def test_histogram_bars_match_a_naive_loop(first: list[float], second: list[float]) -> None:
    both = histogram_bars([np.array(first), np.array(second)])
    for values, bars in zip((first, second), both, strict=True):
        assert sum(bar.share for bar in bars) == pytest.approx(100, abs=0.05)
        assert len(bars) <= MAX_BARS
        for bar in bars:
            assert bar.left < bar.right
        slow = shares_of_a_loop(values, [*first, *second])
        assert [bar.share for bar in bars] == pytest.approx(slow, abs=1e-3)
    assert [(b.left, b.value) for b in both[0]] == [(b.left, b.value) for b in both[1]]


def shares_of_a_loop(values: list[float], every: list[float]) -> list[float]:
    """Count values one by one: per level if there are few, else per bin."""
    levels = sorted(set(every))
    edges = np.linspace(levels[0], levels[-1], MAX_BARS + 1).tolist()
    counts = [0] * (len(levels) if len(levels) <= MAX_BARS else MAX_BARS)
    for value in values:
        place = levels.index(value)
        if len(levels) > MAX_BARS:
            place = next((j for j in range(MAX_BARS) if value < edges[j + 1]), MAX_BARS - 1)
        counts[place] += 1
    return [100 * count / len(values) for count in counts]


def test_few_values_have_own_bars_and_many_are_binned() -> None:
    (few,) = histogram_bars([np.array([1 / 3, 1.0, 1.0])])
    assert [(bar.value, bar.share) for bar in few] == [("0.333", 33.333), ("1.000", 66.667)]
    assert few[0].right < few[1].left
    (many,) = histogram_bars([np.linspace(-1, 0, 100)])
    assert len(many) == MAX_BARS
    assert many[0].value == "−1.000 to −0.958"
