"""Translation there and back by two local sequence-to-sequence models, sampled.

Made for Marian (Junczys-Dowmunt et al., ACL 2018), whose tokenizer needs the package
sentencepiece; other encoder-decoder folders with a tokenizer.json work as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from oodometer.core.array_types import Bools, Floats, Ints
from oodometer.core.errors import InputError, MissingExtra
from oodometer.core.optional_imports import torch_package
from oodometer.models.huggingface import load_pretrained

BATCH_SENTENCES = 16
# The most tokens of a translated sentence; a sentence may also grow to twice its length and ten.
MAX_TOKENS = 200
# Colder than this is as good as the likeliest token each time, and does not overflow.
_MIN_TEMPERATURE = 1e-3


@dataclass(frozen=True)
class Marian:
    """Sentences to a pivot language and back, by the models in two folders (safetensors)."""

    forward: Path
    backward: Path
    name: ClassVar[str] = "marian"

    def sample(self, sentences: list[str], temperatures: Floats, uniforms: Floats) -> list[str]:
        """Every sentence there and back; a row of `uniforms` has 2 · LONGEST numbers."""
        there = _sample_translations(
            Path(self.forward), sentences, temperatures, uniforms[:, :MAX_TOKENS]
        )
        return _sample_translations(
            Path(self.backward), there, temperatures, uniforms[:, MAX_TOKENS:]
        )


def _sample_translations(
    folder: Path, sentences: list[str], temperatures: Floats, uniforms: Floats
) -> list[str]:
    torch = torch_package()
    tokenizer, model = _load_model(folder)
    results: list[str] = []
    with torch.no_grad():
        for start in range(0, len(sentences), BATCH_SENTENCES):
            part = slice(start, start + BATCH_SENTENCES)
            tokens = _sample_tokens(
                tokenizer, model, sentences[part], (temperatures[part], uniforms[part])
            )
            results += tokenizer.batch_decode(tokens, skip_special_tokens=True)
    return results


def _sample_tokens(
    tokenizer: Any, model: Any, sentences: list[str], sampling_inputs: tuple[Floats, Floats]
) -> list[list[int]]:
    """Token numbers drawn one after another, each row by its own temperature and numbers."""
    import torch

    config = model.config
    given = tokenizer(
        sentences, return_tensors="pt", padding=True, truncation=True,
        max_length=min(tokenizer.model_max_length, getattr(config, "max_position_embeddings", 512)),
    )  # fmt: skip
    mask = given["attention_mask"]
    encoded = model.get_encoder()(input_ids=given["input_ids"], attention_mask=mask)
    limits = np.minimum(2 * mask.sum(dim=1).numpy() + 10, MAX_TOKENS)
    last = np.full(len(sentences), config.decoder_start_token_id)
    drawn: list[list[int]] = [[] for _ in sentences]
    going, past = np.ones(len(sentences), dtype=np.bool_), None
    for step in range(int(limits.max())):
        out = model(
            encoder_outputs=encoded, attention_mask=mask, past_key_values=past, use_cache=True,
            decoder_input_ids=torch.from_numpy(last[:, None]),
        )  # fmt: skip
        past = out.past_key_values
        last = _sample_next(
            out.logits[:, -1].double().numpy(),
            sampling_inputs[0],
            sampling_inputs[1][:, step],
            config,
        )
        going = going & (last != config.eos_token_id) & (step < limits)
        if not going.any():
            break
        _append_tokens(drawn, last, going)
    return drawn


def _append_tokens(drawn: list[list[int]], last: Ints, going: Bools) -> None:
    for row in np.flatnonzero(going):
        drawn[row].append(int(last[row]))


def _sample_next(logits: Floats, temperatures: Floats, uniforms: Floats, config: Any) -> Ints:
    """A token a row, by inversion of softmax(logits / temperature); padding is never drawn."""
    if config.pad_token_id is not None and config.pad_token_id != config.eos_token_id:
        logits[:, config.pad_token_id] = -np.inf
    scaled = logits / np.maximum(temperatures, _MIN_TEMPERATURE)[:, None]
    sums = np.cumsum(np.exp(scaled - scaled.max(axis=1, keepdims=True)), axis=1)
    found: Ints = (sums <= (uniforms * sums[:, -1])[:, None]).sum(axis=1)
    return found


@lru_cache(maxsize=4)
def _load_model(folder: Path) -> tuple[Any, Any]:
    try:
        return load_pretrained(folder, "AutoModelForSeq2SeqLM", purpose="a translation model")
    except InputError as error:
        if "sentencepiece" in str(error.__cause__).lower() and find_spec("sentencepiece") is None:
            raise MissingExtra(
                f"The tokenizer in {str(folder)!r} needs the package 'sentencepiece', which is not "
                "installed. Install it with: pip install sentencepiece"
            ) from error
        raise
