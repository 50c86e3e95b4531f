"""The fast counts against slow, obvious loops."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oodometer import Predictions
from oodometer.report.histograms import (
    MAX_CLASSES,
    class_shares,
    confidence_histogram,
    reliability_bins,
    unique_labels,
)


def random(seed: int, n: int, k: int) -> Predictions:
    rng = np.random.default_rng(seed)
    return Predictions.from_probs(rng.dirichlet(np.full(k, 0.4), n), labels=rng.integers(k, size=n))


def test_confidences_are_counted_between_their_edges() -> None:
    source, target = random(0, 300, 5), random(1, 200, 5)
    found = confidence_histogram(source, target)
    assert found.edges[0] == 0.2
    for rows, shares in ((source, found.source), (target, found.target)):
        assert shares.sum() == pytest.approx(1.0)
        last = len(shares) - 1
        for j, share in enumerate(shares):
            low, high = found.edges[j], found.edges[j + 1]
            inside = [c for c in rows.confidence if low <= c < high or (j == last and c == high)]
            assert share == pytest.approx(len(inside) / rows.n)


def test_reliability_bins_hold_every_row_once() -> None:
    source = random(2, 500, 3)
    bins = reliability_bins(source)
    assert sum(one.n for one in bins) == source.n
    right = sum(one.n * one.accuracy for one in bins)
    assert right == pytest.approx(np.count_nonzero(source.correct))
    assert all(one.low <= one.accuracy <= one.high for one in bins)


def test_few_classes_are_all_shown() -> None:
    shares = class_shares(random(3, 100, 3), random(4, 100, 3))
    assert [one.name for one in shares] == ["0", "1", "2"]


def test_the_rarest_of_many_classes_are_lumped() -> None:
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
    found = unique_labels(names)
    assert len(set(found)) == len(names)
    assert all(len(label) <= 65 for label in found)
