"""Replacement of words by random words of the corpus (baseline of Ng et al., EMNLP 2020)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from oodometer.core.array_types import Ints
from oodometer.core.errors import InputError
from oodometer.core.inputs import InputKind, Inputs
from oodometer.core.keys import OMIT_DEFAULT, settings_repr
from oodometer.core.protocols import Transform
from oodometer.core.random_streams import RowStreams
from oodometer.transforms.magnitude import check_magnitude
from oodometer.transforms.strength import Strength, check_strength, draw_change_count
from oodometer.transforms.text._word_splitting import iter_texts, map_texts, split_words


@dataclass(frozen=True)
class RandomReplacement(Transform):
    """Replace some words of each text by words drawn uniformly from a vocabulary.

    1 … max(1, ⌊magnitude · n⌋) of the n words are replaced, or ⌈magnitude · n⌉ words at fixed
    strength. The vocabulary consists of the distinct words of the texts that were passed to
    `learn`; upper and lower case are distinguished.

    Parameters
    ----------
    magnitude : float
        Largest fraction of words to replace, from 0 to 1.
    vocabulary : tuple of str, optional
        Words to draw from. `learn` sets them.
    strength : {"up_to", "fixed"}
        Whether the number of replaced words is random, or always the largest.

    Examples
    --------
    >>> RandomReplacement().learn(["b a", "a c"]).vocabulary
    ('a', 'b', 'c')
    """

    name: ClassVar[str] = "random_replace"
    label: ClassVar[str] = "RandRep"
    kinds: ClassVar[tuple[InputKind, ...]] = ("text", "pairs")
    assumes: ClassVar[str] = "no single word determines the class"

    magnitude: float = 0.15
    vocabulary: tuple[str, ...] | None = field(default=None, compare=False, repr=False)
    strength: Strength = field(default="up_to", metadata=OMIT_DEFAULT)

    __repr__ = settings_repr

    def __post_init__(self) -> None:
        check_magnitude(self, 1)
        check_strength(self)

    def learn(self, inputs: Inputs) -> RandomReplacement:
        """Return this transform with the words of the inputs as its vocabulary."""
        words = {word for text in iter_texts(inputs) for word in split_words(text)[1::2]}
        if not words:
            raise InputError(
                "The inputs contain no words to learn from. Learn from texts similar to those that "
                "will be transformed."
            )
        return replace(self, vocabulary=tuple(sorted(words)))

    def apply(self, inputs: Inputs, draws: RowStreams) -> Inputs:
        return map_texts(self._transform_texts, inputs, draws, magnitude=self.magnitude)

    def _transform_texts(self, texts: list[str], draws: RowStreams) -> list[str]:
        if self.vocabulary is None:
            raise InputError(
                "random_replace has no vocabulary. Call learn(inputs) with unlabelled texts and apply "
                "the transform that it returns."
            )
        changed = []
        for text, rng in zip(texts, draws.generators(), strict=True):
            pieces = split_words(text)
            n = len(pieces) // 2
            if n:
                selected = self.select_words(n, rng)
                words = rng.integers(len(self.vocabulary), size=len(selected)).tolist()
                for index, word in zip(selected.tolist(), words, strict=True):
                    pieces[2 * index + 1] = self.vocabulary[word]
            changed.append("".join(pieces))
        return changed

    def select_words(self, n: int, rng: np.random.Generator) -> Ints:
        """Return the numbers of the words to replace in a text of n words."""
        count = draw_change_count(self.magnitude, n, rng.random(), strength=self.strength)
        return rng.permutation(n)[:count]
