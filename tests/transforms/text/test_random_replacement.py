from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from oodometer.core.errors import InputError
from oodometer.core.random_streams import RowStreams
from oodometer.transforms.strength import draw_change_count
from oodometer.transforms.text._word_splitting import split_words
from oodometer.transforms.text.random_replacement import RandomReplacement
from tests.transforms.text.test_word_splitting import draws_for

TEXTS = ["One two, three four! " * 5, "five six.", "", " ?", "seven"]


def slow(text: str, vocabulary: list[str], rng: np.random.Generator, share: float) -> str:
    """Replace words one by one, as an obvious reference implementation."""
    words = split_words(text)[1::2]
    if not words:
        return text
    count = draw_change_count(share, len(words), rng.random())
    chosen = list(rng.permutation(len(words)))[:count]
    new = {
        place: vocabulary[i]
        for place, i in zip(chosen, rng.integers(len(vocabulary), size=count), strict=True)
    }
    result, number = "", 0
    for place, piece in enumerate(split_words(text)):
        result += new.get(number, piece) if place % 2 else piece
        number += place % 2
    return result


def test_replacement_matches_the_reference() -> None:
    learned = RandomReplacement().learn(TEXTS)
    draws = draws_for(TEXTS)
    vocabulary = sorted({w for text in TEXTS for w in split_words(text)[1::2]})
    expected = [
        slow(t, vocabulary, rng, 0.15) for t, rng in zip(TEXTS, draws.generators(), strict=True)
    ]
    assert learned.apply(TEXTS, draws) == expected
    assert expected[0] != TEXTS[0]
    assert expected[2:4] == TEXTS[2:4]


def test_words_are_uniform_over_the_vocabulary() -> None:
    learned = RandomReplacement().learn(["a a a a b c d"])
    draws = RowStreams(0, np.zeros(4000, dtype=np.uint64), np.arange(4000))
    drawn: Counter[str] = Counter(learned.apply(["x"] * 4000, draws))
    assert set(drawn) == {"a", "b", "c", "d"}
    assert all(abs(count - 1000) < 150 for count in drawn.values())


def test_both_sides_of_pairs_are_changed() -> None:
    pairs = [("a b c", "a b c")] * 20
    learned = RandomReplacement().learn(pairs)
    changed = learned.apply(pairs, RowStreams(0, np.zeros(20, dtype=np.uint64), np.arange(20)))
    assert any(left != right for left, right in changed)


def test_vocabulary_is_not_compared() -> None:
    learned = RandomReplacement().learn(TEXTS)
    assert learned == RandomReplacement()
    assert hash(learned) == hash(RandomReplacement())
    assert repr(learned) == "RandomReplacement(magnitude=0.15)"


def test_apply_before_learn_and_learning_without_words_raise() -> None:
    with pytest.raises(InputError, match=r"no vocabulary.* Call learn"):
        RandomReplacement().apply(TEXTS, draws_for(TEXTS))
    with pytest.raises(InputError, match=r"no words to learn from.* Learn from"):
        RandomReplacement().learn(["?!", ""])
    assert RandomReplacement(magnitude=0.0).apply(TEXTS, draws_for(TEXTS)) == TEXTS
