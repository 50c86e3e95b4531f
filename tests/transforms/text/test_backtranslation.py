from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from oodometer.core.errors import InputError
from oodometer.core.random_streams import RowStreams
from oodometer.transforms.text import backtranslation as module
from oodometer.transforms.text._word_splitting import split_sentences
from oodometer.transforms.text.apertium import Apertium
from oodometer.transforms.text.backtranslation import BackTranslation
from tests.transforms.text.test_word_splitting import draws_for

TEXT = " ".join(f"sentence number {i}." for i in range(10))


class Shouting:
    """Translator to upper case that records its inputs."""

    def __init__(self) -> None:
        self.received: list[str] = []

    def __call__(self, texts: list[str]) -> list[str]:
        self.received += texts
        return [text.upper() for text in texts]


def test_changed_sentences_are_within_the_magnitude() -> None:
    draws = RowStreams(0, np.zeros(100, dtype=np.uint64), np.arange(100))
    changed = BackTranslation(translator=Shouting()).apply([TEXT] * 100, draws)
    counts = [sum(s.isupper() for s in split_sentences(text)[0::2]) for text in changed]
    assert (min(counts), max(counts)) == (1, 7)
    assert {text.lower() for text in changed} == {TEXT}
    assert len(set(changed)) > 50


def test_distinct_sentences_are_translated_once() -> None:
    shouting = Shouting()
    transform = BackTranslation(translator=shouting)
    for number in range(1, 9):
        transform.apply([TEXT, TEXT], draws_for([TEXT, TEXT], number))
    assert len(shouting.received) == len(set(shouting.received))
    assert set(shouting.received) == set(split_sentences(TEXT)[0::2])


def test_cache_is_bounded_and_does_not_change_results(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_CACHED_SENTENCES", 2)
    transform = BackTranslation(translator=Shouting())
    draws = RowStreams(0, np.zeros(20, dtype=np.uint64), np.arange(20))
    whole = transform.apply([TEXT] * 20, draws)
    assert len(transform._cache) == 2
    alone = [transform.apply([TEXT], draws.rows(slice(i, i + 1)))[0] for i in range(20)]
    assert whole == alone


def test_copy_with_another_translator_has_an_empty_cache() -> None:
    first = BackTranslation(translator=Shouting())
    first.apply(["good"], draws_for(["good"]))
    second = replace(first, translator=lambda texts: ["bad" for _ in texts])
    assert second.apply(["good"], draws_for(["good"])) == ["bad"]


def test_texts_without_words_and_magnitude_0_change_nothing() -> None:
    blanks = ["", " ", "?! …", "... \n"]
    assert BackTranslation(translator=Shouting()).apply(blanks, draws_for(blanks)) == blanks
    assert BackTranslation(magnitude=0.0).apply([TEXT], draws_for([TEXT])) == [TEXT]


def test_both_sides_of_pairs_are_changed() -> None:
    pairs = [("a", "b")]
    assert BackTranslation(translator=Shouting()).apply(pairs, draws_for(pairs)) == [("A", "B")]


def test_translator_must_return_one_text_per_text() -> None:
    with pytest.raises(InputError, match=r"returned 0 texts for 1\. It must"):
        BackTranslation(translator=lambda texts: []).apply(["a"], draws_for(["a"]))


def test_missing_translator_raises_and_lists_the_options(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Apertium, "is_installed", staticmethod(lambda: False))
    with pytest.raises(InputError, match=r"Install apertium .*Marian\(forward, .* a function"):
        BackTranslation().apply(["a"], draws_for(["a"]))


@pytest.mark.skipif(not Apertium.is_installed(), reason="apertium is not installed")
def test_apertium_is_the_default() -> None:
    text = "like many people , i have ignorant neighbors ."
    changed = BackTranslation().apply([text], draws_for([text]))
    assert changed == Apertium()([text])
    assert changed != [text]
