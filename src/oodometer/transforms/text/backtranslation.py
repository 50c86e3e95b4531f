"""Back-translation transform, by Apertium or Marian models (Sennrich et al., ACL 2016)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from oodometer.core.errors import InputError
from oodometer.core.inputs import InputKind, Inputs
from oodometer.core.protocols import Transform
from oodometer.core.random_streams import RowStreams
from oodometer.transforms.magnitude import check_magnitude
from oodometer.transforms.strength import draw_change_count
from oodometer.transforms.text._word_splitting import (
    has_words,
    map_texts,
    split_sentences,
)
from oodometer.transforms.text.apertium import Apertium
from oodometer.transforms.text.marian import MAX_TOKENS, Marian

Translator = Callable[[list[str]], list[str]]
# Maximum number of translated sentences that are cached for later batches.
MAX_CACHED_SENTENCES = 50_000


@dataclass(frozen=True)
class BackTranslation(Transform):
    """Paraphrase texts by translating them to a pivot language and back.

    `Marian` samples a translation of every sentence, at a temperature that is uniform between 0 and
    the magnitude. All other translators are deterministic. With them, only 1 … max(1, ⌊magnitude ·
    n⌋) random sentences of the n sentences of a text are translated. A text of one sentence then
    has only one possible result.

    Parameters
    ----------
    magnitude : float
        Largest temperature with `Marian`, otherwise largest fraction of sentences to translate. It
        is from 0 to 1.
    translator : Marian, Apertium or callable, optional
        `Marian(forward, backward)` uses two local models, for example from English to German and
        back, and `Apertium(pair)` uses an installed program. Any other function must return the round-trip translations of a list of texts.
        Default: Apertium.

    Examples
    --------
    >>> draws = RowStreams(0, np.array([1], dtype=np.uint64), np.array([1]))
    >>> shout = BackTranslation(translator=lambda texts: [text.upper() for text in texts])
    >>> shout.apply(["very good."], draws)
    ['VERY GOOD.']
    """

    name: ClassVar[str] = "backtranslate"
    label: ClassVar[str] = "BT"
    kinds: ClassVar[tuple[InputKind, ...]] = ("text", "pairs")
    assumes: ClassVar[str] = (
        "translating a text to another language and back does not change its class"
    )

    magnitude: float = 0.7
    translator: Marian | Translator | None = None
    # The cache is not a parameter of the constructor, so that a copy with another translator starts
    # with an empty cache.
    _cache: dict[str, str] = field(default_factory=dict, init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        check_magnitude(self, 1)

    def apply(self, inputs: Inputs, draws: RowStreams) -> Inputs:
        return map_texts(self._transform_texts, inputs, draws, magnitude=self.magnitude)

    def _transform_texts(self, texts: list[str], draws: RowStreams) -> list[str]:
        parts = [split_sentences(text) for text in texts]
        if isinstance(self.translator, Marian):
            self._sample_sentences(parts, self.translator, draws)
        else:
            self._replace_sentences(parts, _resolve_translator(self.translator), draws)
        return ["".join(part) for part in parts]

    def _sample_sentences(self, parts: list[list[str]], marian: Marian, draws: RowStreams) -> None:
        """Replace all sentences by translations sampled with the random stream of their text."""
        generators = list(draws.generators())
        chosen = [(row, j) for row, part in enumerate(parts) for j in _sentence_indices(part)]
        sentences = [parts[row][j] for row, j in chosen]
        temperatures = self.magnitude * draws.uniforms(1)[:, 0]
        numbers = [generators[row].random(2 * MAX_TOKENS) for row, _ in chosen]
        uniforms = np.array(numbers).reshape(len(chosen), 2 * MAX_TOKENS)
        rows = np.array([row for row, _ in chosen], dtype=np.int64)
        translated = marian.sample(sentences, temperatures[rows], uniforms)
        for (row, j), sentence in zip(chosen, translated, strict=True):
            parts[row][j] = sentence

    def _replace_sentences(
        self, parts: list[list[str]], translator: Translator, draws: RowStreams
    ) -> None:
        """Replace some sentences of every text by their translations.

        Each distinct sentence is translated only once.
        """
        chosen = list(self._choose_sentences(parts, draws))
        translations = self._translate_cached((parts[row][j] for row, j in chosen), translator)
        for row, j in chosen:
            parts[row][j] = translations[parts[row][j]]

    def _choose_sentences(
        self, parts: list[list[str]], draws: RowStreams
    ) -> Iterator[tuple[int, int]]:
        for row, (part, rng) in enumerate(zip(parts, draws.generators(), strict=True)):
            indices = _sentence_indices(part)
            if indices:
                count = draw_change_count(self.magnitude, len(indices), rng.random())
                yield from ((row, indices[i]) for i in rng.permutation(len(indices))[:count])

    def _translate_cached(self, sentences: Iterable[str], translator: Translator) -> dict[str, str]:
        # Several threads share the cache, so an entry can disappear at any moment. Therefore each
        # entry is read only once.
        cached = {sentence: self._cache.get(sentence) for sentence in dict.fromkeys(sentences)}
        missing = [sentence for sentence, translation in cached.items() if translation is None]
        returned = list(translator(missing)) if missing else []
        if len(returned) != len(missing):
            raise InputError(
                f"The translator returned {len(returned)} texts for {len(missing)}. It must return "
                "one round-trip translation per text."
            )
        new = dict(zip(missing, returned, strict=True))
        self._update_cache(new)
        return {text: known for text, known in cached.items() if known is not None} | new

    def _update_cache(self, translations: dict[str, str]) -> None:
        self._cache.update(translations)
        for oldest in list(self._cache)[: max(0, len(self._cache) - MAX_CACHED_SENTENCES)]:
            self._cache.pop(oldest, None)


def _sentence_indices(part: list[str]) -> list[int]:
    """Return the indices of the sentences that contain words."""
    return [j for j in range(0, len(part), 2) if has_words(part[j])]


def _resolve_translator(translator: Translator | None) -> Translator:
    if translator is not None:
        return translator
    if Apertium.is_installed():
        return Apertium()
    raise InputError(
        "backtranslate has no translator, and Apertium is not on the PATH. Install apertium and "
        "apertium-eng-spa, or pass translator=Marian(forward, backward) or a function."
    )
