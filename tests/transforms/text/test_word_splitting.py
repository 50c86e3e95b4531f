from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oodometer.core.errors import InputError
from oodometer.core.inputs import hash_rows
from oodometer.core.random_streams import RowStreams
from oodometer.transforms import EDA
from oodometer.transforms.strength import draw_change_count
from oodometer.transforms.text._word_splitting import (
    has_words,
    iter_texts,
    map_texts,
    split_sentences,
    split_words,
)


def draws_for(inputs: object, number: int = 1) -> RowStreams:
    rows = hash_rows(inputs)
    return RowStreams(0, rows, np.full(len(rows), number))


@given(st.text())
def test_split_and_join_restores_the_text(text: str) -> None:
    assert "".join(split_words(text)) == text
    assert "".join(split_sentences(text)) == text
    assert has_words(text) == (len(split_words(text)) > 1)


@given(st.text())
def test_words_have_odd_indices_and_separators_no_letters(text: str) -> None:
    pieces = split_words(text)
    assert all(has_words(word) for word in pieces[1::2])
    assert not any(has_words(gap) for gap in pieces[0::2])


@given(st.floats(0, 1), st.integers(1, 500), st.floats(0, 1, exclude_max=True))
def test_change_count_is_within_its_bounds(share: float, n: int, uniform: float) -> None:
    assert 1 <= draw_change_count(share, n, uniform) <= max(1, share * n + 1e-6)


def test_change_counts_are_equally_likely() -> None:
    counts = [draw_change_count(0.29, 100, (i + 0.5) / 2900) for i in range(2900)]
    assert np.bincount(counts)[1:].tolist() == [100] * 29


def test_sentences_end_at_stops_quotes_and_line_breaks() -> None:
    result = split_sentences('He said "no." Then\nwhat ?  3.5 of 5')
    assert result[0::2] == ['He said "no."', "Then", "what ?", "3.5 of 5"]


def test_sides_of_a_pair_have_separate_streams() -> None:
    namespaces: list[str] = []

    def change(texts: list[str], draws: RowStreams) -> list[str]:
        namespaces.append(draws.namespace)
        return [text.upper() for text in texts]

    pairs = [("a", "b"), ("c", "d")]
    assert map_texts(change, pairs, draws_for(pairs), magnitude=0.5) == [("A", "B"), ("C", "D")]
    assert namespaces == ["/left", "/right"]
    assert list(iter_texts(pairs)) == ["a", "b", "c", "d"]


def test_magnitude_0_and_empty_batches_skip_the_function() -> None:
    def change(texts: list[str], draws: RowStreams) -> list[str]:
        raise AssertionError

    assert map_texts(change, ["a"], draws_for(["a"]), magnitude=0.0) == ["a"]
    assert map_texts(change, [], draws_for([]), magnitude=0.5) == []


def test_other_kinds_of_inputs_raise() -> None:
    images = np.zeros((1, 4, 4), dtype=np.uint8)
    with pytest.raises(InputError, match=r"got images. Pass a list of strings"):
        iter_texts(images)


@pytest.mark.parametrize("magnitude", [-0.1, 1.1, float("nan")])
def test_magnitude_outside_0_to_1_raises(magnitude: float) -> None:
    words = r"magnitude of eda must be a number from 0 to 1; got .* published value is 0\.1"
    with pytest.raises(InputError, match=words):
        EDA(magnitude=magnitude)
