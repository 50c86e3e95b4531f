"""EDA, easy data augmentation. Wei & Zou, EMNLP 2019."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import ClassVar

import numpy as np

from oodometer.core.inputs import InputKind, Inputs
from oodometer.core.protocols import Transform
from oodometer.core.random_streams import RowStreams
from oodometer.transforms.text._word_splitting import (
    check_magnitude,
    draw_change_count,
    map_texts,
    split_words,
)
from oodometer.transforms.text.wordnet import find_wordnet, synonyms

SynonymLookup = Callable[[str], tuple[str, ...]]
EditFunction = Callable[[list[str], int, np.random.Generator, SynonymLookup], None]

_STOP_WORDS = (
    "a about after all also am an and any are as at be because been before being but by can "
    "could did do does down for from get got had has have he her here him his how i if in "
    "into is it its just me more most my no nor not of off on once only or other our out "
    "over own she should so some such than that the their them then there these they this "
    "those through to too under until up us very was we were what when where which while "
    "who whom why will with would you your"
)
STOP_WORDS = frozenset(_STOP_WORDS.split())


@dataclass(frozen=True)
class EDA(Transform):
    """One of four small edits: synonyms, insertion, swap, deletion, on up to 10 % of the words.

    The edit is drawn uniformly, and the number of its words in 1 … max(1, ⌊m·n⌋); a swap counts
    as two, but there is always one. A synonym is any other single word of any synset, in its base
    form; stop words are not replaced. Insertion puts a synonym of a random word at a random place.
    `wordnet` is the folder of the WordNet files; by itself it is found where Debian (wordnet-base)
    and NLTK put it. Without WordNet there is a warning, three edits go on, and insertion takes a
    random word of the same text.
    A text whose words have no synonyms, or of one word, may come back unchanged.
    """

    name: ClassVar[str] = "eda"
    label: ClassVar[str] = "EDA"
    kinds: ClassVar[tuple[InputKind, ...]] = ("text", "pairs")
    assumes: ClassVar[str] = "no single word, nor the order of words, decides the class"

    magnitude: float = 0.10
    wordnet: Path | None = None

    def __post_init__(self) -> None:
        check_magnitude(self.name, self.magnitude)

    def apply(self, inputs: Inputs, draws: RowStreams) -> Inputs:
        """Every text with one edit."""
        return map_texts(self._transform_texts, inputs, draws, magnitude=self.magnitude)

    def _transform_texts(self, texts: list[str], draws: RowStreams) -> list[str]:
        place = find_wordnet(self.wordnet)
        if place is None:
            _warn_without_wordnet()
            return self._edit_texts(texts, draws, EDIT_FUNCTIONS[1:], lambda word: ())
        return self._edit_texts(texts, draws, EDIT_FUNCTIONS, lambda word: synonyms(place, word))

    def _edit_texts(
        self,
        texts: list[str],
        draws: RowStreams,
        operations: tuple[EditFunction, ...],
        lookup: SynonymLookup,
    ) -> list[str]:
        edited = []
        for text, rng in zip(texts, draws.generators(), strict=True):
            pieces = split_words(text)
            if len(pieces) > 1:
                which, share = rng.random(2).tolist()
                count = draw_change_count(self.magnitude, len(pieces) // 2, share)
                operations[int(which * len(operations))](pieces, count, rng, lookup)
            edited.append("".join(pieces))
        return edited


@lru_cache(maxsize=1)
def _warn_without_wordnet() -> None:
    warnings.warn(
        "WordNet was not found, so EDA makes no synonyms: insertion, swap and deletion go on. "
        "Install the package wordnet-base, or give EDA(wordnet=folder).",
        stacklevel=2,
    )


def replace_by_synonyms(
    pieces: list[str], count: int, rng: np.random.Generator, lookup: SynonymLookup
) -> None:
    """Some words that have synonyms, each by one of them."""
    for place, found in islice(_iter_words_with_synonyms(pieces, rng, lookup), count):
        pieces[place] = _match_capital(pieces[place], found[int(rng.random() * len(found))])


def insert_words(
    pieces: list[str], count: int, rng: np.random.Generator, lookup: SynonymLookup
) -> None:
    """Synonyms of random words before random words; where there are none, words of the text."""
    found = [words for _, words in islice(_iter_words_with_synonyms(pieces, rng, lookup), count)]
    found = found or [(pieces[place],) for place in _shuffled_positions(pieces, rng)[:count]]
    for words, (which, where) in zip(found, rng.random((len(found), 2)).tolist(), strict=True):
        before = 2 * int(where * (len(pieces) // 2)) + 1
        pieces[before] = f"{words[int(which * len(words))]} {pieces[before]}"


def swap_words(
    pieces: list[str], count: int, rng: np.random.Generator, lookup: SynonymLookup
) -> None:
    """Pairs of random words change places, so that as many words are moved; the gaps stay."""
    if len(pieces) < 5:
        return
    for _ in range(max(1, count // 2)):
        one, other = (2 * rng.permutation(len(pieces) // 2)[:2] + 1).tolist()
        pieces[one], pieces[other] = pieces[other], pieces[one]


def delete_words(
    pieces: list[str], count: int, rng: np.random.Generator, lookup: SynonymLookup
) -> None:
    """Some words go, with one blank each; one word at least stays."""
    for place in _shuffled_positions(pieces, rng)[: min(count, len(pieces) // 2 - 1)]:
        before, after = pieces[place - 1], pieces[place + 1]
        pieces[place] = ""
        if after[:1].isspace() and (not before or before[-1].isspace()):
            pieces[place + 1] = after[1:]
        elif not after and before[-1:].isspace():
            pieces[place - 1] = before[:-1]


EDIT_FUNCTIONS: tuple[EditFunction, ...] = (
    replace_by_synonyms,
    insert_words,
    swap_words,
    delete_words,
)


def _shuffled_positions(pieces: list[str], rng: np.random.Generator) -> list[int]:
    """The places of all words, in random order."""
    places: list[int] = (2 * rng.permutation(len(pieces) // 2) + 1).tolist()
    return places


def _iter_words_with_synonyms(
    pieces: list[str], rng: np.random.Generator, lookup: SynonymLookup
) -> Iterator[tuple[int, tuple[str, ...]]]:
    """The words that have synonyms, in random order; stop words have none."""
    for place in _shuffled_positions(pieces, rng):
        found = () if pieces[place].lower() in STOP_WORDS else lookup(pieces[place])
        if found:
            yield place, found


def _match_capital(word: str, new: str) -> str:
    """The new word, its first letter a capital where the old one's was.

    >>> _match_capital("Good", "well made"), _match_capital("good", "well")
    ('Well made', 'well')
    """
    return new[:1].upper() + new[1:] if word[:1].isupper() else new
