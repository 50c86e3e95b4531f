"""A masked language model from a local folder, as a filler of places in texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from oodometer.core.array_types import Bools, Floats, Ints
from oodometer.core.errors import InputError
from oodometer.core.optional_imports import torch_package
from oodometer.core.random_streams import RowStreams
from oodometer.models.huggingface import load_pretrained
from oodometer.transforms.text._word_splitting import draw_change_count, has_words

BATCH_TEXTS = 16
_MASKED_SHARE, _MASKED_OR_REPLACED_SHARE = 0.8, 0.9
# The marks of byte-level BPE and of SentencePiece; WordPiece marks what goes on, by ##.
_WORD_START_MARKS = ("Ġ", "▁")


def draw_token_corruption(
    n: int, share: float, rng: np.random.Generator
) -> tuple[Ints, Bools, Bools]:
    """The chosen of n tokens, in order; which of them are masked, and which replaced at random.

    80 % are masked and 10 % replaced; the rest is left as it is, but to be drawn anew too.
    """
    chosen = np.sort(rng.permutation(n)[: draw_change_count(share, n, rng.random())])
    fate = rng.random(len(chosen))
    return (
        chosen,
        fate < _MASKED_SHARE,
        (fate >= _MASKED_SHARE) & (fate < _MASKED_OR_REPLACED_SHARE),
    )


@dataclass(frozen=True, eq=False)
class MaskedLanguageModel:
    """A tokenizer with its model, and the tokens that may be proposed.

    Places are drawn by each row's own stream, so that the batch changes nothing. Only what was
    drawn is spliced into the text; the rest of it stays to the byte.
    """

    tokenizer: Any
    model: Any
    allowed_tokens: Bools
    # Whether it is the tokens that start a word that bear a mark, not those that go on with one.
    marks_word_starts: bool

    @classmethod
    def load(cls, folder: Path) -> MaskedLanguageModel:
        """The model of a folder; it is opened once."""
        return _load_model(Path(folder))

    def resample_tokens(self, texts: list[str], draws: RowStreams, *, share: float) -> list[str]:
        """Every text with up to this share of its tokens drawn anew."""
        torch = torch_package()
        encoded = [self._encode(text) for text in texts]
        generators = list(draws.generators())
        rows = [row for row, text in enumerate(texts) if has_words(text) and encoded[row][1]]
        rows.sort(key=lambda row: len(encoded[row][0]))  # rows of like length pad each other least
        results = list(texts)
        with torch.no_grad():
            for start in range(0, len(rows), BATCH_TEXTS):
                part = rows[start : start + BATCH_TEXTS]
                self._change_rows(
                    results, part, [(*encoded[r], generators[r]) for r in part], share
                )
        return results

    def _encode(self, text: str) -> tuple[list[int], list[tuple[int, int, int]]]:
        """Token numbers, and for each token made of the text: its place, start and end there."""
        limit = min(self.tokenizer.model_max_length, self.model.config.max_position_embeddings)
        found = self.tokenizer(
            text, truncation=True, max_length=limit, return_offsets_mapping=True, verbose=False
        )
        # Some tokenizers count the blank before a word as a part of it.
        spans = [(b - len(text[a:b].lstrip()), b) for a, b in found["offset_mapping"]]
        return found["input_ids"], [(i, a, b) for i, (a, b) in enumerate(spans) if b > a]

    def _change_rows(
        self, results: list[str], part: list[int], rows: list[Any], share: float
    ) -> None:
        chosen = []
        for ids, spans, rng in rows:
            which, masked, mistaken = draw_token_corruption(len(spans), share, rng)
            places = [spans[i] for i in which]
            strangers = rng.choice(np.flatnonzero(self.allowed_tokens), size=len(places))
            chosen.append((places, [ids[place] for place, _, _ in places]))
            for (place, _, _), hidden, wrong, stranger in zip(
                places, masked, mistaken, strangers, strict=True
            ):
                ids[place] = self.tokenizer.mask_token_id if hidden else ids[place]
                ids[place] = int(stranger) if wrong else ids[place]
        logits = self._logits([ids for ids, _, _ in rows])
        for row, (places, old), (_, _, rng), scores in zip(part, chosen, rows, logits, strict=True):
            new = [self._sample_token(scores[place], rng.random()) for place, _, _ in places]
            results[row] = self._splice(results[row], places, old, new)

    def _logits(self, rows: list[list[int]]) -> Floats:
        import torch

        size = max(len(ids) for ids in rows)
        blank = self.tokenizer.pad_token_id or 0
        padded = torch.tensor([ids + [blank] * (size - len(ids)) for ids in rows])
        mask = torch.tensor([[1] * len(ids) + [0] * (size - len(ids)) for ids in rows])
        logits: Floats = self.model(input_ids=padded, attention_mask=mask).logits.double().numpy()
        return logits

    def _sample_token(self, scores: Floats, uniform: float) -> int:
        scores = np.where(self.allowed_tokens, scores[: len(self.allowed_tokens)], -np.inf)
        sums = np.cumsum(np.exp(scores - scores.max()))
        return int(np.searchsorted(sums, uniform * sums[-1], side="right"))

    def _splice(
        self,
        text: str,
        places: Sequence[tuple[int, int, int]],
        old: Sequence[int],
        new: Sequence[int],
    ) -> str:
        """The text with other tokens at some spans; from the right, so that the spans stay true."""
        for (_, start, end), was, token in reversed(list(zip(places, old, new, strict=True))):
            word, starts = self._decode_token(token)
            blank = " " if starts and not self._decode_token(was)[1] and start else ""
            text = text[:start] + blank + word + text[end:]
        return text

    def _decode_token(self, number: int) -> tuple[str, bool]:
        """A token as it is written, and whether a word starts with it."""
        token = self.tokenizer.convert_ids_to_tokens(int(number))
        if token.startswith("##"):
            return token[2:], False
        written = self.tokenizer.convert_tokens_to_string([token]).strip()
        return written, token.startswith(_WORD_START_MARKS) or not self.marks_word_starts


@lru_cache(maxsize=2)
def _load_model(folder: Path) -> MaskedLanguageModel:
    tokenizer, model = load_pretrained(
        folder, "AutoModelForMaskedLM", purpose="a masked language model"
    )
    if not tokenizer.is_fast or tokenizer.mask_token_id is None:
        raise InputError(
            f"The tokenizer in {str(folder)!r} has no mask or no tokenizer.json; a fast tokenizer "
            "with a mask was expected. Choose the folder of a fill-mask model."
        )
    marks_starts = any(token.startswith(_WORD_START_MARKS) for token in tokenizer.get_vocab())
    ordinary = _find_allowed_tokens(tokenizer, model.config.vocab_size)
    return MaskedLanguageModel(tokenizer, model, ordinary, marks_starts)


def _find_allowed_tokens(tokenizer: Any, size: int) -> Bools:
    """Which tokens may be proposed: those that are written, not the special and unused ones."""
    ordinary = np.zeros(size, dtype=np.bool_)
    for token, number in tokenizer.get_vocab().items():
        if number < size:
            ordinary[number] = not token.startswith("[unused")
    ordinary[list(tokenizer.all_special_ids)] = False
    return ordinary
