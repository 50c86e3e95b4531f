"""Neighborhood measures against counting by hand."""

from __future__ import annotations

import math
from collections import Counter
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oodometer.neighborhood import results

rows = st.integers(2, 13).flatmap(
    lambda n: st.lists(st.lists(st.integers(0, 5), min_size=n, max_size=n), min_size=1, max_size=9)
)


def by_hand(members: list[int]) -> tuple[float, float, float]:
    shares = [count / len(members) for count in Counter(members).values()]
    pairs = [a == b for a, b in combinations(members, 2)]
    return max(shares), sum(p * math.log(p) for p in shares), sum(pairs) / len(pairs)


@given(rows)
def test_measures_match_counting_by_hand(members: list[list[int]]) -> None:
    classes = np.array(members)
    computed = zip(
        results.neighborhood_invariance(classes),
        results.negative_entropy(classes),
        results.pairwise_agreement(classes, identity=True),
        strict=True,
    )
    for row, measures in zip(members, computed, strict=True):
        assert measures == pytest.approx(by_hand(row), abs=1e-12)


@given(rows)
def test_measures_are_bounded_and_invariant_to_class_numbers(
    members: list[list[int]],
) -> None:
    classes = np.array(members)
    n = min(classes.shape[1], 6)
    assert (results.neighborhood_invariance(classes) >= 1 / n - 1e-12).all()
    assert (results.negative_entropy(classes) >= -math.log(n) - 1e-12).all()
    renamed = np.array([3, 5, 0, 1, 4, 2])[classes]
    for measure in (
        results.neighborhood_invariance,
        results.negative_entropy,
        results.pair_agreement,
    ):
        assert np.allclose(measure(classes), measure(renamed))


def test_ni_uses_the_majority_of_all_members() -> None:
    """The share of the majority is 0.8; the share that agrees with the example is 0.2."""
    classes = np.array([[0, 1, 1, 1, 1]])
    assert results.neighborhood_invariance(classes) == 0.8


def test_pa_without_identity_compares_draws_only() -> None:
    classes = np.array([[0, 1, 1]])
    assert results.pairwise_agreement(classes, identity=False) == 1.0
    assert results.pairwise_agreement(classes, identity=True) == pytest.approx(1 / 3)


def test_blocks_do_not_change_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    classes = np.random.default_rng(0).integers(0, 4, (57, 11))
    whole = results.same_class_counts(classes)
    monkeypatch.setattr(results, "MAX_BLOCK_CELLS", 300)
    assert np.array_equal(results.same_class_counts(classes), whole)


def test_blocks_have_at_most_max_block_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "MAX_BLOCK_CELLS", 300)
    parts = [np.arange(57)[part] for part in results._row_slices(57, 11)]
    assert max(len(part) for part in parts) * 11 * 11 <= 300
    assert np.concatenate(parts).tolist() == list(range(57))


def simulated(members: int, rng: np.random.Generator, n: int = 60_000) -> np.ndarray:
    """Return an identity of class 0 and draws of class 0 with probability 0.7, else 1."""
    draws = (rng.random((n, members - 1)) > 0.7).astype(int)
    return np.concatenate([np.zeros((n, 1), dtype=int), draws], axis=1)


@pytest.mark.parametrize("members", [2, 3, 5, 11, 21])
def test_pa_of_draws_is_unbiased_for_every_number_of_draws(members: int) -> None:
    """Two random draws agree with probability 0.7² + 0.3² = 0.58."""
    classes = simulated(members + 1, np.random.default_rng(members))
    agreement = results.pairwise_agreement(classes, identity=False)
    assert agreement.mean() == pytest.approx(
        0.58, abs=4 * agreement.std() / np.sqrt(len(agreement))
    )


def test_upward_bias_of_ni_shrinks_with_more_draws() -> None:
    """The limit is 0.7; with two members NI is at least 0.5, and its mean is 0.79."""
    means = {
        members: results.neighborhood_invariance(
            simulated(members + 1, np.random.default_rng(members))[:, 1:]
        ).mean()
        for members in (2, 3, 5, 11, 41)
    }
    ordered = [means[members] for members in (2, 3, 5, 11, 41)]
    assert means[2] == pytest.approx(1 - 0.42 / 2, abs=0.01)
    assert ordered == sorted(ordered, reverse=True)
    assert 0.0 < means[41] - 0.7 < 0.01


@pytest.mark.parametrize("drawn", [2, 3, 6, 10])
def test_pa_of_partial_draws_is_unbiased_for_the_neighborhood(drawn: int) -> None:
    """Of 11 members, 2/11 of the pairs contain the identity (agreement 0.7), others not (0.58)."""
    classes = simulated(11, np.random.default_rng(drawn))
    classes[:, drawn + 1 :] = results.MISSING_CLASS
    agreement = results.pairwise_agreement(classes, identity=True)
    expected = 2 / 11 * 0.7 + 9 / 11 * 0.58
    assert agreement.mean() == pytest.approx(
        expected, abs=4 * agreement.std() / np.sqrt(len(agreement))
    )


def test_unweighted_pair_agreement_is_biased_by_the_identity() -> None:
    """Pairs of three members agree more often if one of them is the identity."""
    classes = simulated(3, np.random.default_rng(0))
    assert results.pair_agreement(classes).mean() > 2 / 11 * 0.7 + 9 / 11 * 0.58 + 0.01


def test_pa_of_two_members_is_agreement_with_the_identity() -> None:
    assert results.pairwise_agreement(np.array([[1, 1], [1, 0]]), identity=True).tolist() == [
        1.0,
        0.0,
    ]
