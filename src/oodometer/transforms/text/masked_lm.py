"""Fill in masked tokens by a local masked language model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from oodometer.core.array_types import Bools, Floats, Ints
from oodometer.core.errors import InputError
from oodometer.core.optional_imports import torch_package
from oodometer.core.random_streams import RowStreams
from oodometer.models.huggingface import load_pretrained
from oodometer.transforms.strength import Strength, draw_change_count
from oodometer.transforms.text._word_splitting import has_words

BATCH_TEXTS = 16
_MASKED_SHARE = 0.8
_MASKED_OR_REPLACED_SHARE = 0.9
# Characters by which byte-level BPE and SentencePiece mark a token that starts a word. WordPiece
# instead marks tokens that continue a word, by ##.
_WORD_START_MARKS = ("Ġ", "▁")
_HOOK_LOCK = Lock()


def draw_token_corruption(
    n: int, share: float, rng: np.random.Generator, *, strength: Strength = "up_to"
) -> tuple[Ints, Bools, Bools]:
    """Choose which of n tokens to resample, and how to corrupt each of them.

    Return the sorted indices of the chosen tokens, which of them to mask (80%), and which to
    replace by random tokens (10%). The remaining 10% are also resampled, but the model sees the
    original token. `strength` determines the number of chosen tokens.
    """
    order = rng.permutation(n)
    chosen = np.sort(order[: draw_change_count(share, n, rng.random(), strength=strength)])
    u = rng.random(len(chosen))
    is_masked = u < _MASKED_SHARE
    is_replaced = (u >= _MASKED_SHARE) & (u < _MASKED_OR_REPLACED_SHARE)
    return chosen, is_masked, is_replaced


@dataclass(frozen=True, eq=False)
class MaskedLanguageModel:
    """Masked language model: a tokenizer, a network, and the tokens that may be sampled.

    Random numbers come from each row's own stream, so that the results do not depend on the batch
    size. Sampled tokens are inserted into the original text, and the rest of the text is not
    changed.
    """

    tokenizer: Any
    model: Any
    allowed_tokens: Bools
    # True if the tokenizer marks tokens that start a word, False if it marks continuations.
    marks_word_starts: bool

    @classmethod
    def load(cls, folder: Path) -> MaskedLanguageModel:
        """Return the model in a folder, from a cache if it has been loaded before."""
        return _load_model(Path(folder))

    def resample_tokens(
        self, texts: list[str], draws: RowStreams, *, share: float, strength: Strength = "up_to"
    ) -> list[str]:
        """Resample tokens of every text: at least one, and at most a fraction `share` of them.

        At fixed strength, the fraction is `share`, rounded up to a whole number of tokens.
        """
        torch = torch_package()
        encoded = [self._encode(text) for text in texts]
        generators = list(draws.generators())
        rows = [row for row, text in enumerate(texts) if has_words(text) and encoded[row][1]]
        rows.sort(key=lambda row: len(encoded[row][0]))  # similar lengths need little padding
        results = list(texts)
        with torch.no_grad():
            for start in range(0, len(rows), BATCH_TEXTS):
                batch = rows[start : start + BATCH_TEXTS]
                self._resample_batch(
                    results,
                    batch,
                    [(*encoded[row], generators[row]) for row in batch],
                    share=share,
                    strength=strength,
                )
        return results

    def _encode(self, text: str) -> tuple[list[int], list[tuple[int, int, int]]]:
        """Return all token ids, and the index, start and end of each token that is in the text."""
        limit = min(self.tokenizer.model_max_length, self.model.config.max_position_embeddings)
        encoding = self.tokenizer(
            text, truncation=True, max_length=limit, return_offsets_mapping=True, verbose=False
        )
        # Some tokenizers count the space before a word as a part of the word.
        spans = [(b - len(text[a:b].lstrip()), b) for a, b in encoding["offset_mapping"]]
        return encoding["input_ids"], [(i, a, b) for i, (a, b) in enumerate(spans) if b > a]

    def _resample_batch(
        self,
        results: list[str],
        batch: list[int],
        encoded: list[Any],
        *,
        share: float,
        strength: Strength,
    ) -> None:
        """Corrupt tokens of a batch of texts, and replace them by samples from the network."""
        chosen = []
        for ids, spans, rng in encoded:
            which, is_masked, is_replaced = draw_token_corruption(
                len(spans), share, rng, strength=strength
            )
            selected = [spans[i] for i in which]
            random_ids = rng.choice(np.flatnonzero(self.allowed_tokens), size=len(selected))
            chosen.append((selected, [ids[index] for index, _, _ in selected]))
            for (index, _, _), mask, swap, random_id in zip(
                selected, is_masked, is_replaced, random_ids, strict=True
            ):
                if mask:
                    ids[index] = self.tokenizer.mask_token_id
                elif swap:
                    ids[index] = int(random_id)
        positions = [
            (row, index) for row, (selected, _) in enumerate(chosen) for index, _, _ in selected
        ]
        logits = iter(self._logits([ids for ids, _, _ in encoded], positions))
        for row, (selected, old), (_, _, rng) in zip(batch, chosen, encoded, strict=True):
            new = [self._sample_token(next(logits), rng.random()) for _ in selected]
            results[row] = self._splice(results[row], selected, old, new)

    def _logits(self, rows: list[list[int]], positions: Sequence[tuple[int, int]]) -> Floats:
        """Return the logits of the tokens at some positions (row, index)."""
        import torch

        size = max(len(ids) for ids in rows)
        padding = self.tokenizer.pad_token_id or 0
        padded = torch.tensor([ids + [padding] * (size - len(ids)) for ids in rows])
        mask = torch.tensor([[1] * len(ids) + [0] * (size - len(ids)) for ids in rows])
        with _only_positions(self.model.base_model, positions):
            logits = self.model(input_ids=padded, attention_mask=mask).logits
        scores: Floats = logits.squeeze(0).double().numpy()
        return scores

    def _sample_token(self, scores: Floats, uniform: float) -> int:
        scores = np.where(self.allowed_tokens, scores[: len(self.allowed_tokens)], -np.inf)
        sums = np.cumsum(np.exp(scores - scores.max()))
        return int(np.searchsorted(sums, uniform * sums[-1], side="right"))

    def _splice(
        self,
        text: str,
        spans: Sequence[tuple[int, int, int]],
        old: Sequence[int],
        new: Sequence[int],
    ) -> str:
        """Replace the tokens at some spans, from right to left, so that the offsets stay valid."""
        for (_, start, end), old_id, new_id in reversed(list(zip(spans, old, new, strict=True))):
            token, starts_word = self._decode_token(new_id)
            needs_space = starts_word and not self._decode_token(old_id)[1] and start
            text = text[:start] + (" " if needs_space else "") + token + text[end:]
        return text

    def _decode_token(self, token_id: int) -> tuple[str, bool]:
        """Return a token as text, and whether it starts a word."""
        token = self.tokenizer.convert_ids_to_tokens(int(token_id))
        if token.startswith("##"):
            return token[2:], False
        written = self.tokenizer.convert_tokens_to_string([token]).strip()
        return written, token.startswith(_WORD_START_MARKS) or not self.marks_word_starts


@contextmanager
def _only_positions(encoder: Any, positions: Sequence[tuple[int, int]]) -> Iterator[None]:
    """Pass only the hidden states at some positions (row, index) on to the head of the network.

    The head maps every hidden state to one score per token of the vocabulary. Over all positions,
    that takes longer than the rest of the network.
    """
    rows, columns = (list(part) for part in zip(*positions, strict=True))

    def select(_: Any, __: Any, output: Any) -> Any:
        output["last_hidden_state"] = output[0][rows, columns].unsqueeze(0)
        return output

    # Threads that draw the next inputs share the network.
    with _HOOK_LOCK:
        hook = encoder.register_forward_hook(select)
        try:
            yield
        finally:
            hook.remove()


@lru_cache(maxsize=2)
def _load_model(folder: Path) -> MaskedLanguageModel:
    tokenizer, model = load_pretrained(
        folder, "AutoModelForMaskedLM", purpose="a masked language model"
    )
    if not tokenizer.is_fast or tokenizer.mask_token_id is None:
        raise InputError(
            f"The tokenizer in {str(folder)!r} has no mask token or no tokenizer.json. Use the folder "
            "of a fill-mask model with a fast tokenizer."
        )
    return MaskedLanguageModel(
        tokenizer=tokenizer,
        model=model,
        allowed_tokens=_find_allowed_tokens(tokenizer, model.config.vocab_size),
        marks_word_starts=any(
            token.startswith(_WORD_START_MARKS) for token in tokenizer.get_vocab()
        ),
    )


def _find_allowed_tokens(tokenizer: Any, size: int) -> Bools:
    """Return a mask of the tokens that may be sampled; special and unused tokens may not."""
    allowed = np.zeros(size, dtype=np.bool_)
    for token, token_id in tokenizer.get_vocab().items():
        if token_id < size:
            allowed[token_id] = not token.startswith("[unused")
    allowed[list(tokenizer.all_special_ids)] = False
    return allowed
