from __future__ import annotations

import warnings
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oodometer.core.errors import InputError
from oodometer.core.random_streams import RowStreams
from oodometer.transforms.text import eda
from oodometer.transforms.text._word_splitting import split_words
from oodometer.transforms.text.eda import (
    EDA,
    EDIT_FUNCTIONS,
    delete_words,
    insert_words,
    swap_words,
)
from tests.transforms.text.test_word_splitting import draws_for
from tests.transforms.text.test_wordnet import write_wordnet

LONG = "the good car is in a story . it was a good tale , and the car was red " * 3


def lookup(word: str) -> tuple[str, ...]:
    return {"good": ("well",), "car": ("auto", "wagon")}.get(word.lower(), ())


def many(transform: EDA, text: str, count: int = 200) -> list[str]:
    draws = RowStreams(3, np.zeros(count, dtype=np.uint64), np.arange(count))
    return list(transform.apply([text] * count, draws))


@pytest.fixture
def tiny(tmp_path: Path) -> EDA:
    return EDA(wordnet=write_wordnet(tmp_path / "wordnet"))


def test_all_edits_occur_within_the_magnitude(tiny: EDA) -> None:
    before = split_words(LONG)[1::2]
    bound = int(0.1 * len(before))
    lengths = Counter()  # type: ignore[var-annotated]
    for text in many(tiny, LONG):
        after = split_words(text)[1::2]
        lengths[np.sign(len(after) - len(before))] += 1
        gone, new = Counter(before) - Counter(after), Counter(after) - Counter(before)
        assert max(gone.total(), new.total()) <= bound
        assert set(new) <= {"auto", "wagon", "well", "tale", "story", "car", "good"}
    assert min(lengths[-1], lengths[0], lengths[1]) > 30


def test_rows_depend_only_on_their_own_stream(tiny: EDA) -> None:
    texts = [f"{LONG} {word}" for word in "abcde"]
    draws = draws_for(texts)
    alone = [tiny.apply([t], draws.rows(slice(i, i + 1)))[0] for i, t in enumerate(texts)]
    assert tiny.apply(texts, draws) == alone


@pytest.mark.parametrize("text", ["", "  ", "?! …", "\n"])
def test_texts_without_words_are_not_changed(tiny: EDA, text: str) -> None:
    assert set(many(tiny, text, 20)) == {text}


@pytest.mark.parametrize("operation", EDIT_FUNCTIONS)
@given(text=st.text("ab .,\n", max_size=30), count=st.integers(1, 9), seed=st.integers(0, 99))
def test_edits_keep_at_least_one_word(
    operation: eda.EditFunction, text: str, count: int, seed: int
) -> None:
    pieces = split_words(text)
    if len(pieces) > 1:
        operation(pieces, count, np.random.default_rng(seed), lookup)
        assert len(split_words("".join(pieces))) > 1


def test_synonyms_keep_capitals_and_skip_stop_words() -> None:
    pieces = split_words("Good it is")
    EDIT_FUNCTIONS[0](
        pieces, 3, np.random.default_rng(0), lambda word: ("well",) if word != "is" else ("x",)
    )
    assert "".join(pieces) == "Well it is"


def test_deletion_leaves_single_spaces() -> None:
    result = set()
    for seed in range(30):
        pieces = split_words("a b c")
        delete_words(pieces, 1, np.random.default_rng(seed), lookup)
        result.add("".join(pieces))
    assert result == {"b c", "a c", "a b"}


def test_swap_moves_two_words_and_keeps_separators() -> None:
    pieces = split_words("a, b; c")
    swap_words(pieces, 1, np.random.default_rng(0), lookup)
    assert pieces[0::2] == ["", ", ", "; ", ""]
    assert sorted(pieces[1::2]) == ["a", "b", "c"]
    assert sum(x != y for x, y in zip(pieces[1::2], "abc", strict=True)) == 2


def test_insertion_uses_synonyms_or_words_of_the_text() -> None:
    pieces = split_words("a car")
    insert_words(pieces, 1, np.random.default_rng(0), lookup)
    assert Counter("".join(pieces).split()) - Counter(["a", "car"]) in (
        Counter(["auto"]),
        Counter(["wagon"]),
    )
    pieces = split_words("so it")
    insert_words(pieces, 1, np.random.default_rng(0), lookup)
    assert len("".join(pieces).split()) == 3
    assert set("".join(pieces).split()) == {"so", "it"}


def test_missing_wordnet_warns_once_and_omits_synonyms(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(eda, "find_wordnet", lambda folder: None)
    eda._warn_without_wordnet.cache_clear()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        texts = many(EDA(), LONG) + many(EDA(), LONG)
    assert [str(w.message)[:22] for w in caught] == ["WordNet was not found,"]
    assert {word for text in texts for word in split_words(text)[1::2]} == set(
        split_words(LONG)[1::2]
    )
    assert len({len(split_words(text)) for text in texts}) > 2
    eda._warn_without_wordnet.cache_clear()


def test_magnitude_0_is_the_identity_and_invalid_settings_raise(tiny: EDA, tmp_path: Path) -> None:
    assert many(EDA(magnitude=0.0, wordnet=tiny.wordnet), LONG, 2) == [LONG] * 2
    with pytest.raises(InputError, match="magnitude of eda"):
        EDA(magnitude=2.0)
    with pytest.raises(InputError, match="no WordNet in"):
        many(EDA(wordnet=tmp_path / "none"), LONG, 1)


def test_fixed_strength_applies_all_four_edits(tiny: EDA) -> None:
    fixed = EDA(wordnet=tiny.wordnet, strength="fixed")
    n = len(split_words(LONG)) // 2
    count = -(-n // 10)
    for seed in range(20):
        edited, selected = fixed.edit(LONG, np.random.default_rng(seed), fixed.synonym_lookup())
        assert list(selected) == [
            "replace_by_synonyms", "insert_words", "swap_each_word", "delete_words",
        ]  # fmt: skip
        assert all(len(set(pieces)) == len(pieces) == count for pieces in selected.values())
        assert len(split_words(edited)) // 2 == n, "as many words are inserted as deleted"
        assert "  " not in edited.replace(" . ", " ").strip()


def test_fixed_edits_match_edits_one_by_one(tiny: EDA) -> None:
    """The reference applies each edit to the text that the previous edit returned."""
    fixed = EDA(wordnet=tiny.wordnet, strength="fixed")
    find = fixed.synonym_lookup()
    assert find is not None
    rng, text = np.random.default_rng(5), LONG
    rng.random(2)
    for edit in (eda.replace_by_synonyms, insert_words, eda.swap_each_word, delete_words):
        pieces = split_words(text)
        edit(pieces, -(-len(split_words(LONG)[1::2]) // 10), rng, find)
        text = "".join(pieces)
    assert fixed.edit(LONG, np.random.default_rng(5), find)[0] == text


def test_each_selected_word_is_swapped_with_another_word() -> None:
    for seed in range(50):
        pieces = split_words("a, b; c d")
        selected = eda.swap_each_word(pieces, 1, np.random.default_rng(seed), lookup)
        moved = [i for i, (x, y) in enumerate(zip(pieces[1::2], "abcd", strict=True)) if x != y]
        assert len(moved) == 2
        assert selected[0] // 2 in moved
        assert pieces[0::2] == ["", ", ", "; ", " ", ""]
    assert eda.swap_each_word(split_words("a"), 1, np.random.default_rng(0), lookup) == []


def test_edits_return_the_selected_pieces() -> None:
    for edit, count in zip(EDIT_FUNCTIONS, (2, 2, 2, 2), strict=True):
        pieces = split_words("a good car is good")
        selected = edit(pieces, count, np.random.default_rng(0), lookup)
        assert len(selected) == 2
        assert all(index % 2 for index in selected)
    pieces = split_words("a good car is good")
    for index in delete_words(pieces, 2, np.random.default_rng(1), lookup):
        assert pieces[index] == ""


def test_fixed_strength_without_wordnet_omits_synonyms(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(eda, "find_wordnet", lambda folder: None)
    fixed = EDA(strength="fixed")
    assert fixed.synonym_lookup() is None
    edited, selected = fixed.edit(LONG, np.random.default_rng(0), None)
    assert list(selected) == ["insert_words", "swap_each_word", "delete_words"]
    assert set(split_words(edited)[1::2]) <= set(split_words(LONG)[1::2])
