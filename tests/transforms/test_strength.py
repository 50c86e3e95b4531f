"""Strength of transforms: at most the magnitude ("up_to"), or exactly the magnitude ("fixed")."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.quality_strength import FILE, read_reviews, word_edit_distance, words_of
from oodometer import transforms
from oodometer.core.errors import InputError
from oodometer.core.keys import settings_key
from oodometer.core.random_streams import RowStreams
from oodometer.transforms import EDA, SSMBA, RandAugment, RandomReplacement, Translate
from oodometer.transforms.randaugment import OPERATIONS
from oodometer.transforms.registry import is_smoothness_name
from oodometer.transforms.strength import draw_change_count
from oodometer.transforms.text.masked_lm import draw_token_corruption
from tests.support.research_data import require_data
from tests.support.small_images import batch, drawn_for, many_draws
from tests.transforms.text.test_word_splitting import draws_for

WITH_STRENGTH = (RandAugment, SSMBA, EDA, RandomReplacement)
LETTERS = "abcdefghijklmnopqrstuvwxyz"
TEXTS = [" ".join(LETTERS[(i + j) % 26] for j in range(n)) for i, n in enumerate((1, 7, 20, 33))]


def generator_of(draws: RowStreams, row: int) -> np.random.Generator:
    return list(draws.generators())[row]


@given(st.integers(0, 100), st.integers(0, 2000), st.floats(0, 1, exclude_max=True))
def test_fixed_count_is_the_exact_ceiling(percent: int, n: int, uniform: float) -> None:
    exact = math.ceil(Fraction(percent, 100) * n)
    assert draw_change_count(percent / 100, n, uniform, strength="fixed") == exact


@pytest.mark.parametrize("kind", WITH_STRENGTH)
def test_default_strength_is_left_out_of_keys_and_repr(kind: Any) -> None:
    assert kind().strength == "up_to"
    assert "strength" not in settings_key(kind()) + repr(kind())
    fixed = kind(strength="fixed")
    assert settings_key(fixed).endswith(", strength='fixed'}")
    assert repr(fixed).endswith(", strength='fixed')")
    assert fixed != kind()
    assert eval(repr(fixed)) == fixed


def test_keys_at_the_default_equal_those_of_stored_results() -> None:
    assert [settings_key(kind()) for kind in WITH_STRENGTH] == [
        "randaugment{magnitude=15.0, n_ops=None}",
        "ssmba{magnitude=0.15, model=None}",
        "eda{magnitude=0.1, wordnet=None}",
        "random_replace{magnitude=0.15}",
    ]


@pytest.mark.parametrize("kind", WITH_STRENGTH)
@pytest.mark.parametrize("value", ["Fixed", "", None, 1])
def test_invalid_strength_raises(kind: Any, value: Any) -> None:
    with pytest.raises(InputError) as caught:
        kind(strength=value)
    assert str(caught.value) == (
        f"The strength of {kind.name} must be 'up_to' or 'fixed'; got {value!r}."
    )


@pytest.mark.parametrize("prefix", ["MS-", "mse-", "ms_", "MSE_"])
def test_smoothness_names_mean_fixed_strength(prefix: str) -> None:
    assert transforms.get(f"{prefix}RandAug") == RandAugment(strength="fixed")
    assert transforms.get(f"{prefix}rand") == RandAugment(strength="fixed")
    assert transforms.get(f"{prefix}SSMBA") == SSMBA(strength="fixed")
    assert transforms.get(f"{prefix}EDA") == EDA(strength="fixed")
    assert transforms.get(f"{prefix}Random") == RandomReplacement(strength="fixed")
    assert transforms.get(f"{prefix}RandRep") == RandomReplacement(strength="fixed")
    assert transforms.get(f"{prefix}Translate") == Translate()
    assert is_smoothness_name(f"{prefix}ssmba")


@pytest.mark.parametrize("prefix", ["", "NI-", "NE-", "EI-", "PA-"])
def test_other_names_mean_the_default_strength(prefix: str) -> None:
    assert transforms.get(f"{prefix}SSMBA") == SSMBA()
    assert not is_smoothness_name(f"{prefix}ssmba")
    with pytest.raises(InputError, match="No transform is called"):
        transforms.get(f"{prefix}Random")


def test_randaugment_at_fixed_strength_has_exactly_the_magnitude() -> None:
    chosen, amounts = RandAugment(strength="fixed").draw_operations(2, many_draws(2000))
    for number, operation in enumerate(OPERATIONS):
        reach = (operation.at_30 - operation.at_0) * 15 / 30
        expected = {operation.at_0 + reach, operation.at_0 - reach * operation.signed}
        if not operation.signed:
            expected = {operation.at_0 + reach}
        np.testing.assert_allclose(sorted(set(amounts[chosen == number])), sorted(expected))


def test_randaugment_draws_the_same_operations_and_signs_at_both_strengths() -> None:
    draws = many_draws(500)
    up_to, low = RandAugment().draw_operations(1, draws)
    fixed, high = RandAugment(strength="fixed").draw_operations(1, draws)
    starts = np.array([operation.at_0 for operation in OPERATIONS])[fixed]
    assert np.array_equal(up_to, fixed)
    assert (np.sign(low - starts) == np.sign(high - starts)).mean() == 1
    assert (np.abs(low - starts) <= np.abs(high - starts)).all()
    images = batch(40, 16, 16)
    own = drawn_for(images)
    assert not np.array_equal(
        RandAugment().apply(images, own), RandAugment(strength="fixed").apply(images, own)
    )


def test_random_replacement_changes_exactly_the_selected_words() -> None:
    learned = RandomReplacement(strength="fixed").learn(["0 1 2 3 4 5 6 7 8 9"])
    draws = draws_for(TEXTS)
    for row, (text, changed) in enumerate(zip(TEXTS, learned.apply(TEXTS, draws), strict=True)):
        old, new = words_of(text), words_of(changed)
        selected = learned.select_words(len(old), generator_of(draws, row))
        assert len(selected) == len(set(selected.tolist())) == math.ceil(0.15 * len(old))
        differing = [i for i, (a, b) in enumerate(zip(old, new, strict=True)) if a != b]
        assert sorted(selected.tolist()) == differing


def test_ssmba_changes_only_the_selected_words() -> None:
    learned = SSMBA(strength="fixed").learn(TEXTS)
    draws = draws_for(TEXTS)
    n_changed = 0
    for row, (text, changed) in enumerate(zip(TEXTS, learned.apply(TEXTS, draws), strict=True)):
        old, new = words_of(text), words_of(changed)
        selected, _, _ = draw_token_corruption(
            len(old), 0.15, generator_of(draws, row), strength="fixed"
        )
        assert len(set(selected.tolist())) == math.ceil(0.15 * len(old))
        differing = {i for i, (a, b) in enumerate(zip(old, new, strict=True)) if a != b}
        assert differing <= set(selected.tolist())
        n_changed += len(differing)
    assert n_changed > 0


def test_ssmba_masks_80_replaces_10_and_keeps_10_percent_of_the_selection() -> None:
    chosen, masked, replaced = draw_token_corruption(
        100_000, 0.15, np.random.default_rng(0), strength="fixed"
    )
    assert len(chosen) == len(np.unique(chosen)) == 15_000
    assert not (masked & replaced).any()
    # Five standard errors of shares of 15,000 tokens.
    assert abs(masked.mean() - 0.8) < 5 * math.sqrt(0.16 / 15_000)
    assert abs(replaced.mean() - 0.1) < 5 * math.sqrt(0.09 / 15_000)


@pytest.mark.parametrize("kind", [SSMBA, EDA, RandomReplacement])
def test_fixed_strength_depends_only_on_the_stream_of_the_row(kind: Any) -> None:
    texts = [f"{text} good cars" for text in TEXTS]
    learned, draws = kind(strength="fixed").learn(texts), draws_for(texts)
    alone = [learned.apply([t], draws.rows(slice(i, i + 1)))[0] for i, t in enumerate(texts)]
    assert learned.apply(texts, draws) == alone
    assert kind(magnitude=0, strength="fixed").learn(texts).apply(texts, draws) == texts
    assert learned.apply(["", " ?"], draws.rows(slice(0, 2))) == ["", " ?"]


@given(st.lists(st.sampled_from("abc"), max_size=7), st.lists(st.sampled_from("abc"), max_size=7))
def test_word_edit_distance_of_the_benchmark_matches_the_recursion(
    before: list[str], after: list[str]
) -> None:
    @cache
    def distance(i: int, j: int) -> int:
        if i == 0 or j == 0:
            return i + j
        replaced = distance(i - 1, j - 1) + (before[i - 1] != after[j - 1])
        return min(distance(i - 1, j) + 1, distance(i, j - 1) + 1, replaced)

    assert word_edit_distance(before, after) == distance(len(before), len(after))


@pytest.fixture(scope="module")
def reviews() -> list[str]:
    """Return 400 real reviews, 25 of each of 16 domains."""
    texts = read_reviews(require_data(FILE))
    assert len(texts) == 400
    return texts


@pytest.mark.realdata
def test_fixed_strength_selects_15_percent_of_the_words_of_each_real_review(
    reviews: list[str],
) -> None:
    draws = draws_for(reviews)
    replacement = RandomReplacement(strength="fixed").learn(reviews)
    for text, rng, again in zip(reviews, draws.generators(), draws.generators(), strict=True):
        n = len(words_of(text))
        expected = math.ceil(Fraction(15, 100) * n)
        assert len(set(replacement.select_words(n, rng).tolist())) == expected
        chosen, masked, replaced = draw_token_corruption(n, 0.15, again, strength="fixed")
        assert len(set(chosen.tolist())) == len(masked) == len(replaced) == expected


@pytest.mark.realdata
def test_fixed_strength_applies_four_edits_to_10_percent_of_the_words_of_each_real_review(
    reviews: list[str],
) -> None:
    transform = EDA(strength="fixed")
    lookup = transform.synonym_lookup()
    if lookup is None:
        pytest.skip("WordNet is not installed")
    draws = draws_for(reviews)
    changed = []
    for text, rng in zip(reviews, draws.generators(), strict=True):
        edited, selected = transform.edit(text, rng, lookup)
        n = len(words_of(text))
        expected = math.ceil(Fraction(10, 100) * n)
        assert {edit: len(set(pieces)) for edit, pieces in selected.items()} == {
            "replace_by_synonyms": expected,
            "insert_words": expected,
            "swap_each_word": expected,
            "delete_words": expected,
        }
        changed.append(edited)
    assert transform.apply(reviews, draws) == changed
