"""Self-supervised manifold-based augmentation (SSMBA; Ng et al., EMNLP 2020).

Some words are corrupted, and a language model replaces them by words that fit the context.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar

import numpy as np

from oodometer.core.errors import InputError
from oodometer.core.inputs import InputKind, Inputs
from oodometer.core.keys import OMIT_DEFAULT, settings_repr
from oodometer.core.protocols import Transform
from oodometer.core.random_streams import RowStreams
from oodometer.transforms.magnitude import check_magnitude
from oodometer.transforms.strength import Strength, check_strength
from oodometer.transforms.text._word_splitting import iter_texts, map_texts, split_words
from oodometer.transforms.text.masked_lm import MaskedLanguageModel, draw_token_corruption
from oodometer.transforms.text.ngram_infill import GAP_TOKEN, CorpusFiller


@dataclass(frozen=True)
class SSMBA(Transform):
    """Replace some tokens of each text by random tokens that fit the context.

    1 … max(1, ⌊magnitude · n⌋) of the n tokens are chosen, or ⌈magnitude · n⌉ at fixed strength. Of
    these, 80% are masked, 10% are replaced by random tokens, and 10% are left unchanged. Then new
    tokens for all chosen positions are sampled from a masked language model. If a text is longer than the model's window, only the
    part in the window is changed. If no model is given, words are sampled from bigram counts of the
    texts that were passed to `learn`.

    Parameters
    ----------
    magnitude : float
        Largest fraction of tokens to resample, from 0 to 1.
    model : Path, optional
        Hugging Face folder of a masked language model, with weights as safetensors. Nothing is
        downloaded.
    filler : CorpusFiller, optional
        Bigram counts. `learn` sets them if there is no model.
    strength : {"up_to", "fixed"}
        Whether the number of resampled tokens is random, or always the largest.

    Examples
    --------
    >>> draws = RowStreams(0, np.array([1], dtype=np.uint64), draw_index=np.array([1]))
    >>> SSMBA().learn(["good good good"]).apply(["a good film"], draws)
    ['a good good']
    """

    name: ClassVar[str] = "ssmba"
    label: ClassVar[str] = "SSMBA"
    kinds: ClassVar[tuple[InputKind, ...]] = ("text", "pairs")
    assumes: ClassVar[str] = (
        "replacing words by others that fit the context does not change the class"
    )

    magnitude: float = 0.15
    model: Path | None = None
    filler: CorpusFiller | None = field(default=None, compare=False, repr=False)
    strength: Strength = field(default="up_to", metadata=OMIT_DEFAULT)

    __repr__ = settings_repr

    def __post_init__(self) -> None:
        check_magnitude(self, 1)
        check_strength(self)

    def learn(self, inputs: Inputs) -> SSMBA:
        """Return this transform with bigram counts of the inputs, unless it has a model."""
        if self.model is not None:
            return self
        return replace(self, filler=CorpusFiller.from_texts(iter_texts(inputs)))

    def apply(self, inputs: Inputs, draws: RowStreams) -> Inputs:
        return map_texts(self._transform_texts, inputs, draws, magnitude=self.magnitude)

    def _transform_texts(self, texts: list[str], draws: RowStreams) -> list[str]:
        if self.model is not None:
            return MaskedLanguageModel.load(self.model).resample_tokens(
                texts, draws, share=self.magnitude, strength=self.strength
            )
        if self.filler is None:
            raise InputError(
                "ssmba has no words to sample from. Call learn(inputs) with unlabelled texts, or pass "
                "SSMBA(model=folder)."
            )
        rows = zip(texts, draws.generators(), strict=True)
        return [self._resample(text, self.filler, rng) for text, rng in rows]

    def _resample(self, text: str, filler: CorpusFiller, rng: np.random.Generator) -> str:
        """Corrupt some words of a text, and sample new words from the bigram counts."""
        pieces = split_words(text)
        if len(pieces) == 1:
            return text
        chosen, is_masked, is_replaced = draw_token_corruption(
            len(pieces) // 2, self.magnitude, rng, strength=self.strength
        )
        indices = (2 * chosen + 1).tolist()
        words = rng.integers(len(filler.words), size=len(indices)).tolist()
        for index, mask, swap, word in zip(indices, is_masked, is_replaced, words, strict=True):
            if mask:
                pieces[index] = GAP_TOKEN
            elif swap:
                pieces[index] = filler.words[word]
        filler.fill(pieces, indices, rng.random((len(indices), 2)).tolist())
        return "".join(pieces)
