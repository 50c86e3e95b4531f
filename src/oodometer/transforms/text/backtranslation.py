"""Back-translation: to another language and back. Sennrich et al., ACL 2016."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from oodometer.core.errors import InputError
from oodometer.core.inputs import InputKind, Inputs
from oodometer.core.protocols import Transform
from oodometer.core.random_streams import RowStreams
from oodometer.transforms.text._word_splitting import (
    check_magnitude,
    draw_change_count,
    has_words,
    map_texts,
    split_sentences,
)
from oodometer.transforms.text.apertium import Apertium
from oodometer.transforms.text.marian import MAX_TOKENS, Marian

Translator = Callable[[list[str]], list[str]]
# How many sentences are remembered between batches.
MAX_CACHED_SENTENCES = 50_000


@dataclass(frozen=True)
class BackTranslation(Transform):
    """Every text in other words: translated to a pivot language and back.

    `translator` is one of three: `Marian(forward, backward)`, two local models; `Apertium(pair)`,
    which is also taken by itself where it is installed; or a function from texts to texts, there
    and back. Marian samples all sentences at a temperature drawn uniformly up to the magnitude.
    The others say the same every time; with them the magnitude is the share of sentences that
    are changed: of n a draw changes 1 … max(1, ⌊m·n⌋), so all draws of one sentence are alike.

    >>> draws = RowStreams(0, np.array([1], dtype=np.uint64), np.array([1]))
    >>> shout = BackTranslation(translator=lambda texts: [text.upper() for text in texts])
    >>> shout.apply(["very good."], draws)
    ['VERY GOOD.']
    """

    name: ClassVar[str] = "backtranslate"
    label: ClassVar[str] = "BT"
    kinds: ClassVar[tuple[InputKind, ...]] = ("text", "pairs")
    assumes: ClassVar[str] = "the translator keeps what decides the class"

    magnitude: float = 0.7
    translator: Marian | Translator | None = None
    # Not a setting: a copy with another translator must start with an empty one.
    _cache: dict[str, str] = field(default_factory=dict, init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        check_magnitude(self.name, self.magnitude)

    def apply(self, inputs: Inputs, draws: RowStreams) -> Inputs:
        """Every text, or a part of its sentences, there and back."""
        return map_texts(self._transform_texts, inputs, draws, magnitude=self.magnitude)

    def _transform_texts(self, texts: list[str], draws: RowStreams) -> list[str]:
        parts = [split_sentences(text) for text in texts]
        if isinstance(self.translator, Marian):
            self._sample_sentences(parts, self.translator, draws)
        else:
            self._replace_sentences(parts, _resolve_translator(self.translator), draws)
        return ["".join(part) for part in parts]

    def _sample_sentences(self, parts: list[list[str]], marian: Marian, draws: RowStreams) -> None:
        """All sentences, each by the next numbers of its text's stream."""
        streams = list(draws.generators())
        rows = [
            (row, place) for row, part in enumerate(parts) for place in _sentence_positions(part)
        ]
        sentences = [parts[row][place] for row, place in rows]
        warmth = self.magnitude * draws.uniforms(1)[:, 0]
        numbers = [streams[row].random(2 * MAX_TOKENS) for row, _ in rows]
        uniforms = np.array(numbers).reshape(len(rows), 2 * MAX_TOKENS)
        owners = np.array([row for row, _ in rows], dtype=np.int64)
        new = marian.sample(sentences, warmth[owners], uniforms)
        for (row, place), sentence in zip(rows, new, strict=True):
            parts[row][place] = sentence

    def _replace_sentences(
        self, parts: list[list[str]], translator: Translator, draws: RowStreams
    ) -> None:
        """Some sentences of every text, each distinct one translated once."""
        rows = list(self._choose_sentences(parts, draws))
        known = self._translate_cached((parts[row][place] for row, place in rows), translator)
        for row, place in rows:
            parts[row][place] = known[parts[row][place]]

    def _choose_sentences(
        self, parts: list[list[str]], draws: RowStreams
    ) -> Iterator[tuple[int, int]]:
        for row, (part, rng) in enumerate(zip(parts, draws.generators(), strict=True)):
            places = _sentence_positions(part)
            if places:
                count = draw_change_count(self.magnitude, len(places), rng.random())
                yield from ((row, places[i]) for i in rng.permutation(len(places))[:count])

    def _translate_cached(self, sentences: Iterable[str], translator: Translator) -> dict[str, str]:
        wanted = dict.fromkeys(sentences)
        # Threads share what is remembered, so that it may be forgotten at any moment.
        known = {one: self._cache.get(one) for one in wanted}
        new = [one for one, answer in known.items() if answer is None]
        given = list(translator(new)) if new else []
        if len(given) != len(new):
            raise InputError(
                f"The translator gave {len(given)} texts for {len(new)}; as many were expected. "
                "It must return one text, there and back, for every text."
            )
        fresh = dict(zip(new, given, strict=True))
        self._update_cache(fresh)
        return {one: answer for one, answer in known.items() if answer is not None} | fresh

    def _update_cache(self, translations: dict[str, str]) -> None:
        self._cache.update(translations)
        for oldest in list(self._cache)[: max(0, len(self._cache) - MAX_CACHED_SENTENCES)]:
            self._cache.pop(oldest, None)


def _sentence_positions(part: list[str]) -> list[int]:
    """Where the sentences are that have words."""
    return [place for place in range(0, len(part), 2) if has_words(part[place])]


def _resolve_translator(translator: Translator | None) -> Translator:
    if translator is not None:
        return translator
    if Apertium.is_installed():
        return Apertium()
    raise InputError(
        "backtranslate has no translator, and Apertium was not found on the PATH. Install apertium "
        "and apertium-eng-spa, or give translator=Marian(forward, backward), or a function."
    )
