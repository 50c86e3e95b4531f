from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from oodometer.core.errors import InputError, MissingExtra
from oodometer.transforms.text import marian as module
from oodometer.transforms.text.backtranslation import BackTranslation
from oodometer.transforms.text.marian import MAX_TOKENS, Marian, _sample_next
from tests.transforms.text.test_word_splitting import draws_for

WORDS = ["<s>", "<pad>", "</s>", "<unk>", "the", "a", "cat", "dog", "runs", "well", "."]
TEXTS = ["the cat runs . a dog runs well .", "a dog", "", "?", "the the the cat cat . " * 4]


def save_model(place: Path, seed: int, architecture: str = "bart") -> Path:
    """Save a one-layer network with eleven words, separated by spaces.

    The architecture is BART, or FSMT: that of the English and German models of Ng et al. (2022).
    """
    import tokenizers
    import torch
    import transformers

    inner = tokenizers.Tokenizer(
        tokenizers.models.WordLevel({w: i for i, w in enumerate(WORDS)}, unk_token="<unk>")
    )
    inner.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    inner.post_processor = tokenizers.processors.TemplateProcessing(
        single="$A </s>", special_tokens=[("</s>", 2)]
    )
    transformers.PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=inner, pad_token="<pad>", eos_token="</s>", unk_token="<unk>",
        bos_token="<s>",
    ).save_pretrained(place)  # fmt: skip
    torch.manual_seed(seed)
    sizes: dict[str, Any] = {
        "d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2,
        "decoder_attention_heads": 2, "encoder_ffn_dim": 16, "decoder_ffn_dim": 16,
        "max_position_embeddings": 300, "init_std": 0.6,
    }  # fmt: skip
    network: Any
    if architecture == "bart":
        network = transformers.BartForConditionalGeneration(
            transformers.BartConfig(vocab_size=len(WORDS), **sizes)
        )
    else:
        network = transformers.FSMTForConditionalGeneration(
            transformers.FSMTConfig(
                langs=["en", "de"], src_vocab_size=len(WORDS), tgt_vocab_size=len(WORDS), **sizes
            )
        )
    network.save_pretrained(place)
    return place


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Marian:
    there, back = (tmp_path_factory.mktemp(name) for name in ("there", "back"))
    return Marian(save_model(there, 0), save_model(back, 1))


def test_batch_does_not_change_translations(pair: Marian) -> None:
    transform, draws = BackTranslation(translator=pair), draws_for(TEXTS)
    whole = transform.apply(TEXTS, draws)
    alone = [transform.apply([t], draws.rows(slice(i, i + 1)))[0] for i, t in enumerate(TEXTS)]
    assert whole == alone
    assert whole[0] != TEXTS[0]
    assert whole[2:4] == TEXTS[2:4]


@pytest.mark.parametrize("architecture", ["bart", "fsmt"])
def test_sampling_matches_a_loop_without_a_cache(architecture: str, tmp_path: Path) -> None:
    """The reference runs one row at a time, with the full prefix for every token."""
    import torch

    folder = save_model(tmp_path / architecture, 0, architecture)
    tokenizer, model = module._load_model(folder)
    uniforms = np.random.default_rng(0).random((2, MAX_TOKENS))
    sentences, warmth = ["the cat runs .", "a dog"], np.array([0.9, 0.4])
    result = module._sample_translations(folder, sentences, warmth, uniforms)
    for row, sentence in enumerate(sentences):
        encoding = tokenizer(sentence, return_tensors="pt")
        ids: list[int] = [model.config.decoder_start_token_id]
        for step in range(2 * encoding["input_ids"].shape[1] + 10):
            with torch.no_grad():
                out = model(
                    input_ids=encoding["input_ids"], attention_mask=encoding["attention_mask"],
                    decoder_input_ids=torch.tensor([ids]), use_cache=False,
                )  # fmt: skip
            scores = out.logits[0, -1].double().numpy()
            scores[1] = -np.inf
            probs = np.exp(scores / warmth[row] - (scores / warmth[row]).max())
            token = int(np.searchsorted(np.cumsum(probs / probs.sum()), uniforms[row, step]))
            if token == 2:
                break
            ids.append(token)
        assert result[row] == tokenizer.decode(ids[1:], skip_special_tokens=True)


def test_tokens_are_sampled_at_the_temperature_of_their_row() -> None:
    class Config:
        pad_token_id, eos_token_id = 0, 1

    grid = (np.arange(4000) + 0.5) / 4000
    logits = np.tile(np.array([9.0, 0.0, 1.0, 2.0]), (4000, 1))
    drawn = (
        np.bincount(_sample_next(logits, np.full(4000, 0.5), grid, Config()), minlength=4) / 4000
    )
    weights = np.array([0.0, *np.exp(np.array([0.0, 2.0, 4.0]))])
    np.testing.assert_allclose(drawn, weights / weights.sum(), atol=1e-3)
    logits = np.tile(np.array([9.0, 0.0, 1.0, 2.0]), (4000, 1))
    assert set(_sample_next(logits, np.zeros(4000), grid, Config()).tolist()) == {3}


def test_folder_without_a_model_raises(pair: Marian, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"Cannot open .* as a translation model") as caught:
        BackTranslation(translator=Marian(tmp_path, tmp_path)).apply(["a"], draws_for(["a"]))
    assert "\n" not in str(caught.value)


def test_missing_sentencepiece_raises(monkeypatch: pytest.MonkeyPatch, pair: Marian) -> None:
    import transformers

    def refuse(*args: Any, **settings: Any) -> None:
        raise ImportError("\nMarianTokenizer requires the SentencePiece library")

    monkeypatch.setattr(transformers.AutoTokenizer, "from_pretrained", refuse)
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"needs the package 'sentencepiece'.* pip install"):
        module._load_model(pair.forward / ".." / pair.forward.name)
