"""SSMBA: corrupt some words, and let a language model put words in their places.

Self-supervised manifold based augmentation, Ng et al., EMNLP 2020.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar

import numpy as np

from oodometer.core.errors import InputError
from oodometer.core.inputs import InputKind, Inputs
from oodometer.core.protocols import Transform
from oodometer.core.random_streams import RowStreams
from oodometer.transforms.text._word_splitting import (
    check_magnitude,
    iter_texts,
    map_texts,
    split_words,
)
from oodometer.transforms.text.masked_lm import MaskedLanguageModel, draw_token_corruption
from oodometer.transforms.text.ngram_infill import GAP_TOKEN, CorpusFiller


@dataclass(frozen=True)
class SSMBA(Transform):
    """Up to 15 % of the tokens, at least one, drawn anew to fit what stands around them.

    Of the chosen tokens 80 % are masked, 10 % replaced by random ones, 10 % left; then a filler
    samples what stands at all of them. `model` is the folder of a masked language model (Hugging
    Face, safetensors), never fetched; a text longer than the model's window is changed within it.
    Without one, words are filled by counts of neighbors, learned by `learn` from the user's texts.
    """

    name: ClassVar[str] = "ssmba"
    label: ClassVar[str] = "SSMBA"
    kinds: ClassVar[tuple[InputKind, ...]] = ("text", "pairs")
    assumes: ClassVar[str] = "words that fit the same place keep the class"

    magnitude: float = 0.15
    model: Path | None = None
    filler: CorpusFiller | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        check_magnitude(self.name, self.magnitude)

    def learn(self, inputs: Inputs) -> SSMBA:
        """The same, knowing which words stand beside which in these inputs."""
        if self.model is not None:
            return self
        return replace(self, filler=CorpusFiller.from_texts(iter_texts(inputs)))

    def apply(self, inputs: Inputs, draws: RowStreams) -> Inputs:
        """Every text with some words drawn anew."""
        return map_texts(self._transform_texts, inputs, draws, magnitude=self.magnitude)

    def _transform_texts(self, texts: list[str], draws: RowStreams) -> list[str]:
        if self.model is not None:
            return MaskedLanguageModel.load(self.model).resample_tokens(
                texts, draws, share=self.magnitude
            )
        if self.filler is None:
            raise InputError(
                "ssmba knows no words to fill in; it must learn them before it is applied. "
                "Call learn(inputs) with unlabelled texts, or give SSMBA(model=folder)."
            )
        rows = zip(texts, draws.generators(), strict=True)
        return [_refill(text, self.filler, self.magnitude, rng) for text, rng in rows]


def _refill(text: str, filler: CorpusFiller, share: float, rng: np.random.Generator) -> str:
    pieces = split_words(text)
    if len(pieces) == 1:
        return text
    chosen, masked, mistaken = draw_token_corruption(len(pieces) // 2, share, rng)
    places = (2 * chosen + 1).tolist()
    strangers = rng.integers(len(filler.words), size=len(places)).tolist()
    for place, hidden, wrong, stranger in zip(places, masked, mistaken, strangers, strict=True):
        if hidden:
            pieces[place] = GAP_TOKEN
        elif wrong:
            pieces[place] = filler.words[stranger]
    filler.fill(pieces, places, rng.random((len(places), 2)).tolist())
    return "".join(pieces)
