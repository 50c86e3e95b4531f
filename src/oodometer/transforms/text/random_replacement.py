"""Random replacement of words by words of the corpus. The random baseline of Ng et al., EMNLP 2020."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar

from oodometer.core.errors import InputError
from oodometer.core.inputs import InputKind, Inputs
from oodometer.core.protocols import Transform
from oodometer.core.random_streams import RowStreams
from oodometer.transforms.text._word_splitting import (
    check_magnitude,
    draw_change_count,
    iter_texts,
    map_texts,
    split_words,
)


@dataclass(frozen=True)
class RandomReplacement(Transform):
    """Up to 15 % of the words, at least one, by words drawn uniformly from the vocabulary.

    The vocabulary is every distinct word, as spelled, of the inputs it learned from.

    >>> RandomReplacement().learn(["b a", "a c"]).vocabulary
    ('a', 'b', 'c')
    """

    name: ClassVar[str] = "random_replace"
    label: ClassVar[str] = "RandRep"
    kinds: ClassVar[tuple[InputKind, ...]] = ("text", "pairs")
    assumes: ClassVar[str] = "no single word decides the class"

    magnitude: float = 0.15
    vocabulary: tuple[str, ...] | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        check_magnitude(self.name, self.magnitude)

    def learn(self, inputs: Inputs) -> RandomReplacement:
        """The same, knowing the words of these inputs."""
        words = {word for text in iter_texts(inputs) for word in split_words(text)[1::2]}
        if not words:
            raise InputError(
                "The inputs have no words to replace others by; at least one was expected. "
                "Learn from texts of the same kind as those to be changed."
            )
        return replace(self, vocabulary=tuple(sorted(words)))

    def apply(self, inputs: Inputs, draws: RowStreams) -> Inputs:
        """Every text with some words replaced."""
        return map_texts(self._transform_texts, inputs, draws, magnitude=self.magnitude)

    def _transform_texts(self, texts: list[str], draws: RowStreams) -> list[str]:
        if self.vocabulary is None:
            raise InputError(
                "random_replace has no vocabulary; it must learn one before it is applied. "
                "Call learn(inputs) with unlabelled texts and apply what it returns."
            )
        changed = []
        for text, rng in zip(texts, draws.generators(), strict=True):
            pieces = split_words(text)
            n = len(pieces) // 2
            if n:
                count = draw_change_count(self.magnitude, n, rng.random())
                places = (2 * rng.permutation(n)[:count] + 1).tolist()
                new = rng.integers(len(self.vocabulary), size=count).tolist()
                for place, word in zip(places, new, strict=True):
                    pieces[place] = self.vocabulary[word]
            changed.append("".join(pieces))
        return changed
