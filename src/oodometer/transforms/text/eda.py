"""Easy data augmentation: synonyms, insertion, swap, deletion (EDA; Wei & Zou, EMNLP 2019)."""

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
from oodometer.transforms.magnitude import check_magnitude
from oodometer.transforms.text._word_splitting import (
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
    """Apply a random edit to each text: replace words by synonyms, or insert, swap or delete words.

    The edit is drawn uniformly from the four. The number of words that it changes is drawn
    uniformly from 1 … max(1, ⌊magnitude · n⌋), where n is the number of words in the text. A swap
    changes two words, and at least one swap is made.

    Synonyms are taken from WordNet. A synonym of a word is any other single word, in its base form,
    of any synset (set of synonyms) that contains the word. Stop words are not replaced. An
    insertion puts a synonym of a random word of the text at a random position. A text of one word,
    or one whose words have no synonyms, may stay unchanged.

    If WordNet is not installed, a warning is issued, words are not replaced by synonyms, and
    insertions use random words of the text itself.

    Parameters
    ----------
    magnitude : float
        Largest fraction of words to change, from 0 to 1.
    wordnet : Path, optional
        Folder of the WordNet files. By default, the folders are searched in which the Debian
        package wordnet-base and NLTK install them.

    Examples
    --------
    >>> draws = RowStreams(0, np.array([1], dtype=np.uint64), draw_index=np.array([1]))
    >>> EDA(magnitude=0).apply(["a good film"], draws)
    ['a good film']
    """

    name: ClassVar[str] = "eda"
    label: ClassVar[str] = "EDA"
    kinds: ClassVar[tuple[InputKind, ...]] = ("text", "pairs")
    assumes: ClassVar[str] = "neither a single word nor the order of words determines the class"

    magnitude: float = 0.10
    wordnet: Path | None = None

    def __post_init__(self) -> None:
        check_magnitude(self, 1)

    def apply(self, inputs: Inputs, draws: RowStreams) -> Inputs:
        return map_texts(self._transform_texts, inputs, draws, magnitude=self.magnitude)

    def _transform_texts(self, texts: list[str], draws: RowStreams) -> list[str]:
        folder = find_wordnet(self.wordnet)
        if folder is None:
            _warn_without_wordnet()
            return self._edit_texts(texts, draws, EDIT_FUNCTIONS[1:], lambda word: ())
        return self._edit_texts(texts, draws, EDIT_FUNCTIONS, lambda word: synonyms(folder, word))

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
        "WordNet was not found, so EDA does not replace words by synonyms. Install the package "
        "wordnet-base, or pass EDA(wordnet=folder).",
        stacklevel=2,
    )


def replace_by_synonyms(
    pieces: list[str], count: int, rng: np.random.Generator, lookup: SynonymLookup
) -> None:
    """Replace up to `count` random words that have synonyms, each by a random synonym."""
    for index, words in islice(_iter_words_with_synonyms(pieces, rng, lookup), count):
        pieces[index] = _match_capital(pieces[index], words[int(rng.random() * len(words))])


def insert_words(
    pieces: list[str], count: int, rng: np.random.Generator, lookup: SynonymLookup
) -> None:
    """Insert synonyms of up to `count` random words at random positions.

    If no word has synonyms, words of the text itself are inserted.
    """
    choices = [words for _, words in islice(_iter_words_with_synonyms(pieces, rng, lookup), count)]
    choices = choices or [(pieces[index],) for index in _shuffled_indices(pieces, rng)[:count]]
    for words, (which, where) in zip(choices, rng.random((len(choices), 2)).tolist(), strict=True):
        index = 2 * int(where * (len(pieces) // 2)) + 1
        pieces[index] = f"{words[int(which * len(words))]} {pieces[index]}"


def swap_words(
    pieces: list[str], count: int, rng: np.random.Generator, lookup: SynonymLookup
) -> None:
    """Swap `count` // 2 random pairs of words, at least one; the separators stay in place."""
    if len(pieces) < 5:
        return
    for _ in range(max(1, count // 2)):
        first, second = (2 * rng.permutation(len(pieces) // 2)[:2] + 1).tolist()
        pieces[first], pieces[second] = pieces[second], pieces[first]


def delete_words(
    pieces: list[str], count: int, rng: np.random.Generator, lookup: SynonymLookup
) -> None:
    """Delete up to `count` random words, each with one space; at least one word remains."""
    for index in _shuffled_indices(pieces, rng)[: min(count, len(pieces) // 2 - 1)]:
        before = pieces[index - 1]
        after = pieces[index + 1]
        pieces[index] = ""
        if after[:1].isspace() and (not before or before[-1].isspace()):
            pieces[index + 1] = after[1:]
        elif not after and before[-1:].isspace():
            pieces[index - 1] = before[:-1]


EDIT_FUNCTIONS: tuple[EditFunction, ...] = (
    replace_by_synonyms,
    insert_words,
    swap_words,
    delete_words,
)


def _shuffled_indices(pieces: list[str], rng: np.random.Generator) -> list[int]:
    """Return the indices of all words in random order."""
    indices: list[int] = (2 * rng.permutation(len(pieces) // 2) + 1).tolist()
    return indices


def _iter_words_with_synonyms(
    pieces: list[str], rng: np.random.Generator, lookup: SynonymLookup
) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Yield the index and the synonyms of each word that has synonyms, in random order."""
    for index in _shuffled_indices(pieces, rng):
        words = () if pieces[index].lower() in STOP_WORDS else lookup(pieces[index])
        if words:
            yield index, words


def _match_capital(word: str, new: str) -> str:
    """Capitalize the new word if the old one was capitalized.

    >>> _match_capital("Good", "well made"), _match_capital("good", "well")
    ('Well made', 'well')
    """
    return new[:1].upper() + new[1:] if word[:1].isupper() else new
