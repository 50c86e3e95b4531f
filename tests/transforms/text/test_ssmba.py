from __future__ import annotations

import numpy as np
import pytest

from oodometer.core.errors import InputError
from oodometer.core.random_streams import RowStreams
from oodometer.transforms.text._word_splitting import split_words
from oodometer.transforms.text.ngram_infill import GAP_TOKEN
from oodometer.transforms.text.ssmba import SSMBA
from tests.transforms.text.test_ngram_infill import grammar
from tests.transforms.text.test_word_splitting import draws_for

TEXTS = [" ".join(grammar(6, seed)) for seed in range(20)]


def test_resampled_words_are_within_the_magnitude() -> None:
    learned = SSMBA().learn(TEXTS)
    changed = learned.apply(TEXTS, draws_for(TEXTS))
    for before, after in zip(TEXTS, changed, strict=True):
        old, new = split_words(before), split_words(after)
        assert old[0::2] == new[0::2]
        moved = sum(a != b for a, b in zip(old[1::2], new[1::2], strict=True))
        assert moved <= int(0.15 * len(old[1::2]))
    assert changed != TEXTS
    assert not any(GAP_TOKEN in text for text in changed)


def test_rows_depend_only_on_their_own_stream() -> None:
    learned, draws = SSMBA().learn(TEXTS), draws_for(TEXTS)
    alone = [learned.apply([t], draws.rows(slice(i, i + 1)))[0] for i, t in enumerate(TEXTS)]
    assert learned.apply(TEXTS, draws) == alone


def test_all_chosen_words_are_resampled() -> None:
    """At magnitude 1, all words are sometimes chosen, and then none need stay."""
    learned = SSMBA(magnitude=1.0).learn(TEXTS)
    draws = RowStreams(0, np.zeros(300, dtype=np.uint64), np.arange(300))
    changed = learned.apply(["man"] * 300, draws)
    assert len(set(changed)) > 5


def test_texts_without_words_and_magnitude_0_change_nothing() -> None:
    blanks = ["", " ", "?! …"]
    assert SSMBA().learn(TEXTS).apply(blanks, draws_for(blanks)) == blanks
    assert SSMBA(magnitude=0.0).apply(TEXTS, draws_for(TEXTS)) == TEXTS


def test_filler_is_not_compared_and_must_be_learned() -> None:
    learned = SSMBA().learn([("a b", "c d")])
    assert (learned, hash(learned), repr(learned)) == (SSMBA(), hash(SSMBA()), repr(SSMBA()))
    with pytest.raises(InputError, match=r"no words to sample from.* Call learn"):
        SSMBA().apply(TEXTS, draws_for(TEXTS))
    with pytest.raises(InputError, match="magnitude of ssmba"):
        SSMBA(magnitude=-1.0)
