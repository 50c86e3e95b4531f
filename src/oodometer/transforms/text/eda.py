"""Easy data augmentation: synonyms, insertion, swap, deletion (EDA; Wei & Zou, EMNLP 2019)."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import ClassVar

import numpy as np

from oodometer.core.inputs import InputKind, Inputs
from oodometer.core.keys import OMIT_DEFAULT, settings_repr
from oodometer.core.protocols import Transform
from oodometer.core.random_streams import RowStreams
from oodometer.transforms.magnitude import check_magnitude
from oodometer.transforms.strength import Strength, check_strength, draw_change_count
from oodometer.transforms.text._word_splitting import map_texts, split_words
from oodometer.transforms.text.wordnet import find_wordnet, synonyms

SynonymLookup = Callable[[str], tuple[str, ...]]
# Edits words in place, and returns the indices of the pieces that it selected before the edit.
EditFunction = Callable[[list[str], int, np.random.Generator, SynonymLookup], list[int]]

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
    """Edit each text at random: replace words by synonyms, insert, swap or delete words.

    With the strength "up_to", one of the four edits is drawn. The number of words that it changes
    is drawn uniformly from 1 … max(1, ⌊magnitude · n⌋), where n is the number of words in the text.
    A swap changes two words, and at least one swap is made.

    With the strength "fixed", all four edits are applied one after another, each to
    ⌈magnitude · n⌉ words. The swap exchanges each of its words with another random word, so up to
    twice as many words move.

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
    strength : {"up_to", "fixed"}
        Whether one edit changes a random number of words, or each of the four edits changes the
        largest number.

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
    strength: Strength = field(default="up_to", metadata=OMIT_DEFAULT)

    __repr__ = settings_repr

    def __post_init__(self) -> None:
        check_magnitude(self, 1)
        check_strength(self)

    def apply(self, inputs: Inputs, draws: RowStreams) -> Inputs:
        return map_texts(self._transform_texts, inputs, draws, magnitude=self.magnitude)

    def _transform_texts(self, texts: list[str], draws: RowStreams) -> list[str]:
        lookup = self.synonym_lookup()
        if lookup is None:
            _warn_without_wordnet()
        rows = zip(texts, draws.generators(), strict=True)
        return [self.edit(text, rng, lookup)[0] for text, rng in rows]

    def synonym_lookup(self) -> SynonymLookup | None:
        """Return the function that looks up synonyms, or None if WordNet is not installed."""
        folder = find_wordnet(self.wordnet)
        return None if folder is None else lambda word: synonyms(folder, word)

    def edit(
        self, text: str, rng: np.random.Generator, lookup: SynonymLookup | None
    ) -> tuple[str, dict[str, list[int]]]:
        """Return the edited text and, for each applied edit, the pieces that it selected.

        A piece is a word of the text that the previous edit returned, see `split_words`. Without a
        lookup, words are not replaced by synonyms.
        """
        n = len(split_words(text)) // 2
        if not n:
            return text, {}
        which, share = rng.random(2).tolist()
        count = draw_change_count(self.magnitude, n, share, strength=self.strength)
        edits = FIXED_EDIT_FUNCTIONS if self.strength == "fixed" else EDIT_FUNCTIONS
        edits = edits if lookup else edits[1:]
        selected = {}
        for edit in edits if self.strength == "fixed" else edits[int(which * len(edits)) :][:1]:
            pieces = split_words(text)
            selected[edit.__name__] = edit(pieces, count, rng, lookup or _no_synonyms)
            text = "".join(pieces)
        return text, selected


def _no_synonyms(word: str) -> tuple[str, ...]:
    return ()


@lru_cache(maxsize=1)
def _warn_without_wordnet() -> None:
    warnings.warn(
        "WordNet was not found, so EDA does not replace words by synonyms. Install the package "
        "wordnet-base, or pass EDA(wordnet=folder).",
        stacklevel=2,
    )


def replace_by_synonyms(
    pieces: list[str], count: int, rng: np.random.Generator, lookup: SynonymLookup
) -> list[int]:
    """Replace up to `count` random words that have synonyms, each by a random synonym."""
    selected = list(islice(_iter_words_with_synonyms(pieces, rng, lookup), count))
    for index, words in selected:
        pieces[index] = _match_capital(pieces[index], words[int(rng.random() * len(words))])
    return [index for index, _ in selected]


def insert_words(
    pieces: list[str], count: int, rng: np.random.Generator, lookup: SynonymLookup
) -> list[int]:
    """Insert synonyms of up to `count` random words at random positions.

    If no word has synonyms, words of the text itself are inserted.
    """
    selected = list(islice(_iter_words_with_synonyms(pieces, rng, lookup), count)) or [
        (index, (pieces[index],)) for index in _shuffled_indices(pieces, rng)[:count]
    ]
    draws = rng.random((len(selected), 2)).tolist()
    for (_, words), (which, where) in zip(selected, draws, strict=True):
        index = 2 * int(where * (len(pieces) // 2)) + 1
        pieces[index] = f"{words[int(which * len(words))]} {pieces[index]}"
    return [index for index, _ in selected]


def swap_words(
    pieces: list[str], count: int, rng: np.random.Generator, lookup: SynonymLookup
) -> list[int]:
    """Swap `count` // 2 random pairs of words, at least one; the separators stay in place."""
    if len(pieces) < 5:
        return []
    selected: list[int] = []
    for _ in range(max(1, count // 2)):
        first, second = (2 * rng.permutation(len(pieces) // 2)[:2] + 1).tolist()
        pieces[first], pieces[second] = pieces[second], pieces[first]
        selected += [first, second]
    return selected


def swap_each_word(
    pieces: list[str], count: int, rng: np.random.Generator, lookup: SynonymLookup
) -> list[int]:
    """Swap each of `count` random words with another random word; the separators stay in place."""
    n = len(pieces) // 2
    if n < 2:
        return []
    selected = _shuffled_indices(pieces, rng)[:count]
    # A distance of 1 … n − 1 words, counted around the end of the text, leads to another word.
    distances = rng.integers(1, n, size=len(selected)).tolist()
    for first, distance in zip(selected, distances, strict=True):
        second = 2 * ((first // 2 + distance) % n) + 1
        pieces[first], pieces[second] = pieces[second], pieces[first]
    return selected


def delete_words(
    pieces: list[str], count: int, rng: np.random.Generator, lookup: SynonymLookup
) -> list[int]:
    """Delete up to `count` random words, each with one space; at least one word remains."""
    selected = _shuffled_indices(pieces, rng)[: min(count, len(pieces) // 2 - 1)]
    for index in selected:
        before = pieces[index - 1]
        after = pieces[index + 1]
        pieces[index] = ""
        if after[:1].isspace() and (not before or before[-1].isspace()):
            pieces[index + 1] = after[1:]
        elif not after and before[-1:].isspace():
            pieces[index - 1] = before[:-1]
    return selected


EDIT_FUNCTIONS: tuple[EditFunction, ...] = (
    replace_by_synonyms,
    insert_words,
    swap_words,
    delete_words,
)
# Edits at fixed strength: the number of swaps equals the number of words, as in Wei & Zou.
FIXED_EDIT_FUNCTIONS: tuple[EditFunction, ...] = (
    replace_by_synonyms,
    insert_words,
    swap_each_word,
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
