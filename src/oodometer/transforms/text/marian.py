"""Back-translation by two local Marian models, with sampling (Junczys-Dowmunt et al., ACL 2018).

A folder contains a model as published for Hugging Face (for English and German: opus-mt-en-de and
opus-mt-de-en), with weights as safetensors. The tokenizer of Marian needs the package
sentencepiece. Folders of other encoder-decoder models also work if they contain a tokenizer.json.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from oodometer.core.array_types import Floats, Ints
from oodometer.core.errors import InputError, MissingExtra
from oodometer.core.optional_imports import torch_package
from oodometer.models.huggingface import load_pretrained

BATCH_SENTENCES = 16
# Maximum number of tokens of a translation. A translation also has at most 2 n + 10 tokens, where n
# is the number of tokens of the original.
MAX_TOKENS = 200
# Lower temperatures are replaced by this one. It already selects the most likely token almost
# always, and logits divided by a much lower temperature could overflow.
_MIN_TEMPERATURE = 1e-3


@dataclass(frozen=True)
class Marian:
    """Round-trip translator that uses two local models.

    `forward` and `backward` are the folders of the models that translate to the pivot language and
    back. The weights must be safetensors.
    """

    forward: Path
    backward: Path
    name: ClassVar[str] = "marian"

    def sample(self, sentences: list[str], temperatures: Floats, uniforms: Floats) -> list[str]:
        """Return a random translation of every sentence to the pivot language and back.

        `temperatures` has one temperature per sentence. `uniforms` has 2 · MAX_TOKENS random
        numbers per sentence, one for each token that may be sampled.
        """
        pivot = _sample_translations(
            Path(self.forward), sentences, temperatures, uniforms[:, :MAX_TOKENS]
        )
        return _sample_translations(
            Path(self.backward), pivot, temperatures, uniforms[:, MAX_TOKENS:]
        )


def _sample_translations(
    folder: Path, sentences: list[str], temperatures: Floats, uniforms: Floats
) -> list[str]:
    torch = torch_package()
    tokenizer, model = _load_model(folder)
    results: list[str] = []
    with torch.no_grad():
        for start in range(0, len(sentences), BATCH_SENTENCES):
            rows = slice(start, start + BATCH_SENTENCES)
            tokens = _sample_tokens(
                tokenizer, model, sentences[rows], temperatures[rows], uniforms[rows]
            )
            results += tokenizer.batch_decode(tokens, skip_special_tokens=True)
    return results


def _sample_tokens(
    tokenizer: Any, model: Any, sentences: list[str], temperatures: Floats, uniforms: Floats
) -> list[list[int]]:
    """Return sampled tokens for each sentence; step i uses random number i of the sentence."""
    import torch

    config = model.config
    encoding = tokenizer(
        sentences, return_tensors="pt", padding=True, truncation=True,
        max_length=min(tokenizer.model_max_length, getattr(config, "max_position_embeddings", 512)),
    )  # fmt: skip
    mask = encoding["attention_mask"]
    encoded = model.get_encoder()(input_ids=encoding["input_ids"], attention_mask=mask)
    limits = np.minimum(2 * mask.sum(dim=1).numpy() + 10, MAX_TOKENS)
    last = np.full(len(sentences), config.decoder_start_token_id)
    tokens: list[list[int]] = [[] for _ in sentences]
    is_active = np.ones(len(sentences), dtype=np.bool_)
    past = None
    for step in range(int(limits.max())):
        output = model(
            encoder_outputs=encoded, attention_mask=mask, past_key_values=past, use_cache=True,
            decoder_input_ids=torch.from_numpy(last[:, None]),
        )  # fmt: skip
        past = output.past_key_values
        logits = output.logits[:, -1].double().numpy()
        last = _sample_next(logits, temperatures, uniforms[:, step], config)
        is_active = is_active & (last != config.eos_token_id) & (step < limits)
        if not is_active.any():
            break
        for row in np.flatnonzero(is_active):
            tokens[row].append(int(last[row]))
    return tokens


def _sample_next(logits: Floats, temperatures: Floats, uniforms: Floats, config: Any) -> Ints:
    """Sample one token per row from softmax(logits / temperature), but never the padding token."""
    if config.pad_token_id is not None and config.pad_token_id != config.eos_token_id:
        logits[:, config.pad_token_id] = -np.inf
    scaled = logits / np.maximum(temperatures, _MIN_TEMPERATURE)[:, None]
    sums = np.cumsum(np.exp(scaled - scaled.max(axis=1, keepdims=True)), axis=1)
    tokens: Ints = (sums <= (uniforms * sums[:, -1])[:, None]).sum(axis=1)
    return tokens


@lru_cache(maxsize=4)
def _load_model(folder: Path) -> tuple[Any, Any]:
    try:
        with warnings.catch_warnings():
            # The tokenizer of Marian does not use sacremoses when it encodes or decodes texts.
            warnings.filterwarnings("ignore", message="Recommended: pip install sacremoses")
            return load_pretrained(folder, "AutoModelForSeq2SeqLM", purpose="a translation model")
    except InputError as error:
        if "sentencepiece" in str(error.__cause__).lower() and find_spec("sentencepiece") is None:
            raise MissingExtra(
                f"The tokenizer in {str(folder)!r} needs the package 'sentencepiece', which is not "
                'installed. Install it with: pip install "oodometer[hf]"'
            ) from error
        raise
